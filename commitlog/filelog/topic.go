package filelog

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// topic is one handle of a store.
type topic struct {
	l      *fileLog
	s      *store
	closed atomic.Bool
	gone   chan struct{} // closed with the handle: ends its waits, others of the store go on
}

var (
	_ driver.Topic          = (*topic)(nil)
	_ driver.InlineAppender = (*topic)(nil)
)

func (t *topic) Config() driver.TopicConfig { return t.s.config() }

func (t *topic) enter(ctx context.Context) error {
	if t.closed.Load() {
		return fmt.Errorf("topic %q: the handle: %w", t.s.name, fault.Closed)
	}
	return t.s.enter(ctx)
}

func (t *topic) Append(ctx context.Context, req *driver.AppendRequest, done func(first int64, err error)) {
	t.append(ctx, req, done, false)
}

func (t *topic) AppendInline(ctx context.Context, req *driver.AppendRequest, done func(first int64, err error)) {
	t.append(ctx, req, done, true)
}

func (t *topic) append(ctx context.Context, req *driver.AppendRequest, done func(int64, error), inline bool) {
	if err := t.enter(ctx); err != nil {
		if ctx.Err() != nil {
			err = notDone(err)
		}
		done(0, err)
		return
	}
	defer t.s.leave()
	var err error
	if now := time.Now().UnixMilli(); inline {
		err = t.s.appendInline(ctx, req, now, done)
	} else {
		err = t.s.in.add(ctx, req, now, done)
	}
	if err != nil {
		done(0, t.s.verdict(fmt.Errorf("append to topic %q: %w", t.s.name, err)))
	}
}

func (t *topic) Read(ctx context.Context, req driver.ReadRequest, dst []driver.Record) ([]driver.Record, int64, error) {
	if err := t.enter(ctx); err != nil {
		return dst, req.Offset, err
	}
	defer t.s.leave()
	dst, next, err := t.s.read(&req, dst)
	return dst, next, t.s.verdict(err)
}

// call makes one call of the store.
func (t *topic) call(ctx context.Context, f func() error) error {
	if err := t.enter(ctx); err != nil {
		return err
	}
	defer t.s.leave()
	return t.s.verdict(f())
}

func (t *topic) Wait(ctx context.Context, partition int, offset int64) error {
	return t.call(ctx, func() error { return t.s.wait(ctx, t.gone, partition, offset) })
}

func (t *topic) Bounds(ctx context.Context, partition int) (b driver.Bounds, err error) {
	err = t.call(ctx, func() (err error) {
		b.First, b.Next, b.Sealed, err = t.s.bounds(partition)
		return err
	})
	return b, err
}

func (t *topic) OffsetAt(ctx context.Context, partition int, millis int64) (at int64, err error) {
	err = t.call(ctx, func() (err error) {
		at, err = t.s.offsetAt(ctx, partition, millis)
		return err
	})
	return at, err
}

func (t *topic) Trim(ctx context.Context, partition int, before int64) error {
	return t.call(ctx, func() error { return t.s.trim(partition, before) })
}

func (t *topic) Hold(ctx context.Context, name string, offsets []int64) error {
	return t.call(ctx, func() error { return t.s.hold(name, offsets) })
}

func (t *topic) Holds(ctx context.Context) (holds map[string][]int64, err error) {
	err = t.call(ctx, func() (err error) { holds, err = t.s.namedHolds(); return err })
	return holds, err
}

func (t *topic) Seal(ctx context.Context) (ends []int64, err error) {
	err = t.call(ctx, func() (err error) {
		if ends, err = t.s.seal(ctx); err == nil { // by any level: the ends are going to be stored where they may outlive the log's
			err = t.s.awaitSync(t.s.page.Written())
		}
		return err
	})
	return ends, err
}

func (t *topic) Close() error {
	if t.closed.Swap(true) {
		return nil
	}
	close(t.gone)
	return t.l.release(t.s)
}

// seal appends the seal frame; a topic that is sealed already has one.
func (s *store) seal(ctx context.Context) ([]int64, error) {
	ch := make(chan error, 1)
	if err := s.in.addSeal(func(_ int64, err error) { ch <- err }); err != nil {
		return nil, fmt.Errorf("seal topic %q: %w", s.name, err)
	}
	select {
	case err := <-ch:
		if err != nil {
			return nil, fmt.Errorf("seal topic %q: %w", s.name, err)
		}
	case <-ctx.Done():
		return nil, fmt.Errorf("seal topic %q: %w: %w", s.name, fault.Unknown, ctx.Err())
	}
	ends := make([]int64, s.meta.Config.Partitions)
	for p := range ends {
		_, next, sealed, err := s.bounds(p)
		if err != nil {
			return nil, err
		}
		if !sealed {
			return nil, fmt.Errorf("seal topic %q: the seal is not visible: %w", s.name, fault.Unknown)
		}
		ends[p] = next
	}
	return ends, nil
}

// offsetAt looks for the first record with a time at or after millis.
func (s *store) offsetAt(ctx context.Context, partition int, millis int64) (int64, error) {
	at, _, _, err := s.bounds(partition)
	if err != nil {
		return 0, err
	}
	var recs []driver.Record
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		skipTo, done, err := s.skipOlder(partition, at, millis)
		if err != nil || done {
			return skipTo, err
		}
		req := driver.ReadRequest{Partition: partition, Offset: skipTo, MaxBytes: mergeBytes}
		recs, at, err = s.read(&req, recs[:0])
		if err != nil {
			return 0, err
		}
		for i := range recs {
			if recs[i].Timestamp >= millis {
				return recs[i].Offset, nil
			}
		}
	}
}

// skipOlder moves past closed segments whose records are all older than millis. done: there is
// nothing readable at the offset that it returns.
func (s *store) skipOlder(partition int, at, millis int64) (next int64, done bool, err error) {
	for {
		v := &s.view
		v.mu.Lock()
		err := v.advance()
		p := &v.parts[partition]
		newest := at >= p.base
		end, latest := p.next, p.maxTime
		v.mu.Unlock()
		switch {
		case err != nil:
			return 0, false, err
		case newest && (at >= end || latest < millis):
			return end, true, nil
		case newest:
			return at, false, nil
		}
		g, c, err := s.find(partition, at)
		if err != nil {
			return 0, false, err
		}
		older := c.index.MaxTime(partition) < millis
		if older {
			at = c.ends[partition]
		}
		s.segs.put(g)
		if !older {
			return at, false, nil
		}
	}
}
