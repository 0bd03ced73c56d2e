package sim

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/ringfence/ringfence/group/core"
	"github.com/ringfence/ringfence/internal/history"
	"github.com/ringfence/ringfence/registry"
)

// concurrency is how many handlers a worker runs at once.
const concurrency = 3

// partition is the log of one unit.
type partition struct {
	w       *world
	number  int
	storage int
	done    []bool         // by offset: some handler has finished it
	after   int            // owners that it got after it was finished
	keys    []string       // of its records, by offset; "" is no key
	starts  map[int64]int  // of workers, by epoch
	fenced  int64          // the highest epoch that somebody began in, also one that the store has forgotten
	other   *rand.Rand     // of that alone: other faults stay as they are
	asked   map[int64]bool // epochs in which an assignment gave the unit to somebody else
}

// fill appends the records of the history, most of them while there are faults.
func (p *partition) fill() {
	w := p.w
	for range w.plan.records {
		w.later(w.upTo(w.plan.horizon*9/8), func() { p.taking().append() })
	}
}

func (p *partition) append() {
	key := ""
	if k := p.w.rng.IntN(p.w.plan.keys + 1); k > 0 {
		key = string(rune('j' + k))
	}
	p.keys, p.done = append(p.keys, key), append(p.done, false)
	p.w.tell(history.Event{Kind: history.Produced, Storage: p.storage, Partition: p.number, Offset: int64(len(p.keys) - 1), Key: key})
	for _, n := range p.w.nodes {
		if k := n.workers[p.number]; k != nil && n.up() {
			n.soon(k.pump)
		}
	}
}

// worker processes the records of one unit.
type worker struct {
	n     *node
	unit  int
	run   uint64
	epoch int64
	part  *partition

	next     int64  // the lowest unfinished
	state    []byte // by offset, from 0
	running  int
	moved    bool
	stuck    bool // told so
	above    int64
	draining bool

	onCancel    []func() // of the handlers
	failure     error    // that ended it, while handlers still return
	cancelled   bool
	cancelledAt time.Duration
	ended       bool
}

// The states of a record.
const (
	waiting byte = iota
	busy
	backingOff
	finished
)

func newWorker(n *node, e core.StartUnit) *worker {
	k := &worker{n: n, unit: e.Grant.Unit, run: e.Run, epoch: e.Grant.Epoch, part: n.w.parts[e.Grant.Unit]}
	if e.Checkpoint != nil {
		pos := e.Checkpoint.Positions[0]
		k.next = pos.Next
		k.grow()
		for _, r := range pos.Done {
			for o := r[0]; o < r[1]; o++ {
				k.state[o] = finished
			}
		}
	}
	if k.outrun() {
		return k
	}
	n.soon(k.pump)
	if n.w.plan.has[Errors] && n.w.chance(6) && !n.w.heals {
		n.in(n.w.upTo(3*time.Second), func() { k.end(errors.New("the log can't be read")) })
	}
	return k
}

// outrun ends a worker whose partition has seen a higher epoch: that of an heir, or one that the store
// has forgotten.
func (k *worker) outrun() bool {
	p := k.part
	if k.n.w.plan.has[Errors] && !k.n.w.heals && p.other.IntN(8) == 0 {
		p.fenced = max(p.fenced, k.epoch+1+p.other.Int64N(3))
	}
	if k.epoch >= p.fenced {
		p.fenced = k.epoch
		return false
	}
	k.above = p.fenced
	k.n.w.outrun++
	k.end(errors.New("somebody has a higher epoch"))
	return true
}

func (k *worker) grow() {
	for int64(len(k.state)) < max(int64(len(k.part.keys)), k.next) {
		k.state = append(k.state, waiting)
	}
}

// pump starts handlers: records of different keys side by side, those of one key in order.
func (k *worker) pump() {
	if k.draining || k.cancelled || k.ended {
		return
	}
	if !k.n.certain() { // as soon as it is, if ever
		k.n.in(50*time.Millisecond, k.pump)
		return
	}
	k.grow()
	var blocked uint64 // keys with an unfinished record before
	for o := k.next; o < int64(len(k.state)) && k.running < concurrency; o++ {
		if k.state[o] == finished {
			continue
		}
		bit := uint64(0)
		if key := k.part.keys[o]; key != "" {
			bit = 1 << (key[0] - 'a')
		}
		if k.state[o] == waiting && blocked&bit == 0 {
			k.handle(o)
		}
		blocked |= bit
	}
}

func (k *worker) handle(o int64) {
	w := k.n.w
	k.state[o] = busy
	k.running++
	k.gated(k.unit)
	k.tell(history.Started, o)
	took := w.upTo(time.Millisecond << w.rng.IntN(7))
	hangs := w.plan.has[Hang] && !w.heals && w.chance(12)
	if hangs {
		took = w.upTo(4 * w.plan.watchdog)
		k.n.in(w.plan.watchdog, func() { k.watchdog(o) })
	}
	heedless := hangs && w.chance(3) // does not return when cancelled
	done := false
	end := func(ok bool) {
		if !done {
			done = true
			k.handled(o, ok)
		}
	}
	fails := w.plan.has[Errors] && !w.heals && w.chance(6)
	k.n.in(took, func() { end(!fails) })
	if !heedless {
		k.onCancel = append(k.onCancel, func() { k.n.soon(func() { end(false) }) })
	}
}

func (k *worker) handled(o int64, ok bool) {
	k.running--
	w := k.n.w
	if ok {
		k.state[o], k.part.done[o] = finished, true
		k.tell(history.Finished, o)
		for k.next < int64(len(k.state)) && k.state[k.next] == finished {
			k.next++
		}
		k.moved = true
		k.n.progress()
	} else {
		k.state[o] = backingOff
		k.tell(history.Failed, o)
		k.n.in(w.upTo(300*time.Millisecond), func() {
			k.state[o] = waiting
			k.pump()
		})
	}
	if (k.draining || k.cancelled) && k.running == 0 {
		k.end(nil)
		return
	}
	k.pump()
}

// watchdog tells the core of a handler that has been at work for too long.
func (k *worker) watchdog(o int64) {
	if k.state[o] == busy && !k.ended && !k.stuck {
		k.stuck = true
		k.n.step(core.UnitStuck{Unit: k.unit, Run: k.run, For: k.n.w.plan.watchdog})
	}
}

func (k *worker) drain() {
	if k.ended || k.draining {
		return
	}
	k.draining = true
	if k.running == 0 {
		k.end(nil)
	}
}

// cancel cancels the context of all handlers, and starts no more.
func (k *worker) cancel() {
	if k.ended || k.cancelled {
		return
	}
	k.cancelled, k.cancelledAt = true, k.n.w.now
	for _, f := range k.onCancel {
		f()
	}
	if k.running == 0 {
		k.end(nil)
	}
}

// abandoned says whether the member may have given up waiting for its handlers.
func (k *worker) abandoned() bool {
	return k.cancelled && k.n.w.now-k.cancelledAt >= k.n.w.plan.grace*9/10
}

// end returns from the worker. With an error, handlers may have been at work: it cancels them first.
func (k *worker) end(err error) {
	if k.ended {
		return
	}
	if k.running > 0 {
		k.failure = err
		k.cancel()
		return
	}
	k.ended = true
	err = errors.Join(k.failure, err)
	k.n.soon(func() {
		k.n.workers[k.unit] = nil
		c := k.checkpoint()
		ev := core.UnitEnded{Unit: k.unit, Run: k.run, Checkpoint: &c, Err: err, Above: k.above}
		k.n.step(ev)
		if k.n.w.plan.has[Duplicate] && !k.n.w.heals && k.n.w.chance(4) {
			k.n.in(k.n.w.upTo(time.Second), func() { k.n.step(ev) })
		}
	})
}

func (k *worker) checkpoint() registry.Checkpoint {
	pos := registry.Position{Storage: k.part.storage, Partition: k.unit, Next: k.next}
	for o := k.next; o < int64(len(k.state)); o++ {
		if k.state[o] != finished {
			continue
		}
		if last := len(pos.Done) - 1; last >= 0 && pos.Done[last][1] == o {
			pos.Done[last][1]++
		} else {
			pos.Done = append(pos.Done, registry.Range{o, o + 1})
		}
	}
	return registry.Checkpoint{Positions: []registry.Position{pos}}
}

func (k *worker) tell(kind history.Kind, o int64) {
	k.n.w.tell(history.Event{
		Kind: kind, Member: k.n.name, Incarnation: k.n.incarnation, Unit: k.unit, Epoch: k.epoch,
		Storage: k.part.storage, Partition: k.unit, Offset: o, Key: k.part.keys[o],
	})
}
