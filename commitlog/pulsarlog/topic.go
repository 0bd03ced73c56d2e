package pulsarlog

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// topic is what the handles of a log share: its producers and readers.
type topic struct {
	log     *log
	config  driver.TopicConfig // its retention is that of when it was opened, see now
	kept    atomic.Pointer[driver.TopicConfig]
	handles int // guarded by log.mu
	parts   []*partition

	tending sync.WaitGroup
	cancel  context.CancelFunc // of what tends it; nil: nothing does

	once  sync.Once
	ended chan struct{}
	why   error // set before ended is closed
}

func newTopic(l *log, c driver.TopicConfig) *topic {
	t := &topic{log: l, config: c, ended: make(chan struct{})}
	t.kept.Store(&c)
	for i := range c.Partitions {
		t.parts = append(t.parts, newPartition(t, i))
	}
	return t
}

// open starts what tends the topic until its end.
func (t *topic) open() {
	ctx, cancel := context.WithCancel(context.Background())
	t.cancel = cancel
	t.tending.Go(func() { t.tend(ctx) }) // joined by end
}

// end answers what is under way, stops every goroutine of the topic, and returns when they are
// gone.
func (t *topic) end(why error) {
	t.once.Do(func() {
		t.why = why
		close(t.ended)
		if t.cancel != nil {
			t.cancel()
		}
		t.tending.Wait()
		var stops sync.WaitGroup
		for _, p := range t.parts {
			stops.Go(p.stop) // joined below
		}
		stops.Wait()
	})
}

// handle is one open of a topic.
type handle struct {
	topic  *topic
	once   sync.Once
	closed chan struct{}
}

var _ driver.Topic = (*handle)(nil)

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func (h *handle) usable(ctx context.Context) error {
	switch {
	case isClosed(h.topic.ended):
		return h.topic.why
	case isClosed(h.closed):
		return fmt.Errorf("topic %q: this handle is %w", h.topic.config.Name, fault.Closed)
	}
	return ctx.Err()
}

func (h *handle) Config() driver.TopicConfig { return *h.topic.kept.Load() }

func (h *handle) Append(ctx context.Context, req *driver.AppendRequest, done func(int64, error)) {
	err := h.usable(ctx)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("append to topic %q: %w: %w", h.topic.config.Name, fault.NotDone, err)
	}
	if err == nil {
		err = h.topic.parts[req.Partition].enqueue(ctx, h, req, done)
	}
	if err != nil {
		done(0, err)
	}
}

func (h *handle) Read(ctx context.Context, req driver.ReadRequest, dst []driver.Record) ([]driver.Record, int64, error) {
	if err := h.usable(ctx); err != nil {
		return dst, req.Offset, err
	}
	return h.topic.parts[req.Partition].read(ctx, req, dst)
}

func (h *handle) Wait(ctx context.Context, partition int, offset int64) error {
	if err := h.usable(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watching sync.WaitGroup
	watching.Go(func() { // joined below
		select {
		case <-h.closed:
		case <-h.topic.ended:
		case <-ctx.Done():
		}
		cancel()
	})
	err := h.topic.parts[partition].wait(ctx, offset)
	cancel()
	watching.Wait()
	if err != nil {
		if gone := h.usable(context.Background()); gone != nil {
			return gone
		}
	}
	return err
}

func (h *handle) Bounds(ctx context.Context, partition int) (driver.Bounds, error) {
	if err := h.usable(ctx); err != nil {
		return driver.Bounds{}, err
	}
	b, err := h.topic.parts[partition].bounds(ctx)
	return b, err
}

func (h *handle) OffsetAt(ctx context.Context, partition int, millis int64) (int64, error) {
	if err := h.usable(ctx); err != nil {
		return 0, err
	}
	return h.topic.parts[partition].offsetAt(ctx, millis)
}

func (h *handle) Trim(ctx context.Context, partition int, before int64) error {
	if err := h.usable(ctx); err != nil {
		return err
	}
	return h.topic.parts[partition].trim(ctx, before)
}

func (h *handle) Hold(ctx context.Context, name string, offsets []int64) error {
	if err := h.usable(ctx); err != nil {
		return err
	}
	return h.topic.hold(ctx, name, offsets)
}

// Holds implements driver.Topic.
func (h *handle) Holds(ctx context.Context) (map[string][]int64, error) {
	if err := h.usable(ctx); err != nil {
		return nil, err
	}
	m, err := h.topic.log.admin.metadata(ctx, h.topic.config.Name)
	if err != nil {
		return nil, fmt.Errorf("holds of topic %q: %w", h.topic.config.Name, err)
	}
	return holdsIn(m, h.topic.config.Partitions)
}

// Seal implements driver.Topic: the broker terminates each partition. A message of our own goes
// before it, because the client is not told of the end of a topic and readers would sleep on. A
// seal that a crash interrupted has ended some partitions, not all; sealing again finishes it.
func (h *handle) Seal(ctx context.Context) ([]int64, error) {
	if err := h.usable(ctx); err != nil {
		return nil, err
	}
	ends := make([]int64, len(h.topic.parts))
	var seals errgroup.Group
	seals.SetLimit(8)
	for i, p := range h.topic.parts {
		seals.Go(func() (err error) { ends[i], err = p.seal(ctx, h); return err })
	}
	if err := seals.Wait(); err != nil {
		return nil, fmt.Errorf("seal topic %q (seal it again to finish): %w", h.topic.config.Name, err)
	}
	return ends, nil
}

func (h *handle) Close() error {
	h.once.Do(func() {
		close(h.closed)
		h.topic.log.release(h.topic)
	})
	return nil
}
