package pulsarlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

const (
	// prefetchMessages and prefetchBytes bound what a reader takes from the broker ahead of use.
	prefetchMessages = 2000
	prefetchBytes    = 4 << 20
	// firstArrival is how long a record may take that the broker says it has, before another reader
	// is asked, with twice the patience; lastArrival is the patience with the last one.
	firstArrival = 2 * time.Second
	lastArrival  = 16 * time.Second
	// loading is how long a broker may say that it has not loaded a topic yet.
	loading = 10 * time.Second
	// scanPatience is how long a scan waits for the next message before it connects anew.
	scanPatience = 5 * time.Second
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
	feed   *feed // of the goroutine; nil when there is none
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
	var r pulsar.Reader
	freed := false
	err := patiently(ctx, loading, func() (again bool, err error) {
		if isClosed(p.topic.ended) {
			return false, p.topic.why
		}
		r, err = p.tryReader(from)
		if err != nil && !freed && isFenced(err) {
			freed = p.free(ctx)
		}
		return errors.Is(err, fault.Unavailable), err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (p *partition) tryReader(from int64) (pulsar.Reader, error) {
	start := pulsar.EarliestMessageID()
	if from > 0 {
		ledger, entry := unpack(from)
		// Readers begin behind the id that they get; -1 is before the first entry of a ledger.
		start = pulsar.NewMessageID(ledger, entry-1, -1, -1)
	}
	r, err := p.createReader(pulsar.ReaderOptions{
		Topic: p.admin().fullName(p.name), StartMessageID: start, ReceiverQueueSize: prefetchMessages, SubscriptionRolePrefix: subscription + "-reader",
		BackoffPolicyFunc: newPauses,
	})
	if err != nil {
		if isGone(err) {
			return nil, p.fail("read", fmt.Errorf("it was deleted: %w", fault.NotFound))
		}
		return nil, p.fail("read", p.topic.log.config.logins.explain(err))
	}
	if err := p.topic.log.config.logins.arrivals.check(); err != nil {
		r.Close()
		return nil, p.fail("read", err)
	}
	return r, nil
}

// damaged is the error for what can't be read at an offset.
func (p *partition) damaged(offset, behind int64, err error) error {
	return &driver.CorruptError{
		Topic: p.topic.config.Name, Partition: p.number, Offset: offset, Resume: behind,
		File: "Pulsar topic " + p.name, Position: offset, Detail: err.Error(),
	}
}

// createReader gives the reader of a sealed partition a connection of its own: the client does not
// know what the broker says at the end of such a partition, and closes the connection at it.
func (p *partition) createReader(o pulsar.ReaderOptions) (pulsar.Reader, error) {
	l := p.topic.log
	if p.final.Load() == 0 {
		return l.client.CreateReader(o) //nolint:wrapcheck // the caller does
	}
	client, err := l.config.newClient()
	if err != nil {
		return nil, err
	}
	r, err := client.CreateReader(o)
	if err != nil {
		client.Close()
		return nil, err //nolint:wrapcheck // the caller does
	}
	return &loneReader{Reader: r, client: client}, nil
}

// loneReader is the only user of its client.
type loneReader struct {
	pulsar.Reader
	client pulsar.Client
	once   sync.Once
}

func (r *loneReader) Close() {
	r.once.Do(func() {
		r.Reader.Close()
		r.client.Close()
	})
}

func (p *partition) openCursor(ctx context.Context, from int64) (*cursor, error) {
	pumping, cancel := context.WithCancel(context.Background())
	c := &cursor{p: p, cancel: cancel, done: make(chan struct{}), at: from, seen: from, changed: make(chan struct{}), room: make(chan struct{})}
	if p.isFinal(from) { // nothing will arrive
		close(c.done)
		return c, nil
	}
	f, err := p.openFeed(ctx, from)
	if err != nil {
		cancel()
		return nil, err
	}
	c.feed = f
	go c.pump(pumping) // joined by close
	return c, nil
}

// pump takes messages until the cursor is closed, the feed fails, or a sealed partition ends. What
// has arrived can still be taken then.
func (c *cursor) pump(ctx context.Context) {
	defer close(c.done)
	defer c.feed.close()
	for {
		m, offset, behind, err := c.feed.next(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			c.fail(err)
			return
		}
		var rec driver.Record
		isRecord := false
		if m != nil {
			rec, isRecord, err = decode(m)
		}
		if err != nil {
			c.fail(c.p.damaged(offset, behind, err))
			return
		}
		if !c.put(ctx, rec, isRecord, behind) || c.p.isFinal(behind) {
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
		if total += commitlog.RecordBytes(&c.recs[n].record); n > 0 && total > maxBytes {
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

// arrived is the offset below which everything has arrived.
func (c *cursor) arrived() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen
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
}

// scan calls f with every message from an offset up to end, markers too.
func (p *partition) scan(ctx context.Context, from, end int64, f func(m pulsar.Message, offset int64)) error {
	for at := from; at < end; {
		source, err := p.openFeed(ctx, at)
		if err != nil {
			return err
		}
		at, err = scanOn(ctx, source, at, end, f)
		source.close()
		if err != nil && (ctx.Err() != nil || !errors.Is(err, fault.Unavailable)) {
			return p.fail("scan", err)
		}
	}
	return nil
}

// scanOn returns how far it came. A feed that nothing comes from may have lost its connection
// for good, and is fault.Unavailable.
func scanOn(ctx context.Context, source *feed, at, end int64, f func(m pulsar.Message, offset int64)) (int64, error) {
	for at < end {
		patient, cancel := context.WithTimeout(ctx, scanPatience)
		m, offset, behind, err := source.next(patient)
		if patient.Err() != nil && err != nil {
			err = fmt.Errorf("%w: %w", fault.Unavailable, err)
		}
		cancel()
		if err != nil {
			return at, err
		}
		if m != nil {
			f(m, offset)
		}
		at = behind
	}
	return at, nil
}
