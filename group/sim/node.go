package sim

import (
	"fmt"
	"time"

	"github.com/ringfence/ringfence/group/core"
	"github.com/ringfence/ringfence/group/protocol"
)

// node is one process: a member, and the shell around its core.
type node struct {
	w                 *world
	name, incarnation string
	cfg               core.Config
	core              *core.State

	// Its clock: base + rate × the world's time. It never jumps; the calendar does.
	base  time.Duration
	rate  float64
	timer uint64 // number of the timer that counts

	session  string
	sharing  string // that goes on though the member left
	renewed  asked
	slept    time.Duration // in all suspensions
	told     time.Duration // the deadline that the core knows
	renewing bool          // the driver's loop is there
	hinted   bool          // a hint is on its way
	workers  []*worker     // by unit
	handouts int           // by its workers
	changed  bool          // progress to report
	budget   budget
	paused   []int         // by unit: readings in a row that show it so
	entered  time.Duration // when its member entry was put last
	within   string        // the life of the group in which that was
	life     string        // … when it was told that it is in
	others   int           // readings in a row that show another life
	answer   uint64        // number of the last reading

	dead     bool // killed
	frozen   bool
	asleep   time.Duration // since when its host is suspended; 0: it isn't
	waking   bool          // it went on, and has not looked at its deadline since
	cutOff   bool          // can't reach the store
	deaf     bool          // its watch is gone
	leaving  bool
	joined   bool // it was in the group
	healing  bool
	exited   bool
	exit     error
	lateCall bool     // the request that the store applies now was given up by its sender
	crossed  bool     // and was sent before the store went back
	gaveUp   []bool   // by unit: its handlers were given up when that request was sent
	backlog  []func() // what happens when it is thawed
}

// newNode starts a process. An empty name is a new member.
func (w *world) newNode(name string) {
	n := &node{w: w, name: name, rate: 1, base: w.upTo(time.Hour), incarnation: fmt.Sprintf("i%d", len(w.nodes))}
	if name == "" {
		n.name = string(rune('a' + len(w.nodes)%26))
	}
	if w.plan.has[Skew] {
		n.rate += float64(w.rng.IntN(61)-30) / 1000
	}
	p := &w.plan
	n.cfg = core.Config{
		Group: w.group, Topic: "t", Units: p.units, Member: n.name, Incarnation: n.incarnation, Assignor: p.assignor,
		SessionTTL: p.ttl, DrainTimeout: p.drain, CancelGrace: p.grace, CommitInterval: p.commit, Sweep: p.sweep, UnitZones: p.zones,
	}
	if n.cfg.Layout = w.layout(); n.cfg.Layout != nil {
		n.cfg.Units = len(n.cfg.Layout)
	}
	if p.has[Static] && (name != "" || w.chance(2)) {
		n.cfg.Static, n.cfg.RestartWindow = true, p.window
	}
	if p.weighted {
		n.cfg.Weight = w.rng.IntN(4)
		n.cfg.Zone = string(rune('x' + w.rng.IntN(3)))
	}
	n.core = core.New(n.cfg)
	n.workers, n.paused = make([]*worker, len(w.units)), make([]int, len(w.units))
	w.nodes = append(w.nodes, n)
	w.tracef("%s starts", n)
	n.soon(func() { n.step(core.Tick{}) })
}

func (n *node) String() string { return n.name + "@" + n.incarnation }

func name(n *node) string {
	if n == nil {
		return "an operator"
	}
	return n.String()
}

// up reports whether the process is alive and is a member or wants to be one.
func (n *node) up() bool { return !n.dead && !n.exited }

// in runs f inside the process after a while: not when it is dead, later when it is frozen.
func (n *node) in(d time.Duration, f func()) {
	n.w.later(d, func() { n.run(f) })
}

func (n *node) run(f func()) {
	switch {
	case n.dead:
	case n.frozen:
		n.backlog = append(n.backlog, f)
	default:
		f()
	}
}

func (n *node) soon(f func()) { n.in(n.w.brief(), f) }

// step gives the core an event and carries out the effects.
func (n *node) step(ev core.Event) {
	n.look()
	n.feed(ev)
}

func (n *node) feed(ev core.Event) {
	if n.exited {
		return
	}
	n.budget.allow(ev)
	if l, ok := ev.(core.Loaded); ok && l.ID > n.answer { // not one that comes twice
		n.answer = l.ID
		n.read(l.State)
	}
	if n.w.trace != nil {
		n.w.tracef("%s ← %T %s", n, ev, show(ev))
	}
	var news []core.Report
	for _, e := range n.core.Step(core.Input{Now: n.clock(), Wall: n.wall(), Event: ev}) {
		if n.w.trace != nil {
			n.w.tracef("%s → %T %s", n, e, show(e))
		}
		n.budget.spend(n, e)
		n.do(e)
		if r, ok := e.(core.Report); ok {
			news = append(news, r)
		}
	}
	for i := range news {
		n.lost(&news[i])
	}
	if n.others > 1 && !n.exited {
		n.w.fail("%s has read more than once that its group is another one, and goes on", n)
	}
}

// wall is the calendar, which is unreliable.
func (n *node) wall() int64 {
	if n.w.plan.has[Skew] {
		return n.w.rng.Int64N(4_000_000_000_000) - 1_000_000_000_000
	}
	return n.w.now.Milliseconds()
}

func (n *node) do(effect core.Effect) {
	switch e := effect.(type) {
	case core.Load:
		n.load(e)
	case core.Apply:
		n.apply(e)
	case core.OpenSession:
		n.openSession(e.ID)
	case core.CloseSession:
		n.closeSession(e.Session)
	case core.StartUnit:
		n.startUnit(e)
	case core.DrainUnit:
		if k := n.worker(e.Unit, e.Run); k != nil {
			n.soon(k.drain)
		}
	case core.StopUnit:
		if k := n.worker(e.Unit, e.Run); k != nil {
			k.cancel()
		}
	case core.SetTimer:
		n.timer++
		number := n.timer
		n.when(e.At, func() {
			if n.timer == number {
				n.step(core.Tick{})
			}
		})
	case core.Report:
		if e.Kind == core.Joined {
			n.joined, n.life, n.others = true, n.within, 0
		}
	case core.Exit:
		n.exited, n.exit = true, e.Err
		n.depart(&e)
	}
}

func (n *node) startUnit(e core.StartUnit) {
	u := e.Grant.Unit
	if old := n.workers[u]; old != nil {
		n.w.fail("%s starts unit %d while its worker of epoch %d is still there", n, u, old.epoch)
		return
	}
	n.begins(&e)
	n.workers[u] = newWorker(n, e)
	n.w.units[u].starts[e.Grant.Epoch]++
}

// worker finds the worker of that run; nil when it has returned.
func (n *node) worker(unit int, run uint64) *worker {
	if k := n.workers[unit]; k != nil && k.run == run {
		return k
	}
	return nil
}

// progress reports the workers' progress to the core, once an interval.
func (n *node) progress() {
	if n.changed || !n.up() {
		return
	}
	n.changed = true
	n.in(n.w.upTo(n.w.plan.commit), func() {
		n.changed = false
		var ev core.Progress
		for u, k := range n.workers {
			if k != nil && k.moved {
				k.moved = false
				ev.Units = append(ev.Units, core.UnitProgress{Unit: u, Run: k.run, Checkpoint: k.checkpoint(false)})
			}
		}
		n.step(ev)
	})
}

// fail ends the history: the simulation itself saw something forbidden.
func (w *world) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
		w.tracef("FAILURE: %s", w.err)
	}
}

// show is an event or effect for a trace.
func show(x any) string {
	switch e := x.(type) {
	case core.Apply:
		s := ""
		for _, t := range e.Txns {
			for _, p := range t.Puts {
				s += " put " + p.Key
			}
			for _, k := range t.Deletes {
				s += " delete " + k
			}
		}
		return fmt.Sprintf("%d:%s", e.ID, s)
	case core.Loaded:
		if e.State == nil {
			return fmt.Sprint(e.Err)
		}
		s := ""
		for _, m := range e.State.Members {
			s += " " + m.ID + "@" + m.Incarnation
		}
		for _, u := range e.State.Units {
			s += fmt.Sprintf(" %d:%s@%s/%d", u.Number, u.Owner.Member, u.Owner.Incarnation, u.Owner.Epoch)
		}
		if e.State.Assignment != nil {
			s += fmt.Sprint(" targets ", e.State.Assignment.Targets)
		}
		return s
	case core.StartUnit:
		var from []protocol.Position
		if e.Checkpoint != nil {
			from = e.Checkpoint.Positions
		}
		return fmt.Sprintf("unit %d epoch %d from %v: %s", e.Grant.Unit, e.Grant.Epoch, from, e.Why)
	default:
		return fmt.Sprintf("%+v", x)
	}
}
