package core

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/assign"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// store is a registry of a few lines, with faults on demand.
type store struct {
	entries  map[string]registry.Entry
	sessions map[string]time.Duration // alive until
	count    int
	down     bool
	lose     bool // apply, but answer that nobody knows
	changed  bool // something that watchers hear of
	lists    int
	applies  int
	clock    func() int64          // nil: 1970 for ever
	onApply  func(key string)      // before each transaction, with its first check's key
	refuse   func(key string) bool // whether that transaction is not carried out, the others are
}

func (st *store) List(_ context.Context, prefix string) (registry.Snapshot, error) {
	if st.down {
		return registry.Snapshot{}, registry.ErrUnavailable
	}
	st.lists++
	var snap registry.Snapshot
	if st.clock != nil {
		snap.Time = st.clock()
	}
	for key, e := range st.entries {
		if strings.HasPrefix(key, prefix) {
			snap.Entries = append(snap.Entries, e)
		}
	}
	sort.Slice(snap.Entries, func(i, j int) bool { return snap.Entries[i].Key < snap.Entries[j].Key })
	return snap, nil
}

func (st *store) Apply(_ context.Context, txns []registry.Txn) ([]registry.Result, error) {
	if st.down {
		return nil, registry.ErrUnavailable
	}
	st.applies++
	res := make([]registry.Result, len(txns))
	for i := range txns {
		if st.onApply != nil {
			st.onApply(txns[i].Checks[0].Key)
		}
		if st.refuse != nil && st.refuse(txns[i].Checks[0].Key) {
			res[i] = registry.Result{Err: registry.ErrUnavailable}
			continue
		}
		res[i] = st.one(&txns[i])
		if st.lose {
			res[i] = registry.Result{Err: registry.ErrUnknown}
		}
	}
	return res, nil
}

func (st *store) one(t *registry.Txn) (res registry.Result) {
	for i, c := range t.Checks {
		if st.entries[c.Key].Version != c.Version {
			return registry.Result{Err: registry.ErrConflict, Failed: i}
		}
	}
	for _, p := range t.Puts {
		if _, ok := st.sessions[p.Session]; p.Session != "" && !ok {
			return registry.Result{Err: registry.ErrFenced}
		}
	}
	for _, p := range t.Puts {
		st.count++
		v := registry.Version(fmt.Sprint(st.count))
		st.entries[p.Key] = registry.Entry{Key: p.Key, Value: p.Value, Version: v, Session: p.Session}
		res.Versions = append(res.Versions, v)
	}
	for _, key := range t.Deletes {
		delete(st.entries, key)
	}
	st.changed = st.changed || !t.Quiet
	return res
}

func (st *store) end(session string) {
	if _, ok := st.sessions[session]; !ok {
		return
	}
	delete(st.sessions, session)
	for key, e := range st.entries {
		if e.Session == session {
			delete(st.entries, key)
		}
	}
	st.changed = true
}

func (st *store) Watch(context.Context, string) (<-chan struct{}, error) { return nil, nil }
func (st *store) OpenSession(context.Context, time.Duration) (registry.Session, error) {
	return nil, registry.ErrUnavailable
}
func (st *store) Close() error { return nil }

// node is a member and its worker goroutines, imagined.
type node struct {
	w        *world
	name     string
	s        *State
	timer    time.Duration
	session  string
	frozen   bool // runs nothing, renews nothing
	hangs    bool // workers don't end on a drain
	deaf     bool // nor on a cancel
	running  map[int]StartUnit
	progress map[int]int64
	starts   map[int]int   // by unit
	causes   map[int]error // of cancels, by unit
	exit     *Exit
	reports  []Report
	last     Effect // the last call that it made
	inbox    []func() Event
	consumes Layout // what a Load says that the group consumes
}

// world runs members against one store on a clock of its own.
type world struct {
	t     *testing.T
	now   time.Duration
	store *store
	reg   *registry.Registry
	group *protocol.Group
	nodes []*node
	ids   int
}

const (
	ttl   = 5 * time.Second
	drain = 10 * time.Second
	grace = time.Second
)

func newWorld(t *testing.T) *world {
	st := &store{entries: map[string]registry.Entry{}, sessions: map[string]time.Duration{}}
	w := &world{t: t, now: time.Hour, store: st, reg: registry.New(st)}
	g, err := protocol.NewGroup(w.reg, "g")
	must(t, err)
	w.group = g
	return w
}

func (w *world) start(name string, opts ...func(*Config)) *node {
	w.t.Helper()
	w.ids++
	cfg := Config{
		Group: w.group, Topic: "t", Units: 8, Member: name, Incarnation: fmt.Sprintf("%s%d", name, w.ids),
		Assignor: assign.Sticky{}, SessionTTL: ttl, DrainTimeout: drain, CancelGrace: grace,
		CommitInterval: 100 * time.Millisecond,
	}
	for _, o := range opts {
		o(&cfg)
	}
	n := &node{w: w, name: name, s: New(cfg), running: map[int]StartUnit{}, progress: map[int]int64{}, starts: map[int]int{}, causes: map[int]error{}}
	w.nodes = append(w.nodes, n)
	n.post(Tick{})
	return n
}

func (n *node) post(ev Event) { n.inbox = append(n.inbox, func() Event { return ev }) }

func (n *node) step(ev Event) {
	for _, e := range n.s.Step(Input{Now: n.w.now, Event: ev}) {
		n.do(e)
	}
}

func (n *node) do(effect Effect) {
	w := n.w
	ctx := context.Background()
	switch e := effect.(type) {
	case Load:
		n.last = e
		n.inbox = append(n.inbox, func() Event {
			st, err := w.group.Load(ctx, true)
			ev := Loaded{ID: e.ID, State: st, Err: err}
			if e.Layout {
				ev.Layout = n.consumes
			}
			return ev
		})
	case Apply:
		n.last = e
		n.inbox = append(n.inbox, func() Event {
			res, err := w.reg.Apply(ctx, e.Txns)
			return Applied{ID: e.ID, Results: res, Err: err}
		})
	case OpenSession:
		n.inbox = append(n.inbox, func() Event {
			if w.store.down {
				return SessionOpened{ID: e.ID, Err: registry.ErrUnavailable}
			}
			w.ids++
			n.session = fmt.Sprintf("s%d", w.ids)
			w.store.sessions[n.session] = w.now + ttl
			return SessionOpened{ID: e.ID, Session: n.session, Lease: w.now + ttl}
		})
	case CloseSession:
		if !w.store.down {
			w.store.end(e.Session)
		}
		n.session = ""
	case StartUnit:
		u := e.Grant.Unit
		if _, ok := n.running[u]; ok {
			w.t.Errorf("%s: unit %d started while its worker runs", n.name, u)
		}
		n.running[u], n.progress[u] = e, 0
		n.starts[u]++
		if e.Checkpoint != nil {
			n.progress[u] = e.Checkpoint.Positions[0].Next
		}
	case DrainUnit:
		if !n.hangs {
			n.end(e.Unit, nil)
		}
	case StopUnit:
		n.causes[e.Unit] = e.Cause
		if !n.deaf {
			n.end(e.Unit, e.Cause)
		}
	case SetTimer:
		n.timer = e.At
	case Report:
		n.reports = append(n.reports, e)
	case Exit:
		n.exit = &e
		if n.session != "" && !w.store.down {
			w.store.end(n.session)
		}
		n.session = ""
	}
}

func (n *node) end(unit int, err error) {
	st, ok := n.running[unit]
	if !ok {
		return
	}
	delete(n.running, unit)
	c := at(n.progress[unit])
	n.post(UnitEnded{Unit: unit, Run: st.Run, Checkpoint: &c, Err: err})
}

func at(next int64) protocol.Checkpoint {
	return protocol.Checkpoint{Positions: []protocol.Position{{Next: next}}}
}

// work moves all running units of the node on by d.
func (n *node) work(d int64) {
	var p Progress
	for u := range n.s.units {
		if st, ok := n.running[u]; ok {
			n.progress[u] += d
			p.Units = append(p.Units, UnitProgress{Unit: u, Run: st.Run, Checkpoint: at(n.progress[u])})
		}
	}
	n.post(p)
}

// quiet delivers events until there are none left at this moment.
func (w *world) quiet() {
	for round := 0; ; round++ {
		if round > 5000 {
			w.t.Fatal("the members never come to rest")
		}
		if w.store.changed {
			w.store.changed = false
			for _, n := range w.nodes {
				n.post(Changed{})
			}
		}
		idle := true
		for _, n := range w.nodes {
			if n.frozen || n.exit != nil || len(n.inbox) == 0 {
				continue
			}
			next := n.inbox[0]
			n.inbox = n.inbox[1:]
			n.step(next())
			idle = false
		}
		if idle && !w.store.changed {
			return
		}
	}
}

// pass lets time go by, with renewals, expiry and timers.
func (w *world) pass(d time.Duration) {
	w.quiet()
	for end := w.now + d; w.now < end; {
		next := min(end, w.now+ttl/10)
		for _, n := range w.nodes {
			if n.timer > w.now && n.timer < next && !n.frozen && n.exit == nil {
				next = n.timer
			}
		}
		w.now = next
		for _, n := range w.nodes {
			if _, ok := w.store.sessions[n.session]; ok && !n.frozen && !w.store.down {
				w.store.sessions[n.session] = w.now + ttl
				n.post(Renewed{Session: n.session, Lease: w.now + ttl})
			}
			if n.timer != 0 && n.timer <= w.now && !n.frozen && n.exit == nil {
				n.timer = 0
				n.post(Tick{})
			}
		}
		for id, until := range w.store.sessions {
			if until <= w.now && !w.store.down {
				w.store.end(id)
			}
		}
		w.quiet()
	}
}

// kill ends a node without a word; the store notices at once.
func (w *world) kill(n *node) {
	for i := range w.nodes {
		if w.nodes[i] == n {
			w.nodes = append(w.nodes[:i], w.nodes[i+1:]...)
			break
		}
	}
	w.store.end(n.session)
}

func (n *node) units() []int {
	var us []int
	for u := range n.s.units {
		if _, ok := n.running[u]; ok {
			us = append(us, u)
		}
	}
	return us
}

func (w *world) load() *protocol.State {
	w.t.Helper()
	st, err := w.group.Load(context.Background(), true)
	if err != nil {
		w.t.Fatal(err)
	}
	return st
}

// each unit runs once, on the member that the store names, at the epoch it names.
func (w *world) complete() {
	w.t.Helper()
	st := w.load()
	for i := range st.Units {
		o := st.Units[i].Owner
		count := 0
		for _, n := range w.nodes {
			if r, ok := n.running[i]; ok {
				count++
				if n.name != o.Member || r.Grant.Epoch != o.Epoch || r.Grant.Version != st.Units[i].OwnerVersion {
					w.t.Errorf("unit %d runs on %s at epoch %d; the store says %+v", i, n.name, r.Grant.Epoch, o)
				}
			}
		}
		if count != 1 {
			w.t.Errorf("unit %d runs %d times; want once (%+v)", i, count, o)
		}
	}
}

// alone is a world with one member that has all units.
func alone(t *testing.T) (w *world, a *node) {
	t.Helper()
	w = newWorld(t)
	a = w.start("a")
	w.pass(time.Second)
	return w, a
}

// pair is a world with two members that share the units.
func pair(t *testing.T) (w *world, a, b *node) {
	t.Helper()
	w = newWorld(t)
	a, b = w.start("a"), w.start("b")
	w.pass(time.Second)
	return w, a, b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
