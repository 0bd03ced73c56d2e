package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ringfence/ringfence/consumer"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/remote/core"
)

// atOnce is how many records of a unit are with a session, or wait for room in its window. More cost the engine more
// than they bring.
const atOnce = 64

// newPool makes a pool; the caller holds mu.
func (h *Hub) newPool(workers bool) *pool {
	p := &pool{hub: h, core: core.NewPool(workers, func() uint64 { return handOuts.Add(1) }), sessions: map[*core.Session]*Session{}}
	h.pools[p] = struct{}{}
	return p
}

// member is a session as a member of its group.
type member struct {
	*Session

	mu    sync.Mutex
	units map[*group.Unit]*core.Unit
	told  map[int]told    // by unit
	going map[int]leaving // by unit: it is over here, and its checkpoint on its way to the next owner
}

// leaving is a unit whose records all have their answer.
type leaving struct {
	unit       *core.Unit
	checkpoint int64
}

// told is how a unit came.
type told struct {
	epoch     int64
	from, why string
}

// join makes the session take part. It is called once.
func (s *Session) join() {
	if s.pool.workers != nil {
		s.pool.deliver()
		return
	}
	h := s.hub
	ctx, cancel := context.WithCancel(h.ctx)
	s.pool.mu.Lock()
	s.leave = cancel
	over := s.core.Over() != ""
	s.pool.mu.Unlock()
	if over {
		cancel()
		return
	}
	m := &member{Session: s, units: map[*group.Unit]*core.Unit{}, told: map[int]told{}, going: map[int]leaving{}}
	began := h.begin(func() {
		defer cancel()
		err := m.consume(ctx)
		if err != nil {
			h.logger.Warn("a remote session is over", "session", s.id, "group", s.params.Group, "error", err)
		}
		s.end(because(err))
	})
	if !began {
		cancel()
	}
}

// because is why sessions end with what they consumed.
func because(err error) string {
	switch {
	case err == nil:
		return core.ByDrain
	case errors.Is(err, fault.Fenced):
		return core.ByFence
	case errors.Is(err, fault.NotFound):
		return core.ByDelete
	}
	return core.ByTrouble
}

func (m *member) consume(ctx context.Context) error {
	p := &m.params
	teller := dispatch.NewTeller(m.hub.logger.With("group", p.Group, "session", m.id), nil)
	defer teller.Close()
	return m.hub.groups.Consume(ctx, consumer.Member{
		Topic: p.Topic, From: consumer.From(p.From), Around: m.around,
		Group: group.Config{
			Group: p.Group, Member: p.Member, Weight: p.Weight, Zone: p.Zone, DrainTimeout: p.Drain,
			Events: group.Events{Assigned: m.assigned, HandedOver: m.handedOver, Fenced: m.fenced},
		},
		Engine: dispatch.Config{Concurrency: min(atOnce, p.Window), DrainTimeout: p.Drain},
		Handlers: func(topic string, _ *protocol.Group, u *group.Unit) dispatch.Handler {
			c := m.unit(u)
			return teller.Watch(topic, func(_ context.Context, r *dispatch.Record) error { return m.pool.offer(topic, c, r, false) })
		},
	})
}

// assigned keeps how a unit came, for the line that says that it did.
func (m *member) assigned(unit int, epoch int64, from, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told[unit] = told{epoch, from, why}
}

// handedOver tells the session that a unit has gone in good order.
func (m *member) handedOver(unit int, _ int64, to, _ string) {
	if l, ok := m.gone(unit); ok {
		m.pool.do(func(time.Duration) { m.pool.core.Revoked(l.unit, l.checkpoint, to) })
	}
}

// fenced tells the session that a unit was taken away while its checkpoint was on its way.
func (m *member) fenced(unit int, _ int64, why string) {
	if l, ok := m.gone(unit); ok {
		m.lose(l.unit, errors.New(why))
	}
}

func (m *member) gone(unit int) (leaving, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, ok := m.going[unit]
	delete(m.going, unit)
	return l, ok
}

// unit is the core's unit for a run of a group's.
func (m *member) unit(u *group.Unit) *core.Unit {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.units[u] == nil {
		m.units[u] = &core.Unit{Epoch: u.Epoch()}
	}
	return m.units[u]
}

// forget makes the next run of a unit another one.
func (m *member) forget(u *group.Unit) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.units, u)
}

// around tells the session of a unit that comes and goes.
func (m *member) around(ctx context.Context, u *group.Unit, in []dispatch.Input, h dispatch.Handler, run func(context.Context, consumer.Inner) error) error {
	c := m.unit(u)
	m.mu.Lock()
	how := m.told[u.Number()]
	c.Storage, c.Partition = in[0].Storage, in[0].Partition
	m.mu.Unlock()
	if how.epoch != u.Epoch() {
		how = told{why: u.Why()}
	}
	at := int64(-1)
	if p := u.Checkpoint().Position(c.Storage, c.Partition); p != nil {
		at = p.Next
	}
	m.pool.do(func(time.Duration) { m.pool.core.Begin(c, at, how.from, how.why) })
	stop := context.AfterFunc(ctx, func() { m.lose(c, context.Cause(ctx)) })
	defer stop()
	defer m.forget(u)
	over := make(chan struct{})
	defer close(over)
	m.hub.work.Go(func() { // until the run is over
		select {
		case <-u.Draining():
			m.pool.do(func(now time.Duration) {
				m.pool.core.Revoke(now, now+m.params.Drain, c, "it goes to another member, or the session ends")
			})
		case <-over:
		}
	})
	var engine *dispatch.Engine
	err := run(ctx, consumer.Inner{Handler: h, Retry: dispatch.Retry{}, Began: func(e *dispatch.Engine) { engine = e }})
	if engine != nil {
		for _, p := range engine.Final().Positions {
			if p.Storage == c.Storage && p.Partition == c.Partition {
				at = p.Next
			}
		}
	}
	switch {
	case ctx.Err() != nil:
		m.lose(c, context.Cause(ctx))
	case err != nil:
		m.lose(c, err)
	case drained(u):
		m.mu.Lock()
		m.going[u.Number()] = leaving{c, at}
		m.mu.Unlock()
	default: // all that there will ever be in it is done
		m.pool.do(func(time.Duration) { m.pool.core.Revoked(c, at, "") })
	}
	return err
}

func drained(u *group.Unit) bool {
	select {
	case <-u.Draining():
		return true
	default:
		return false
	}
}

func (m *member) lose(u *core.Unit, why error) {
	m.pool.do(func(now time.Duration) { m.pool.core.Lose(now, u, fmt.Sprint(why)) })
}
