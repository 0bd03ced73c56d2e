package kafkalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// When a broker refuses a batch, or its answer is lost, it is not known yet what it has of it. This is how the
// owner of the partition's queue finds out, without storing anything twice and without calling absent what
// may be there: a batch that is too large may be the sign of a seal, of which the refusing broker's own
// setting decides; one that is out of step was stored before, or follows one of another process. What the
// broker keeps of the producer says how far it got, and the last records of the partition say where.
// Appends that can't be told either way are answered with an unknown outcome.

// How many of the last records are read to find a producer's last appends: first, and when that
// did not do.
const (
	shallowRecords = 1000
	deepRecords    = 100_000
)

var errRefused = fmt.Errorf("the topic is %w and takes no more records", fault.Sealed)

// tooLarge deals with a batch that the broker finds too large, as it finds every batch of a
// sealed topic. The result is that of outcome. What the refusal means only that broker's own
// setting tells: another one may not have heard of the seal yet, or of a limit that was raised.
func (p *partition) tooLarge(b *batch, refusal error) bool {
	q := &p.produce
	limit, err := p.s.limitAt(p.s.l.ctx, b.broker)
	if err != nil || limit >= len(b.data) && errors.Is(refusal, kerr.MessageTooLarge) {
		return p.again(b, fmt.Errorf("broker %d refuses %d bytes, and its limit is not known: %w", b.broker, len(b.data), errors.Join(refusal, err)))
	}
	sealed := limit == 0
	q.refused = q.refused || sealed
	if p.resolve(b) {
		return true
	}
	if b.identity.id != 0 && (sealed || len(b.items) > 1) || !sealed && len(b.items) > 1 {
		if !sealed {
			q.target = max(1, b.size/2)
		}
		p.putBack(b)
		return true
	}
	if sealed {
		p.fail(b, errRefused)
	} else {
		p.fail(b, fmt.Errorf("%w: a batch of %d bytes; the topic takes %d (its setting max.message.bytes): %w", fault.Invalid, len(b.data), limit, refusal))
	}
	return true
}

// limitAt is the topic's max.message.bytes as one broker knows it now; 0: it is sealed.
func (s *store) limitAt(ctx context.Context, broker int32) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	m, err := s.settingsAt(ctx, broker)
	if err == nil && m == nil {
		err = fmt.Errorf("broker %d does not know the topic", broker)
	}
	return limitOf(m), err
}

// readLimit is the topic's max.message.bytes as some broker knows it; 0: it is sealed.
func (s *store) readLimit(ctx context.Context) (int, error) {
	limit := 0
	err := persist(ctx, func(ctx context.Context) error {
		settings, err := s.l.describeConfigs(ctx, s.kafkaName)
		if err != nil {
			return err
		}
		m, ok := settings[s.kafkaName]
		if !ok {
			if err := s.refresh(ctx); err != nil {
				return err
			}
			return errNoLeader
		}
		limit = limitOf(m)
		return nil
	})
	return limit, err
}

// putBack queues the appends of a batch again; the broker's view of their producer decides anew
// what becomes of each.
func (p *partition) putBack(b *batch) {
	for _, w := range b.items {
		w.looked = unread
		w.maybe = w.maybe || b.maybe
	}
	b.identity.undo(b)
	p.produce.unpop(b.items)
}

// resolve finds out whether a batch of the log's own identity was stored by an earlier attempt,
// and answers it if so, or if that can't be told.
func (p *partition) resolve(b *batch) (answered bool) {
	if !b.maybe || b.identity.id != 0 {
		return false
	}
	first, err := p.stored(p.s.l.ctx, b)
	switch {
	case err != nil:
		p.fail(b, err)
		return true
	case first >= 0:
		p.succeed(b, first)
		return true
	}
	b.maybe = false
	return false
}

// outOfStep deals with a batch whose sequence or epoch the broker refuses. The result is that of
// outcome.
func (p *partition) outOfStep(b *batch, refusal error) bool {
	if p.expired(b) {
		b.maybe = true
		p.fail(b, refusal)
		return true
	}
	if b.identity.id != 0 {
		p.putBack(b)
		return true
	}
	// The broker forgot our producer, or never saw the batch before this one.
	if p.resolve(b) {
		return true
	}
	id := b.identity
	id.renew()
	b.sequence, b.epoch = 0, int16(id.epoch) //nolint:gosec // renew keeps it small
	id.kafkaSeq = follow(0, b.records)
	sign(b.data, id.kafkaID, b.epoch, b.sequence)
	p.produce.retry = b
	return b.attempts < 3
}

// learn reads the broker's view of a producer for the first append in the queue. It runs beside
// the senders, owns p, and is joined by the log's Close.
func (p *partition) learn(id *identity, depth int) {
	err := p.view(p.s.l.ctx, id, depth)
	if w := p.produce.peek(); w != nil {
		if err != nil {
			p.produce.pop()
			p.answer(w, 0, p.fate(w.maybe, err))
		} else {
			w.looked = depth
		}
	}
	p.rest()
}

// producerState is what a broker remembers of a producer.
type producerState struct {
	epoch     int32
	last      int32 // sequence
	timestamp int64 // of its last batch
}

// producerState asks the partition's leader; nil: it knows nothing.
func (p *partition) producerState(ctx context.Context, kafkaID int64) (*producerState, error) {
	var found *producerState
	err := p.s.onLeader(ctx, p.index, func(ctx context.Context, broker int32) (err error) {
		found, err = p.producerStateAt(ctx, broker, kafkaID)
		return err
	})
	return found, err
}

func (p *partition) producerStateAt(ctx context.Context, broker int32, kafkaID int64) (*producerState, error) {
	t := kmsg.NewDescribeProducersRequestTopic()
	t.Topic, t.Partitions = p.s.kafkaName, []int32{int32(p.index)} //nolint:gosec // at most 4096
	req := kmsg.NewPtrDescribeProducersRequest()
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, brokerOf(p.s.l.main, broker))
	if err != nil {
		return nil, err
	}
	for _, t := range resp.Topics {
		for _, part := range t.Partitions {
			if err := kerr.ErrorForCode(part.ErrorCode); err != nil {
				return nil, err
			}
			for _, a := range part.ActiveProducers {
				if a.ProducerID == kafkaID {
					return &producerState{epoch: a.ProducerEpoch, last: a.LastSequence, timestamp: a.LastTimestamp}, nil
				}
			}
		}
	}
	return nil, nil //nolint:nilnil // it knows nothing
}

// view reads what the broker has of a producer: its epoch and last sequence, which the broker
// keeps in memory for a day after the last append (producer.id.expiration.ms), and the places of
// its last appends, which stand in the log.
func (p *partition) view(ctx context.Context, id *identity, depth int) error {
	st, err := p.producerState(ctx, id.kafkaID)
	if err != nil {
		return err
	}
	if st == nil && id.next == 0 {
		if closed, err := p.closed(ctx); err != nil {
			return err
		} else if closed {
			return p.recall(ctx, id)
		}
	}
	head := p.produce.peek()
	if st == nil && (head == nil || head.req.Producer.Sequence == 0 || id.next > 0) {
		id.known = true // new, or forgotten by the broker since we appended
		return nil
	}
	st, seen, err := p.last(ctx, id, st, depth)
	if err != nil {
		return err
	}
	switch {
	case st != nil:
		id.epoch, id.kafkaSeq = st.epoch, follow(st.last, 1)
	case seen.any:
		id.epoch, id.kafkaSeq = int32(seen.epoch), follow(seen.last, 1)
	}
	id.next, id.recent, id.known = seen.next, seen.places, true
	return nil
}

// last reads the last appends of a producer, up to the one that the broker's state of it names,
// which comes from the process that appends with that id just now, and may be hidden from readers yet.
func (p *partition) last(ctx context.Context, id *identity, st *producerState, depth int) (*producerState, trace, error) {
	look := p.bounds
	for n := 0; ; n++ {
		b, err := look(ctx)
		if err != nil {
			return nil, trace{}, err
		}
		seen, err := p.lookBack(ctx, id, st, depth, b)
		if err != nil || st == nil || seen.ends(st) {
			return st, seen, err
		}
		now, err := p.producerState(ctx, id.kafkaID)
		switch {
		case err != nil:
			return nil, trace{}, err
		case n > 0 && seen.end >= b.Next && now != nil && *now == *st:
			return nil, trace{}, fmt.Errorf("the last append of producer %x is not in the log any more, so its sequence is not known; go on with a new producer id: %w", id.id, fault.Forgotten)
		case n == 3:
			return nil, trace{}, fmt.Errorf("%w: the last append of producer %x can't be read yet", fault.Unavailable, id.id)
		}
		st, look = now, p.caughtUp
	}
}

// lookBack reads some of the last records for those of a producer, and more if that does not do.
func (p *partition) lookBack(ctx context.Context, id *identity, st *producerState, depth int, b driver.Bounds) (trace, error) {
	want := int64(shallowRecords)
	if depth >= deep || st == nil {
		want = deepRecords
	}
	seen, err := p.history(ctx, id, max(b.First, b.Next-want), b.Next)
	if err != nil || st == nil || seen.ends(st) || b.Next-want <= b.First {
		return seen, err
	}
	from, err := p.offsetAt(ctx, st.timestamp)
	if err != nil {
		return trace{}, err
	}
	return p.history(ctx, id, max(b.First, min(from, b.Next)), b.Next)
}

// trace is what the log has of a producer.
type trace struct {
	any    bool
	epoch  int16
	last   int32 // Kafka's sequence
	next   int64
	places []place
	end    int64 // how far it was read
}

func (t *trace) ends(st *producerState) bool {
	return t.any && int32(t.epoch) == st.epoch && t.last == st.last
}

// history reads the appends of a producer between two offsets.
func (p *partition) history(ctx context.Context, id *identity, from, to int64) (trace, error) {
	var t trace
	end, err := p.scan(ctx, from, to, func(s *span) error {
		if s.h.ProducerID != id.kafkaID || s.h.Attributes&attrControl != 0 {
			return nil
		}
		return t.add(p, s)
	})
	t.end = end
	return t, err
}

// add takes down a batch of the producer.
func (t *trace) add(p *partition, s *span) error {
	if err := s.open(p.s.l.decompress); err != nil {
		return err
	}
	keep := &identity{recent: t.places}
	t.any, t.epoch, t.last = true, s.h.ProducerEpoch, follow(s.h.FirstSequence, int(s.h.NumRecords)-1)
	err := sequences(&s.h, s.body, func(sequence, first int64) {
		keep.remember(sequence, first)
		t.next = sequence + 1
	})
	t.places = keep.recent
	return err
}

// stored finds a batch of the log's own identity in the partition; -1: it is not there.
func (p *partition) stored(ctx context.Context, b *batch) (int64, error) {
	st, err := p.producerState(ctx, b.identity.kafkaID)
	if err != nil {
		return -1, err
	}
	if st == nil || st.epoch != int32(b.epoch) || st.last != follow(b.sequence, b.records-1) {
		return -1, nil
	}
	bounds, err := p.caughtUp(ctx)
	if err != nil {
		return -1, err
	}
	first := int64(-1)
	for _, most := range []int64{shallowRecords, deepRecords} {
		_, err := p.scan(ctx, max(bounds.First, bounds.Next-most), bounds.Next, func(s *span) error {
			if s.h.ProducerID == b.identity.kafkaID && s.h.ProducerEpoch == b.epoch && s.h.FirstSequence == b.sequence {
				first = s.h.FirstOffset
			}
			return nil
		})
		if err != nil || first >= 0 {
			return first, err
		}
	}
	return -1, errors.New("it was stored, but stands too far back to be found")
}
