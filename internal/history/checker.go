package history

import (
	"math"
	"slices"
)

// Config says how much the history can be relied on.
type Config struct {
	// Exact: no event is missing, Owned and Committed come in the order in which the store
	// applied them, and offsets are dense, as in the simulation. Then epochs must also grow by
	// exactly one (more after a rollback), and no checkpoint may lie beyond the last record.
	Exact bool
}

// Checker judges a history of one group, event by event. Not for concurrent use.
type Checker struct {
	cfg     Config
	report  Report
	units   map[int]*unit
	parts   map[place]*partition
	keys    map[keyID]*keyState
	sent    map[uint64]*fate // by value; nil: the history does not tell what was sent
	streams map[string]*stream
	undid   bool // the store went back: the tokens that it has forgotten may be given again
	sweepAt int
}

// unit is the owners of a unit, by time.
type unit struct {
	tenures map[int64]*tenure
	epochs  []int64   // of tenures, ascending
	seeks   []int64   // the epochs that began with a seek, ascending
	resets  int       // seeks and rollbacks
	undone  []*tenure // that the store knows nothing of any more

	rolledBack bool // then members may leave out the epochs that they still remember
}

// tenure is the time of one owner, from its claim to the next.
type tenure struct {
	owned      Event
	start      coverage // what it began with
	last       coverage // what its last accepted commit covers; at first start
	lastCommit Event
	running    int // handlers at work
	rejoined   int // how often it went on after its session was lost
	replaced   bool
	shaken     bool // by a rollback: it may not remember what it finished
}

// New returns a checker that has seen nothing yet.
func New(cfg Config) *Checker {
	return &Checker{
		cfg: cfg, units: map[int]*unit{}, parts: map[place]*partition{}, keys: map[keyID]*keyState{}, sweepAt: minKeys,
		streams: map[string]*stream{},
	}
}

// Add judges the next event. Events come in the order of At.
func (c *Checker) Add(e Event) {
	if e.Offset < 0 || e.Offset == math.MaxInt64 {
		c.report.violate(OneValue, []Event{e}, "a record can't stand at %s/%d", e.place(), e.Offset)
		return
	}
	switch e.Kind {
	case Sent:
		c.send(&e)
	case Denied:
		c.denied(&e)
	case Produced:
		c.produced(&e)
	case Started:
		c.started(&e)
	case Finished, Failed:
		c.ended(&e)
	case Committed:
		c.committed(&e)
	case Owned:
		c.owned(&e)
	case Rejoined:
		c.rejoined(&e)
	case Seek:
		c.seek(&e)
	case Rollback:
		c.undid = true
		c.rollback(&e)
	}
}

// Report is the judgement so far. It changes with the next event.
func (c *Checker) Report() *Report { return &c.report }

// Finish ends the history; complete says that everything was consumed.
func (c *Checker) Finish(complete bool) *Report {
	for _, at := range inOrder(c.parts) {
		first, n := c.parts[at].missing()
		if !complete {
			c.report.Lag += n
			continue
		}
		c.report.Lost += n
		if n > 0 {
			c.report.violate(NotLost, nil, "%d acknowledged records of %s were never finished, the first is %d", n, at, first)
		}
	}
	r := &c.report
	if r.Duplicated > r.InFlight+r.Stale {
		r.violate(NotAgain, nil, "%d duplicates, but only %d records were in flight at takeovers and %d given out by replaced owners",
			r.Duplicated, r.InFlight, r.Stale)
	}
	return r
}

func (c *Checker) partition(at place) *partition {
	p := c.parts[at]
	if p == nil {
		p = newPartition()
		c.parts[at] = p
	}
	return p
}

// partitionOf is a partition that the unit is seen to work on.
func (c *Checker) partitionOf(unit int, at place) *partition {
	p := c.partition(at)
	p.unit = unit
	return p
}

func (c *Checker) unit(n int) *unit {
	u := c.units[n]
	if u == nil {
		u = &unit{tenures: map[int64]*tenure{}}
		c.units[n] = u
	}
	return u
}

func (u *unit) add(t *tenure) {
	u.tenures[t.owned.Epoch] = t
	i, _ := slices.BinarySearch(u.epochs, t.owned.Epoch)
	u.epochs = slices.Insert(u.epochs, i, t.owned.Epoch)
}

// neighbours returns the tenures before and after an epoch as long as no seek lies between.
func (u *unit) neighbours(epoch int64) (before, after *tenure) {
	i, found := slices.BinarySearch(u.epochs, epoch)
	if i > 0 && !u.soughtBetween(u.epochs[i-1], epoch) {
		before = u.tenures[u.epochs[i-1]]
	}
	if found {
		i++
	}
	if i < len(u.epochs) && !u.soughtBetween(epoch, u.epochs[i]) {
		after = u.tenures[u.epochs[i]]
	}
	return before, after
}

// soughtBetween says whether an epoch in (from, to] began with a seek.
func (u *unit) soughtBetween(from, to int64) bool {
	i, _ := slices.BinarySearch(u.seeks, from+1)
	return i < len(u.seeks) && u.seeks[i] <= to
}

// soughtAfter says whether a seek has replaced the owner of an epoch.
func (u *unit) soughtAfter(epoch int64) bool {
	return len(u.seeks) > 0 && u.seeks[len(u.seeks)-1] > epoch
}

func (u *unit) newest() int64 {
	if len(u.epochs) == 0 {
		return 0
	}
	return u.epochs[len(u.epochs)-1]
}

// newer returns the event of a later owner that all processes knew before the moment.
func (u *unit) newer(epoch, moment int64) *Event {
	for i := len(u.epochs) - 1; i >= 0 && u.epochs[i] > epoch; i-- {
		if t := u.tenures[u.epochs[i]]; t.owned.At < moment {
			return &t.owned
		}
	}
	return nil
}

// tenure finds the time of the owner that the event names, and checks that. undone: the store has forgotten it.
func (c *Checker) tenure(u *unit, e *Event) (t *tenure, undone bool) {
	t = u.tenures[e.Epoch]
	if t != nil && t.owned.who() == e.who() {
		return t, false
	}
	for _, old := range slices.Backward(u.undone) {
		if old.owned.Epoch == e.Epoch && old.owned.who() == e.who() {
			return old, true
		}
	}
	if t == nil {
		t = &tenure{owned: Event{Kind: Owned, At: e.At, Member: e.Member, Incarnation: e.Incarnation, Unit: e.Unit, Epoch: e.Epoch}}
		u.add(t)
		c.report.violate(OnlyOwners, []Event{*e}, "%s acts for unit %d in epoch %d, which was never seen granted", e.who(), e.Unit, e.Epoch)
		return t, false
	}
	c.report.violate(OnlyOwners, []Event{t.owned, *e}, "%s acts for unit %d in epoch %d, which belongs to %s",
		e.who(), e.Unit, e.Epoch, t.owned.who())
	return t, false
}

func (c *Checker) produced(e *Event) {
	p := c.partition(e.place())
	c.seen(e, p)
	r := p.at(e.Offset)
	if !r.acked {
		c.report.Produced++
	}
	r.acked = true
	if e.Offset < p.frontier && !r.done && !p.isExcused(e.Offset) {
		c.report.violate(NotSkipped, []Event{*e}, "the checkpoint stands at %d, and the record was not finished", p.frontier)
	}
}

// seen notes that a record exists, and compares its value and its place with what is known.
func (c *Checker) seen(e *Event, p *partition) {
	if !p.know(e) {
		c.report.violate(OneValue, []Event{*e}, "the record at %s/%d was seen with another value", e.place(), e.Offset)
	}
	c.stored(e)
}

func (c *Checker) started(e *Event) {
	c.report.Deliveries++
	u, p := c.unit(e.Unit), c.partitionOf(e.Unit, e.place())
	c.seen(e, p)
	t, undone := c.tenure(u, e)
	stale := undone || u.newest() > e.Epoch
	if stale {
		c.report.Stale++
	}
	c.receive(e, stale)
	t.running++
	if !undone && !u.soughtAfter(e.Epoch) && t.last.has(e.place(), e.Offset) {
		c.report.violate(NotAgain, []Event{t.owned, t.lastCommit, *e}, "the checkpoint of unit %d covers %d already", e.Unit, e.Offset)
	}
	r := p.at(e.Offset)
	first, fresh := !r.started, !r.done
	r.started = true
	if undone || u.soughtAfter(e.Epoch) {
		return // it says nothing about the order since
	}
	c.startKey(e, u, t, first, fresh)
	c.startStream(e, first)
}

func (c *Checker) ended(e *Event) {
	u, p := c.unit(e.Unit), c.partitionOf(e.Unit, e.place())
	t, undone := c.tenure(u, e)
	t.running--
	if !undone && !u.soughtAfter(e.Epoch) {
		c.endKey(e, u)
		c.endStream(e)
	}
	if e.Kind == Failed {
		c.report.Failed++
		return
	}
	r := p.at(e.Offset)
	r.known = true
	if r.done {
		c.report.Duplicated++
	} else {
		c.report.Delivered++
	}
	r.done = true
	if !undone && e.Offset >= p.frontier {
		p.finished[e.Offset] = p.finished[e.Offset].with(e.Epoch)
	}
}
