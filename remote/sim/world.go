// Package sim runs random histories of remote sessions: core, as daemons run it, between an engine and clients that
// follow the protocol, while requests are lost, repeated and late, streams are cut, die or are held, clients and daemons
// are killed or stand still, and units move. Time is virtual, and a seed always gives the same history.
package sim

import (
	"container/heap"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"
)

// Config is a history.
type Config struct {
	Seed  uint64
	Trace io.Writer // nil: none
}

// Result is what a history came to.
type Result struct {
	Seed  uint64
	Err   error // the first thing that was wrong
	Steps int
}

type event struct {
	at, seq int64
	p       *proc
	f       func()
}

type events []*event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(*event)) } //nolint:forcetypeassert // of heap
func (q *events) Pop() any {
	o := *q
	x := o[len(o)-1]
	*q = o[:len(o)-1]
	return x
}

// proc is a process: a dead one does nothing, one that stands still does all later, in order.
type proc struct {
	dead    bool
	stopped int64
}

// world is a history. Times are milliseconds.
type world struct {
	now, seq int64
	steps    int
	queue    events
	r        *rand.Rand
	trace    io.Writer
	err      error
	faulty   bool // faults happen
	regUp    bool
	same     bool // two clients have the same member's name

	lossP, dupP, slowP float64

	parts   [][]*rec
	seqs    map[int]int
	groups  []*group
	daemons []*daemon
	clients []*client
	written map[[2]int]*mark // by group and key, what a receiver has that refuses stale tokens
	tenures int64
	ids     int
	moved   int64 // when an owner changed last
	fences  int   // since the end
	end     int64 // when all was done
}

func (w *world) at(p *proc, d int64, f func()) {
	w.seq++
	heap.Push(&w.queue, &event{w.now + max(0, d), w.seq, p, f})
}

func (w *world) run(until int64) {
	for len(w.queue) > 0 && w.queue[0].at <= until && w.err == nil {
		e := heap.Pop(&w.queue).(*event) //nolint:forcetypeassert // of heap
		w.now = e.at
		w.steps++
		if p := e.p; p != nil {
			if p.dead {
				continue
			}
			if p.stopped > w.now {
				e.at = p.stopped
				heap.Push(&w.queue, e)
				continue
			}
		}
		e.f()
	}
	w.now = until
}

func (w *world) time() time.Duration { return time.Duration(w.now) * time.Millisecond }

func (w *world) say(format string, a ...any) {
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%7d  %s\n", w.now, fmt.Sprintf(format, a...))
	}
}

func (w *world) wrong(format string, a ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("at %d ms: "+format, append([]any{w.now}, a...)...)
	}
	w.say("### "+format, a...)
}

func (w *world) chance(p float64) bool    { return w.r.Float64() < p }
func (w *world) between(a, b int64) int64 { return a + w.r.Int64N(b-a+1) }

// delay is the time of one way.
func (w *world) delay() int64 {
	if w.faulty && w.chance(w.slowP) {
		return w.between(500, 15000)
	}
	return w.between(1, 12)
}

// The kinds of records.
const (
	normal    = iota
	flaky     // fails some times
	permanent // can never succeed (workers)
	poison    // kills each process that handles it (of members: twice)
)

// rec is a record of the log.
type rec struct {
	part, off, key, seq int
	kind, fails         int
	slow                int64
	did                 [2]did // by group
}

// did is what really happened to a record.
type did struct {
	processed, failed, kills, handouts int
	first, dead, stored                bool
}

const (
	partitions = 4
	keys       = 14
)

func (w *world) produce() {
	key := w.r.IntN(keys)
	p := key % partitions
	r := &rec{part: p, off: len(w.parts[p]), key: key, seq: w.seqs[key]}
	w.seqs[key]++
	switch x := w.r.IntN(100); {
	case x < 8:
		r.kind, r.fails = flaky, 1+w.r.IntN(2)
	case x < 10:
		r.kind, r.fails = permanent, 2
	case x < 11:
		r.kind, r.fails = poison, 2
	}
	switch x := w.r.IntN(100); {
	case x < 3:
		r.slow = w.between(1000, 2500)
	case x < 4:
		r.slow = w.between(7000, 9000)
	default:
		r.slow = w.between(3, 60)
	}
	w.parts[p] = append(w.parts[p], r)
}

// token is what a receiver compares: the epoch and the hand-out.
type token [2]int64

func (t token) less(o token) bool { return slices.Compare(t[:], o[:]) < 0 }

// mark is what a receiver keeps of a key. rank is the true order of hand-outs, which no receiver sees.
type mark struct{ token, rank token }

// write is an effect elsewhere. It is refused for a stale token.
func (w *world) write(h *hand) bool {
	g, r := h.run.m.g, h.nd.r
	k := [2]int{g.n, r.key}
	m := w.written[k]
	if m == nil {
		m = &mark{}
		w.written[k] = m
	}
	if h.token.less(m.token) {
		if h.rank == g.newest[r.key] {
			w.wrong("token %v of the newest hand-out of key %d of %s is below %v", h.token, r.key, g.name, m.token)
		}
		return false
	}
	if h.rank.less(m.rank) {
		w.wrong("%s: a hand-out of key %d wrote with token %v after a later one did with %v", g.name, r.key, h.token, m.token)
	}
	m.token, m.rank = h.token, h.rank
	return true
}
