package topic

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
)

// Sequences of idempotent producers are numbered in the partitions of one storage topic: that is how
// the log knows them. A producer keeps its numbers in its home, the storage topic that was produced
// to when it began. What goes to later ones gets numbers of IDs that nobody else has, see lane, and a
// message that is sent again goes to the place where it was sent before: the log acknowledges it if
// it has it, also after it was sealed, and else it is surely not there.
//
// So a switch neither loses nor doubles a message of a producer that lives through it. One that is
// started again after a switch has to begin with an ID of its own: the log refuses sequences that
// go on from those of another storage topic.

// streams are the idempotent producers of a topic.
type streams struct {
	mu sync.Mutex         // guards all that is below, but is held over no call
	m  map[uint64]*stream // by ID
}

// stream is one of them.
type stream struct {
	home  int           // the storage topic with its own numbers
	lanes map[int]*lane // by partition of home
}

// numbered is what a message of an idempotent producer has beside the others, once home takes
// nothing new.
type numbered struct {
	lane   *lane
	place  *place // nil: it was sent home
	asked  bool   // it was sent to a sealed storage topic, which may have it already
	absent error  // home does not have it, and said so with this
}

// number sends a message of an idempotent producer.
func (m *message) number(ctx context.Context) {
	at, err := m.t.place(m.g, m.key, m.partition)
	if err != nil {
		m.end(Position{}, err)
		return
	}
	s, g := &m.t.streams, m.g
	s.mu.Lock()
	st := s.of(m.opts.Producer.ID, g.storage)
	if g.storage == st.home {
		s.mu.Unlock()
		m.storage, m.at = g.storage, at
		g.log.AppendAsync(ctx, at, m.recs, m.opts, m.stored)
		return
	}
	l := st.lane(m.t.homeOf(st.home, m))
	if m.n == nil {
		m.n = new(numbered)
	}
	m.n.lane = l
	if l.asking > 0 { // it must not overtake what may come back
		full := len(l.parked) >= maxWaiting
		if !full {
			l.parked = append(l.parked, m)
		}
		s.mu.Unlock()
		if full {
			m.end(Position{}, fmt.Errorf("topic %q: too many messages wait for a sealed storage topic: %w", m.t.name, fault.NotDone))
		}
		return
	}
	goes := l.lodge(m, at)
	s.mu.Unlock()
	m.travel(ctx, goes)
}

// of finds a producer; storage is home of one that is new.
func (s *streams) of(id uint64, storage int) *stream {
	st := s.m[id]
	if st == nil {
		st = &stream{home: storage}
		if s.m == nil {
			s.m = map[uint64]*stream{}
		}
		s.m[id] = st
	}
	return st
}

func (st *stream) lane(partition int) *lane {
	l := st.lanes[partition]
	if l == nil {
		l = newLane(st.home, partition)
		if st.lanes == nil {
			st.lanes = map[int]*lane{}
		}
		st.lanes[partition] = l
	}
	return l
}

// travel carries out what lane.lodge decided.
func (m *message) travel(ctx context.Context, goes lodged) {
	switch {
	case goes.refused:
		m.g.refuse(m)
		return
	case goes.err != nil || goes.known:
		m.end(goes.at, goes.err)
		return
	}
	log := m.g.log
	if m.storage != m.g.storage {
		log = m.t.view.Load().storage[m.storage]
	}
	log.AppendAsync(ctx, m.at, m.recs, &commitlog.AppendOptions{Producer: goes.as}, m.stored)
}

// settle takes the log's answer. What a sealed storage topic refused goes on to the next one. That is
// also what was Invalid there: a log that refuses a sequence as sealed finds a gap before the next.
func (m *message) settle(first int64, err error) {
	sealed := errors.Is(err, fault.Sealed)
	refused := sealed || errors.Is(err, fault.Invalid) && (m.storage < m.g.storage || m.g.closed.Load())
	asked, pump, err := m.note(first, err, refused, sealed)
	switch {
	case !refused && err != nil:
		m.end(Position{}, err)
	case !refused:
		m.end(Position{m.t.name, m.storage, m.at, first}, nil)
	case !asked:
		m.g.refuse(m)
	}
	if pump {
		m.t.pump(m.n.lane)
	}
}

// note takes the log's answer down in the lane. It says whether a sealed storage topic was asked, and
// whether it is time to send on what is parked; and the error as the producer has to know it.
func (m *message) note(first int64, err error, refused, sealed bool) (asked, pump bool, told error) {
	if m.n == nil && !refused {
		return false, false, err // home numbers it itself
	}
	s, p := &m.t.streams, m.opts.Producer
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.n == nil {
		m.n = &numbered{lane: s.of(p.ID, m.storage).lane(m.at)}
	}
	n, l := m.n, m.n.lane
	switch {
	case n.place != nil:
		if l.settle(m, first, err, refused); errors.Is(err, fault.Forgotten) && l.places[p.Sequence] != n.place {
			// It is the ID of a thread that was forgotten. The next try begins another one.
			err = fmt.Errorf("topic %q: %w: send it again; the log says: %v", m.t.name, fault.NotDone, err) //nolint:errorlint // for its producer it is no longer that
		}
	case refused:
		n.absent = err
		if sealed {
			l.end(p.Sequence)
		}
	}
	if !n.asked {
		return false, false, err
	}
	n.asked = false
	if refused {
		l.parked = append(l.parked, m)
	}
	if l.asking--; l.asking == 0 && len(l.parked) > 0 {
		l.asking, pump = 1, true
	}
	return true, pump, err
}

// pump sends what is parked in a lane on, from a goroutine that Close joins.
func (t *Topic) pump(l *lane) {
	if t.aside(func() { t.unpark(l) }) {
		return
	}
	t.streams.mu.Lock()
	parked := l.parked
	l.parked, l.asking = nil, 0
	t.streams.mu.Unlock()
	for _, m := range parked {
		m.end(Position{}, fmt.Errorf("topic %q: %w", t.name, fault.Closed))
	}
}

// unpark sends what is parked in a lane in the order in which it came. While something is asked for
// nothing new goes; the answer to it calls again.
func (t *Topic) unpark(l *lane) {
	s := &t.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(l.parked) > 0 {
		batch := l.parked
		l.parked = nil
		byTicket(batch)
		for i, m := range batch {
			if l.asking > 1 && !l.asks(m) {
				l.parked = append(batch[i:len(batch):len(batch)], l.parked...)
				l.asking--
				return
			}
			at, err := t.place(m.g, m.key, m.partition)
			goes := lodged{err: err}
			if err == nil {
				goes = l.lodge(m, at)
			}
			s.mu.Unlock()
			m.travel(t.life, goes)
			s.mu.Lock()
		}
	}
	l.asking--
}

// homeOf is the partition in which a message lay, or would have, in an earlier storage topic.
func (t *Topic) homeOf(storage int, m *message) int {
	if m.partition != AnyPartition {
		return m.partition
	}
	doc := t.Document()
	s := doc.Storage[storage]
	return doc.Router.Route(doc.Hash.Sum(m.key), s.Partitions, s.K)
}
