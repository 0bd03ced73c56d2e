package pulsarlog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"golang.org/x/sync/semaphore"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// Each partition has one writer with one entry on its way. What waits meanwhile makes the next entry larger,
// so nothing waits for a timer. That there is one at most is what all the rest leans on: an entry is there
// whole or not at all, none overtakes another, and after a failure there is one question to ask, about the
// last (send.go). Appends of a producer id have an entry each: its sequence is the entry's, and tells the
// broker a repeat.

// writer appends to a partition: one goroutine that sends all that waits as one entry, and the
// next when that one was acknowledged. So an append is atomic, order is kept over any failure,
// and there is never more than one entry whose fate is unknown.
type writer struct {
	p *partition

	mu      sync.Mutex
	queue   []*item
	room    *semaphore.Weighted // of the queue, in bytes
	running bool
	wake    chan struct{} // capacity 1
	done    chan struct{} // closed when the goroutine is gone

	// Only the goroutine uses these.
	plain  brokerProducer     // of appends without an id
	known  map[uint64]*sender // of appends with one
	away   error              // of the last try to connect; nil: it succeeded
	tried  time.Time          // when that was
	rolled int64              // ledger whose end was asked for
	past   *past              // nil: the partition was not found sealed
}

// item is one append, or the marker before a seal.
type item struct {
	messages []*pulsar.ProducerMessage
	bytes    int
	marker   bool
	producer driver.Producer
	since    time.Time
	done     func(first int64, err error)
}

// queueBytes is how much may wait in a partition before Append blocks.
const queueBytes = 16 << 20

func (it *item) room() int64 { return int64(min(it.bytes, queueBytes)) }

func (w *writer) init(p *partition) {
	w.p = p
	w.wake, w.room, w.done = make(chan struct{}, 1), semaphore.NewWeighted(queueBytes), make(chan struct{})
	w.rolled = -1
	w.known = map[uint64]*sender{}
}

// enqueue checks and encodes an append and puts it at the end of the queue. An error means that
// done will not be called.
func (p *partition) enqueue(ctx context.Context, h *handle, req *driver.AppendRequest, done func(int64, error)) error {
	limit := p.topic.log.config.MaxMessageBytes - messageOverhead
	it := &item{messages: make([]*pulsar.ProducerMessage, len(req.Records)), producer: req.Producer, done: done}
	for i := range req.Records {
		it.bytes += messageBytes(&req.Records[i])
	}
	if len(req.Records) > batchRecords || it.bytes > limit {
		return p.fail("append to", fmt.Errorf("%d records of about %d bytes; one append, which is one entry of Pulsar, takes at most %d and %d (max-message= and the broker's maxMessageSize): %w",
			len(req.Records), it.bytes, batchRecords, limit, fault.Invalid))
	}
	for i := range req.Records {
		it.messages[i] = encode(&req.Records[i])
	}
	return p.writer.enqueue(ctx, h, it)
}

func (w *writer) enqueue(ctx context.Context, h *handle, it *item) error {
	if it.marker {
		it.messages = []*pulsar.ProducerMessage{{Payload: []byte{}, Properties: map[string]string{sealProperty: "1"}}}
	}
	if err := w.room.Acquire(ctx, it.room()); err != nil {
		return w.p.fail("append to", fmt.Errorf("the buffer is full: %w: %w", fault.NotDone, err))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := h.usable(context.Background()); err != nil {
		w.room.Release(it.room())
		return err
	}
	it.since = time.Now()
	w.queue = append(w.queue, it)
	if !w.running {
		w.running = true
		go w.run() // joined by stop
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return nil
}

// run ends when the topic ends.
func (w *writer) run() {
	defer close(w.done)
	defer w.dropAll()
	for {
		select {
		case <-w.wake:
		case <-w.p.topic.ended:
		}
		for batch := w.take(); len(batch) > 0; batch = w.take() {
			if isClosed(w.p.topic.ended) {
				answer(batch, w.p.topic.why)
				continue
			}
			w.commit(batch)
		}
		if isClosed(w.p.topic.ended) {
			w.mu.Lock()
			empty := len(w.queue) == 0 // and stays so: the handles are no longer usable
			w.mu.Unlock()
			if empty {
				return
			}
		}
	}
}

// stop returns when the goroutine is gone; the topic has ended.
func (w *writer) stop() {
	w.mu.Lock()
	running := w.running
	w.mu.Unlock()
	if running {
		<-w.done
	}
}

func answer(batch []*item, err error) {
	for _, it := range batch {
		it.done(0, err)
	}
}

// take removes as much from the queue as fits into one entry.
func (w *writer) take() []*item {
	w.mu.Lock()
	defer w.mu.Unlock()
	limit := w.p.topic.log.config.MaxMessageBytes - messageOverhead
	n, records, bytes := 0, 0, 0
	for n < len(w.queue) {
		it := w.queue[n]
		if n > 0 && (it.producer.ID != 0 || w.queue[0].producer.ID != 0 || records+len(it.messages) > batchRecords || bytes+it.bytes > limit) {
			break
		}
		records, bytes = records+len(it.messages), bytes+it.bytes
		w.room.Release(it.room())
		n++
	}
	batch := w.queue[:n:n]
	w.queue = w.queue[n:]
	return batch
}

// overdue answers what has waited for as long as an append may, for a broker that was away
// meanwhile, and returns the rest: were each to try for itself, the last would wait for hours.
func (w *writer) overdue(batch []*item) (rest []*item) {
	for _, it := range batch {
		if w.away != nil && w.tried.After(it.since) && time.Since(it.since) > w.p.topic.log.sendTimeout {
			it.done(0, w.p.fail("append to", w.away))
			continue
		}
		rest = append(rest, it)
	}
	return rest
}

// commit sends a batch as one entry and answers it.
func (w *writer) commit(batch []*item) {
	if batch = w.overdue(batch); len(batch) == 0 {
		return
	}
	if batch[0].producer.ID != 0 {
		w.commitKnown(batch[0])
		return
	}
	var messages []*pulsar.ProducerMessage
	for _, it := range batch {
		messages = append(messages, it.messages...)
	}
	first, err := w.send(&w.plain, messages)
	if err != nil {
		answer(batch, w.p.fail("append to", err))
		return
	}
	w.plain.floor = first + int64(len(messages))
	for _, it := range batch {
		it.done(first, nil)
		first += int64(len(it.messages))
	}
	w.roll(first)
}

// roll asks for a new ledger before the entries of this one need more bits than an offset has.
func (w *writer) roll(offset int64) {
	ledger, entry := unpack(offset)
	if entry < rollEntry || ledger == w.rolled {
		return
	}
	w.rolled = ledger
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	if err := w.p.admin().unload(ctx, w.p.name); err != nil {
		w.rolled = -1
		w.p.topic.log.config.Logger.Warn("a ledger is nearly full and the broker did not begin a new one",
			"topic", w.p.topic.config.Name, "partition", w.p.number, "ledger", ledger, "entry", entry, "error", err)
	}
}
