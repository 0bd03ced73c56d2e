package pulsarlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

const (
	// prefetchMessages and prefetchBytes bound what a reader takes from the broker ahead of use.
	prefetchMessages = 2000
	prefetchBytes    = 4 << 20
	// arrival is how long a record may take that the broker says it has.
	arrival = 30 * time.Second
	// loading is how long a broker may say that it has not loaded a topic yet.
	loading      = 10 * time.Second
	loadingPause = 100 * time.Millisecond
)

// fetched is a record and the offset behind it.
type fetched struct {
	record driver.Record
	next   int64
}

// cursor is one reader of a partition, that stands at an offset and takes what follows as the
// broker pushes it. A caller that reads on from where it left off finds it again by that offset.
type cursor struct {
	p      *partition
	reader pulsar.Reader
	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine is gone

	mu      sync.Mutex
	at      int64 // the next offset to hand out
	seen    int64 // all below it has arrived
	recs    []fetched
	bytes   int
	err     error
	changed chan struct{} // closed at every arrival
	room    chan struct{} // closed when records were taken
	users   int           // guarded by readers.mu
	used    int64         // likewise
}

// openReader reads entries from that of an offset on. It is patient with a broker that loads the
// topic just now.
func (p *partition) openReader(ctx context.Context, from int64) (pulsar.Reader, error) {
	end := time.Now().Add(loading)
	for {
		r, err := p.tryReader(from)
		if err == nil || !errors.Is(err, fault.Unavailable) || time.Now().After(end) {
			return r, err
		}
		select {
		case <-time.After(loadingPause):
		case <-p.topic.ended:
			return nil, p.topic.why
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (p *partition) tryReader(from int64) (pulsar.Reader, error) {
	start := pulsar.EarliestMessageID()
	if from > 0 {
		ledger, entry := unpack(from)
		// Readers begin behind the id that they get; -1 is before the first entry of a ledger.
		start = pulsar.NewMessageID(ledger, entry-1, -1, -1)
	}
	r, err := p.topic.log.client.CreateReader(pulsar.ReaderOptions{
		Topic: p.admin().fullName(p.name), StartMessageID: start, ReceiverQueueSize: prefetchMessages, SubscriptionRolePrefix: subscription + "-reader",
	})
	if err != nil {
		if isGone(err) {
			return nil, p.fail("read", fmt.Errorf("it was deleted: %w", fault.NotFound))
		}
		return nil, p.fail("read", fmt.Errorf("%w: %w", fault.Unavailable, err))
	}
	return r, nil
}

func (p *partition) openCursor(ctx context.Context, from int64) (*cursor, error) {
	r, err := p.openReader(ctx, from)
	if err != nil {
		return nil, err
	}
	pumping, cancel := context.WithCancel(context.Background())
	c := &cursor{p: p, reader: r, cancel: cancel, done: make(chan struct{}), at: from, seen: from, changed: make(chan struct{}), room: make(chan struct{})}
	go c.pump(pumping, from) // joined by close
	return c, nil
}

// pump takes messages until the cursor is closed or the reader fails.
func (c *cursor) pump(ctx context.Context, from int64) {
	defer close(c.done)
	for {
		m, err := c.reader.Next(ctx)
		if err != nil {
			c.fail(fmt.Errorf("%w: %w", fault.Unavailable, err))
			return
		}
		rec, isRecord, err := decode(m)
		if err != nil {
			c.fail(err)
			return
		}
		offset, err := packID(m.ID())
		if err != nil {
			c.fail(err)
			return
		}
		if offset < from {
			continue // before the start in its entry, or sent again after a new connection
		}
		from = offset + 1
		if size := m.ID().BatchSize(); m.ID().BatchIdx()+1 >= size {
			if from, err = after(m.ID().LedgerID(), m.ID().EntryID()); err != nil {
				c.fail(err)
				return
			}
		}
		if !c.put(ctx, rec, isRecord, from) {
			return
		}
	}
}

func (c *cursor) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	close(c.changed)
	c.changed = make(chan struct{})
}

// put stores an arrival, when there is room.
func (c *cursor) put(ctx context.Context, rec driver.Record, isRecord bool, next int64) bool {
	c.mu.Lock()
	for c.bytes > prefetchBytes {
		room := c.room
		c.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return false
		}
		c.mu.Lock()
	}
	defer c.mu.Unlock()
	if isRecord {
		rec.Value = slices.Clip(rec.Value)
		c.recs = append(c.recs, fetched{rec, next})
		c.bytes += messageBytes(&rec)
	}
	c.seen = next
	close(c.changed)
	c.changed = make(chan struct{})
	return true
}

// take hands out records from offset on; ok is false when the cursor stands elsewhere.
func (c *cursor) take(offset int64, maxBytes int, dst []driver.Record) (recs []driver.Record, next int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at != offset {
		return dst, offset, false
	}
	total, n := 0, 0
	for n < len(c.recs) {
		size := len(c.recs[n].record.Key) + len(c.recs[n].record.Value)
		for _, h := range c.recs[n].record.Headers {
			size += len(h.Name) + len(h.Value)
		}
		if total += size; n > 0 && total > maxBytes {
			break
		}
		dst = append(dst, c.recs[n].record)
		c.at = c.recs[n].next
		c.bytes -= messageBytes(&c.recs[n].record)
		n++
	}
	if n > 0 {
		clear(c.recs[:n])
		c.recs = c.recs[n:]
		close(c.room)
		c.room = make(chan struct{})
	}
	return dst, c.at, true
}

// await blocks until a record has arrived or everything below end.
func (c *cursor) await(ctx context.Context, end int64) error {
	for {
		c.mu.Lock()
		ready, err, changed := len(c.recs) > 0 || c.seen >= end, c.err, c.changed
		c.mu.Unlock()
		if ready {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// skip moves a cursor over a gap.
func (c *cursor) skip(from, to int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == from && len(c.recs) == 0 && c.at < to {
		c.at = to
	}
}

func (c *cursor) close() {
	c.cancel()
	<-c.done
	c.reader.Close()
}

// scan calls f with every message from an offset up to end, markers too.
func (p *partition) scan(ctx context.Context, from, end int64, f func(m pulsar.Message, offset int64)) error {
	if from >= end {
		return nil
	}
	r, err := p.openReader(ctx, from)
	if err != nil {
		return err
	}
	defer r.Close()
	for at := from; at < end; {
		m, err := r.Next(ctx)
		if err != nil {
			return p.fail("scan", errors.Join(fault.Unavailable, err))
		}
		offset, err := packID(m.ID())
		if err != nil {
			return err
		}
		if offset >= at { // the broker may begin an entry early
			f(m, offset)
		}
		if m.ID().BatchIdx()+1 >= m.ID().BatchSize() {
			behind, err := after(m.ID().LedgerID(), m.ID().EntryID())
			if err != nil {
				return err
			}
			at = max(at, behind)
		}
	}
	return nil
}
