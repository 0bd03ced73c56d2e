package topic

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
)

// A message is appended in a generation: the time in which one storage topic takes the records. When the
// pointer moves on, the generation closes. Messages under way are waited for, those that were certainly not
// appended are carried on in the order in which they came, then those that came meanwhile, and only then the
// next generation opens. So the records of a key keep their order over a switch, without a lock in the way of
// an append (carrying on is in move.go).

// Position is the place of a record. The offset is -1 for a message that an idempotent producer sent
// again so late that its offset in the partition is forgotten.
type Position struct {
	Topic     string `json:"topic"`
	Storage   int    `json:"storage"`
	Partition int    `json:"partition"`
	Offset    int64  `json:"offset"`
}

// AnyPartition lets the router choose.
const AnyPartition = math.MinInt

// generation is the time in which records are produced to one storage topic. It ends when an append
// is refused because the storage topic was sealed, or when the pointer is seen to have moved on.
type generation struct {
	storage int
	log     *commitlog.Topic
	shape   Storage
	routing Routing

	ticket   atomic.Uint64         // the order in which messages came
	inflight atomic.Int64          // messages of unknown outcome
	closed   atomic.Bool           // no message may be appended any more
	drained  chan struct{}         // closed when it is closed and nothing is in flight
	missing  atomic.Pointer[error] // the error when the storage topic is not there; nil: it was
	once     sync.Once             // of drained

	mu      sync.Mutex
	moving  bool          // a goroutine carries its messages on
	over    bool          // they were carried on: the topic has another generation
	refused []*message    // certainly not appended, in no order
	waiting []*message    // came after it was closed, in their order
	bytes   int           // of waiting
	done    chan struct{} // closed with over
}

func newGeneration(v *view) *generation {
	d := v.doc
	shape := d.Storage[d.Produce]
	return &generation{
		storage: d.Produce, log: v.storage[d.Produce], shape: shape, routing: d.Router.For(d.Hash, shape.Partitions, shape.K),
		drained: make(chan struct{}), done: make(chan struct{}),
	}
}

// begin adds a message to a generation; false when it is closed.
func (g *generation) begin() (ticket uint64, ok bool) {
	g.inflight.Add(1)
	if g.closed.Load() {
		g.leave()
		return 0, false
	}
	return g.ticket.Add(1), true
}

// leave says that the outcome of a message is known.
func (g *generation) leave() {
	if g.inflight.Add(-1) == 0 && g.closed.Load() {
		g.once.Do(func() { close(g.drained) })
	}
}

// close lets nothing more in. Messages that have begun are waited for.
func (g *generation) close() {
	g.inflight.Add(1)
	g.closed.Store(true)
	g.leave()
}

// message is a batch on its way to the log.
type message struct {
	t         *Topic
	g         *generation
	ticket    uint64
	key       []byte
	partition int // asked for; AnyPartition
	storage   int // the storage topic that it was sent to
	at        int // and its partition there
	recs      []commitlog.Record
	one       [1]commitlog.Record
	home      int                      // of its producer, if it has one
	opts      *commitlog.AppendOptions // nil: it has none
	done      func(Position, error)
}

// Produce appends a batch of records of one key, or for one partition, and waits until it is
// stored. AnyPartition lets the router choose by the key; records without one go round robin.
func (t *Topic) Produce(ctx context.Context, key []byte, partition int, recs []commitlog.Record, opts *ProduceOptions) (Position, error) {
	if t.public != nil {
		return Position{}, t.public
	}
	m := &message{t: t, key: key, partition: partition, recs: recs}
	m.identify(opts)
	g := t.gen.Load()
	if m.idempotent() {
		return t.answer(ctx, m, func() { t.send(ctx, m) })
	}
	var ok bool
	if m.ticket, ok = g.begin(); !ok {
		return t.answer(ctx, m, func() { t.send(ctx, m) })
	}
	m.g = g
	at, err := t.partitionOf(g, key, partition)
	if err != nil {
		g.leave()
		return Position{}, err
	}
	first, err := g.log.Append(ctx, at, recs, nil)
	if refused(err) {
		return t.answer(ctx, m, func() { g.refuse(m, err) })
	}
	g.leave()
	if err != nil {
		t.noteGone(err)
		return Position{}, err
	}
	return Position{t.name, g.storage, at, first}, nil
}

// answer sends a message and waits for its outcome. Slow path: it copies the message, because the
// append may outlive the caller's context.
func (t *Topic) answer(ctx context.Context, m *message, send func()) (Position, error) {
	type result struct {
		at  Position
		err error
	}
	ch := make(chan result, 1)
	m.done = func(at Position, err error) { ch <- result{at, err} }
	if ctx.Done() != nil {
		m.key, m.recs = bytes.Clone(m.key), commitlog.CloneRecords(m.recs)
	}
	send()
	select {
	case r := <-ch:
		return r.at, r.err
	case <-ctx.Done():
		return Position{}, fmt.Errorf("produce to topic %q: %w before the answer came: %w", t.name, fault.Unknown, ctx.Err())
	}
}

// ProduceAsync queues a record and returns; done is called exactly once, from any goroutine, with
// its place or the error, and must not block. Records of one key that one goroutine queues keep
// their order, also over a switch. It blocks only while the log's write buffer is full, or a switch
// takes so long that many records wait for its end.
func (t *Topic) ProduceAsync(ctx context.Context, partition int, rec commitlog.Record, opts *ProduceOptions, done func(Position, error)) {
	if t.public != nil {
		done(Position{}, t.public)
		return
	}
	m := &message{t: t, key: rec.Key, partition: partition, done: done}
	m.identify(opts)
	m.one[0] = rec
	m.recs = m.one[:]
	t.send(ctx, m)
}

// send appends a message, or makes it wait for the end of a switch.
func (t *Topic) send(ctx context.Context, m *message) {
	for {
		g := t.gen.Load()
		if ticket, ok := g.begin(); ok {
			if m.early(g) {
				g.leave()
				continue
			}
			m.append(ctx, g, ticket)
			return
		}
		if g.wait(ctx, t, m) {
			return
		}
	}
}

// append sends a message that takes part in g.
func (m *message) append(ctx context.Context, g *generation, ticket uint64) {
	m.g, m.ticket = g, ticket
	if m.idempotent() {
		m.number(ctx)
		return
	}
	var err error
	if m.at, err = m.t.partitionOf(g, m.key, m.partition); err != nil {
		m.end(Position{}, err)
		return
	}
	m.storage = g.storage
	g.log.AppendAsync(ctx, m.at, m.recs, nil, m.stored)
}

// stored handles the log's answer.
func (m *message) stored(first int64, err error) {
	switch {
	case m.idempotent():
		m.settle(first, err)
	case refused(err):
		m.g.refuse(m, err)
	case err != nil:
		m.end(Position{}, err)
	default:
		m.end(Position{m.t.name, m.storage, m.at, first}, nil)
	}
}

// end reports the outcome of a message that takes part in a generation.
func (m *message) end(at Position, err error) {
	m.g.leave()
	m.t.noteGone(err)
	m.done(at, err)
}

func (t *Topic) partitionOf(g *generation, key []byte, partition int) (int, error) {
	if partition == AnyPartition {
		return t.route(g, key), nil
	}
	if n := g.shape.Partitions; partition < 0 || partition >= n {
		return 0, fmt.Errorf("topic %q has partitions 0 to %d; %d is out of range: %w", t.name, n-1, partition, fault.Invalid)
	}
	return partition, nil
}
