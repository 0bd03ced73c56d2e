package group

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/group/core"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// Run makes this process a member of a group and works on its units until ctx ends. Then it drains,
// hands its units over, leaves, and returns nil; an error says what it could not hand over in time.
// It also ends when another process takes the member ID (ErrFenced), when the group exists for
// another topic or number of units (fault.Exists), and when it was deleted (fault.NotFound). An
// unreachable store does not end Run: it waits.
//
// Whatever the reason, all goroutines have been joined when it returns.
func Run(ctx context.Context, cfg Config, worker Worker) error {
	m, err := begin(&cfg, worker)
	if err != nil {
		return err
	}
	return m.run(ctx)
}

// begin is a separate call to free its stack space for the life of the member.
func begin(cfg *Config, worker Worker) (*member, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if worker == nil {
		return nil, fmt.Errorf("group %q: no worker: %w", cfg.Group, fault.Invalid)
	}
	return newMember(cfg.withDefaults(), worker)
}

// member drives a core.State. The goroutine of run owns every field; the others send messages.
type member struct {
	cfg    Config
	group  *protocol.Group
	worker Worker
	core   *core.State
	unread []string // members with unreadable entries, logged already
	began  time.Time

	messages chan message
	gone     chan struct{}  // closed when the loop has ended
	wg       sync.WaitGroup // every goroutine

	units    []*Unit // running, by number
	sessions map[string]registry.Session
	current  string    // the session in use
	lease    time.Time // its deadline, as the core knows it
	sure     *Lease    // of it
	joined   bool
	timer    *time.Timer
	pace     *pace // of the collecting of progress
	throttle throttle
	exit     *core.Exit
}

// message is an event, with what the core need not see.
type message struct {
	event   core.Event
	session registry.Session
}

func newMember(cfg Config, worker Worker) (*member, error) {
	g, err := protocol.NewGroup(cfg.Registry, cfg.Group)
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname() // for people only
	return &member{
		cfg: cfg, group: g, worker: worker, began: time.Now(),
		pace:     newPace(cfg.CommitInterval),
		messages: make(chan message), gone: make(chan struct{}), sessions: make(map[string]registry.Session),
		core: core.New(core.Config{
			Group: g, Topic: cfg.Topic, Units: cfg.Units, Layout: cfg.Layout, LayoutName: cfg.LayoutName, Closed: cfg.Closed, Initial: cfg.Initial, First: cfg.First, Defined: cfg.Defined, WorkersCommit: cfg.WorkersCommit, UnitZones: cfg.Zones,
			Member: cfg.Member, Incarnation: cfg.Incarnation, Weight: cfg.Weight, Zone: cfg.Zone,
			Host: host, PID: os.Getpid(), Assignor: cfg.Assignor,
			Static: cfg.Static, RestartWindow: cfg.RestartWindow,
			SessionTTL: cfg.SessionTTL, DrainTimeout: cfg.DrainTimeout, CancelGrace: cfg.CancelGrace,
			CommitInterval: cfg.CommitInterval, Sweep: sweep,
		}),
	}, nil
}

// run is the loop that owns the state.
func (m *member) run(ctx context.Context) error {
	// Store calls and workers outlive ctx: leaving needs both.
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer m.wg.Wait()
	defer cancel()
	defer close(m.gone)
	m.timer = time.NewTimer(time.Hour)
	defer m.timer.Stop()
	defer m.pace.stop()

	hints := make(chan struct{}, 1)
	m.wg.Go(func() { // joined above, as are all of m.wg
		Watch(inner, m.group.Registry(), m.group.WatchPrefix(), func() {
			select {
			case hints <- struct{}{}:
			default:
			}
		})
	})
	stop := ctx.Done()
	m.step(inner, core.Tick{})
	for m.exit == nil {
		select {
		case msg := <-m.messages:
			if msg.session != nil {
				m.adopt(inner, msg.session)
			}
			if ended, ok := msg.event.(core.UnitEnded); ok {
				m.forget(ended)
			}
			m.step(inner, msg.event)
		case l := <-m.cfg.Layouts:
			m.step(inner, core.Grown{Layout: l})
		case <-hints:
			m.step(inner, core.Changed{})
		case <-m.timer.C:
			m.step(inner, core.Tick{})
		case <-m.pace.ticker.C:
			if calm := m.collect(inner); m.pace.rest(calm) {
				m.pace.rest(m.collect(inner)) // what has just moved did not know that it had to say so
			}
		case <-m.pace.wake:
			m.pace.start()
		case <-stop:
			stop = nil
			m.step(inner, core.Stop{})
		}
	}
	m.leave(inner)
	return m.exit.Err
}

// send delivers a message to the loop, or finds that it has ended.
func (m *member) send(msg message) (delivered bool) {
	select {
	case m.messages <- msg:
		return true
	case <-m.gone:
		return false
	}
}

// step gives the core an event and does what it asks for.
func (m *member) step(ctx context.Context, ev core.Event) {
	m.look(ctx)
	m.feed(ctx, ev)
}

// look tells the core that the session's deadline has moved: after a renewal, and after a suspension
// of the host, when it comes sooner.
func (m *member) look(ctx context.Context) {
	s := m.sessions[m.current]
	if s == nil {
		return
	}
	if end := s.Deadline(); !end.Equal(m.lease) {
		m.lease = end
		m.feed(ctx, core.Renewed{Session: m.current, Lease: m.at(end)})
	}
}

func (m *member) feed(ctx context.Context, ev core.Event) {
	now := time.Now()
	for _, e := range m.core.Step(core.Input{Now: m.at(now), Wall: now.UnixMilli(), Event: ev}) {
		m.do(ctx, e)
	}
}

// at converts a time to the core's clock; began is at one hour, so that it is positive.
func (m *member) at(t time.Time) time.Duration { return t.Sub(m.began) + time.Hour }

// collect asks the workers for their progress. It is calm when there was none, and no handler runs.
func (m *member) collect(ctx context.Context) (calm bool) {
	m.look(ctx) // handlers that run must not outlive it
	calm = true
	var ev core.Progress
	var stuck []core.UnitStuck
	for _, u := range m.units {
		p, ok := u.read()
		if !ok {
			continue
		}
		calm = calm && p.Oldest.IsZero()
		if p.Positions != nil && (p.From != u.from || p.Deliveries != u.told || !protocol.SamePositions(u.sent, p.Positions)) {
			calm, u.sent, u.from, u.told = false, p.Positions, p.From, p.Deliveries
			ev.Units = append(ev.Units, core.UnitProgress{
				Unit: u.Number(), Run: u.run, Checkpoint: protocol.Checkpoint{Positions: p.Positions, From: p.From, Deliveries: p.Deliveries},
			})
		}
		if t := m.cfg.ProgressTimeout; t > 0 && !u.stuck && !p.Oldest.IsZero() && time.Since(p.Oldest) > t {
			u.stuck = true
			stuck = append(stuck, core.UnitStuck{Unit: u.Number(), Run: u.run, For: time.Since(p.Oldest)})
		}
	}
	if len(ev.Units) > 0 {
		m.step(ctx, ev)
	}
	for _, ev := range stuck {
		m.step(ctx, ev)
	}
	return calm
}

// unit returns the running worker of that run.
func (m *member) unit(number int, run uint64) *Unit {
	for _, u := range m.units {
		if u.Number() == number && u.run == run {
			return u
		}
	}
	return nil
}

func (m *member) forget(ended core.UnitEnded) {
	m.units = slices.DeleteFunc(m.units, func(u *Unit) bool { return u.run == ended.Run })
	if len(m.units) == 0 {
		m.pace.stop()
	}
}

// adopt starts to use a new session.
func (m *member) adopt(ctx context.Context, s registry.Session) {
	m.sessions[s.ID()], m.current, m.lease, m.sure = s, s.ID(), s.Deadline(), NewLease(s, true)
	m.wg.Go(func() {
		select {
		case <-s.Done():
			m.send(message{event: core.SessionLost{Session: s.ID()}})
		case <-ctx.Done():
		}
	})
}

// leave ends the session, so that others need not wait for its TTL, or takes the member out of a shared one.
func (m *member) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.SessionTTL)
	defer cancel()
	for id, s := range m.sessions { // one, or a lost one besides
		var err error
		if share, ok := s.(*protocol.Share); ok && id == m.exit.Session {
			err = share.Leave(ctx, m.exit.Withdraw, m.cfg.Incarnation, m.exit.Doubt)
		} else {
			m.lose(s)
			err = s.Close(ctx)
		}
		if err != nil {
			m.log().Warn("the session could not be ended; it runs out by itself", "error", err)
		}
	}
}
