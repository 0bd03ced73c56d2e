package sim

import (
	"errors"
	"time"

	"github.com/ringfence/ringfence/group/core"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/history"
	"github.com/ringfence/ringfence/registry"
)

// concurrency is how many handlers a worker runs at once.
const concurrency = 3

// worker processes the records of one unit.
type worker struct {
	n      *node
	unit   int
	run    uint64
	epoch  int64
	grant  registry.Version
	inputs []*input // by input
	curt   bool     // it reports only inputs that have moved
	life   int      // of the group: how often it had been deleted

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

// input is how far a worker is in one of the unit's partitions.
type input struct {
	*partition
	next  int64  // the lowest unfinished
	state []byte // by offset, from 0
	begun bool   // it has a place there: one that was stored, or a record that it began with
	moved bool   // since it was last reported
}

// The states of a record.
const (
	waiting byte = iota
	busy
	backingOff
	finished
)

func newWorker(n *node, e core.StartUnit) *worker {
	k := &worker{n: n, unit: e.Grant.Unit, run: e.Run, epoch: e.Grant.Epoch, grant: e.Grant.Version, life: n.w.store.deleted}
	for _, p := range n.w.units[k.unit].parts {
		l := &input{partition: p}
		k.inputs = append(k.inputs, l)
		if e.Checkpoint == nil {
			continue
		}
		pos := e.Checkpoint.Position(p.unit.storage, p.number)
		if pos == nil {
			continue
		}
		l.next, l.begun = pos.Next, true
		l.grow()
		for _, r := range pos.Done {
			for o := r[0]; o < r[1]; o++ {
				l.state[o] = finished
			}
		}
	}
	k.curt = len(k.inputs) > 1 && n.w.which.IntN(2) == 0
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
	p := k.n.w.units[k.unit]
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

func (l *input) grow() {
	for int64(len(l.state)) < max(int64(len(l.keys)), l.next) {
		l.state = append(l.state, waiting)
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
	for _, l := range k.inputs {
		k.pumpOf(l)
	}
}

func (k *worker) pumpOf(l *input) {
	l.grow()
	var blocked uint64 // keys with an unfinished record before
	for o := l.next; o < int64(len(l.state)) && k.running < concurrency; o++ {
		if l.state[o] == finished {
			continue
		}
		bit := uint64(0)
		if key := l.keys[o]; key != "" {
			bit = 1 << (key[0] - 'a')
		}
		if l.state[o] == waiting && blocked&bit == 0 {
			k.handle(l, o)
		}
		blocked |= bit
	}
}

func (k *worker) handle(l *input, o int64) {
	w := k.n.w
	l.state[o], l.begun = busy, true
	k.running++
	k.gated(k.unit)
	k.handOut(l, o)
	k.tell(history.Started, l, o)
	took := w.upTo(time.Millisecond << w.rng.IntN(7))
	hangs := w.plan.has[Hang] && !w.heals && w.chance(12)
	if hangs {
		took = w.upTo(4 * w.plan.watchdog)
		k.n.in(w.plan.watchdog, func() { k.watchdog(l, o) })
	}
	heedless := hangs && w.chance(3) // does not return when cancelled
	done := false
	end := func(ok bool) {
		if !done {
			done = true
			k.handled(l, o, ok)
		}
	}
	fails := w.plan.has[Errors] && !w.heals && w.chance(6)
	k.n.in(took, func() { end(!fails) })
	if !heedless {
		k.onCancel = append(k.onCancel, func() { k.n.soon(func() { end(false) }) })
	}
}

func (k *worker) handled(l *input, o int64, ok bool) {
	k.running--
	w := k.n.w
	if ok {
		l.state[o], l.done[o] = finished, true
		k.tell(history.Finished, l, o)
		for l.next < int64(len(l.state)) && l.state[l.next] == finished {
			l.next++
		}
		k.moved, l.moved = true, true
		k.n.progress()
	} else {
		l.state[o] = backingOff
		k.tell(history.Failed, l, o)
		k.n.in(w.upTo(300*time.Millisecond), func() {
			l.state[o] = waiting
			k.pump()
		})
	}
	if (k.draining || k.cancelled) && k.running == 0 {
		k.end(nil)
		return
	}
	k.pump()
}

// watchdog reports a handler that has been at work for too long.
func (k *worker) watchdog(l *input, o int64) {
	if l.state[o] == busy && !k.ended && !k.stuck {
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

// abandoned reports whether the member may have given up waiting for its handlers.
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
		c := k.checkpoint(true)
		ev := core.UnitEnded{Unit: k.unit, Run: k.run, Checkpoint: &c, Err: err, Above: k.above}
		k.n.step(ev)
		if k.n.w.plan.has[Duplicate] && !k.n.w.heals && k.n.w.chance(4) {
			k.n.in(k.n.w.upTo(time.Second), func() { k.n.step(ev) })
		}
	})
}

// checkpoint is the worker's progress in the inputs that it has begun. A unit of one input always has a
// position.
func (k *worker) checkpoint(all bool) (c protocol.Checkpoint) {
	for _, l := range k.inputs {
		if len(k.inputs) == 1 || l.begun && (all || !k.curt || l.moved) {
			l.moved = false
			c.Positions = append(c.Positions, l.position())
		}
	}
	return c
}

func (l *input) position() protocol.Position {
	pos := protocol.Position{Storage: l.unit.storage, Partition: l.number, Next: l.next}
	for o := l.next; o < int64(len(l.state)); o++ {
		if l.state[o] != finished {
			continue
		}
		if last := len(pos.Done) - 1; last >= 0 && pos.Done[last][1] == o {
			pos.Done[last][1]++
		} else {
			pos.Done = append(pos.Done, protocol.Range{o, o + 1})
		}
	}
	return pos
}

func (k *worker) tell(kind history.Kind, l *input, o int64) {
	k.n.w.tell(history.Event{
		Kind: kind, Member: k.n.name, Incarnation: k.n.incarnation, Unit: k.unit, Epoch: k.epoch,
		Storage: l.unit.storage, Partition: l.number, Offset: o, Key: l.keys[o],
	})
}
