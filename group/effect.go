package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/group/core"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// do carries out an effect. It never waits: what takes time gets a goroutine, which sends the
// answer to the loop.
func (m *member) do(ctx context.Context, effect core.Effect) {
	switch e := effect.(type) {
	case core.Load:
		joined := m.joined
		m.wg.Go(func() {
			st, err := m.load(ctx, joined)
			ev := core.Loaded{ID: e.ID, State: st, Err: err}
			if e.Layout && err == nil {
				ev.Layout, ev.Err = m.consumes(ctx)
			}
			m.send(message{event: ev})
		})
	case core.Apply:
		m.wg.Go(func() {
			res, err := m.apply(ctx, e.Txns)
			m.send(message{event: core.Applied{ID: e.ID, Results: res, Err: err}})
		})
	case core.OpenSession:
		m.wg.Go(func() { m.openSession(ctx, e) })
	case core.LoseSession:
		m.lose(m.sessions[e.Session])
	case core.CloseSession:
		m.closeSession(ctx, e.Session)
	case core.StartUnit:
		m.start(ctx, e)
	case core.DrainUnit:
		if u := m.unit(e.Unit, e.Run); u != nil {
			close(u.draining)
			m.revoked(u, e.Why)
		}
	case core.StopUnit:
		if u := m.unit(e.Unit, e.Run); u != nil {
			u.cancel(e.Cause)
			m.revoked(u, e.Cause.Error())
		}
	case core.SetTimer:
		m.timer.Reset(max(0, e.At-m.at(time.Now())))
	case core.Report:
		m.report(&e)
	case core.Exit:
		m.exit = &e
	}
}

// bound limits a store call. A store that doesn't answer must not hold up what comes after.
func (m *member) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, max(m.cfg.SessionTTL, time.Second))
}

// silent makes a call's time-out an error of one of the registry's kinds.
func silent(err, kind error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", kind, err)
	}
	return err
}

// load reads the group. The remains of a deleted one would be in the way of a new one: a member
// that has not joined yet removes them.
func (m *member) load(ctx context.Context, joined bool) (*protocol.State, error) {
	ctx, cancel := m.bound(ctx)
	defer cancel()
	st, err := m.group.Survey(ctx, true)
	if err == nil && st.Meta == nil && st.Leftover && !joined {
		if err = m.group.Heal(ctx); err == nil {
			st, err = m.group.Survey(ctx, true)
		}
	}
	if err == nil && st.Meta != nil {
		m.noteUnreadable(st)
	}
	return st, silent(err, registry.ErrUnavailable)
}

// consumes reads the layout of the topic.
func (m *member) consumes(ctx context.Context) (Layout, error) {
	if m.cfg.Refresh == nil {
		return m.cfg.Layout, nil
	}
	ctx, cancel := m.bound(ctx)
	defer cancel()
	l, err := m.cfg.Refresh(ctx)
	return l, silent(err, registry.ErrUnavailable)
}

// noteUnreadable logs, once, the members with unreadable entries. One reading at a time is under way.
func (m *member) noteUnreadable(st *protocol.State) {
	var unread []string
	for i := range st.Members {
		if st.Members[i].Unreadable {
			unread = append(unread, st.Members[i].ID)
		}
	}
	if len(unread) > 0 && !slices.Equal(unread, m.unread) {
		m.log().Warn("the entries of some members can't be read, as those of a newer version; they keep what they own while their sessions live, and are given nothing", "ids", unread)
	}
	m.unread = unread
}

func (m *member) apply(ctx context.Context, txns []registry.Txn) ([]registry.Result, error) {
	ctx, cancel := m.bound(ctx)
	defer cancel()
	res, err := m.group.Registry().Apply(ctx, txns)
	return res, silent(err, registry.ErrUnknown)
}

func (m *member) openSession(ctx context.Context, e core.OpenSession) {
	bounded, cancel := m.bound(ctx)
	defer cancel()
	var s registry.Session
	var err error
	if m.cfg.Sessions != nil {
		s, err = m.cfg.Sessions.Open(bounded, e.TTL)
	} else {
		s, err = m.group.Registry().OpenSession(bounded, e.TTL)
	}
	if err != nil {
		m.send(message{event: core.SessionOpened{ID: e.ID, Err: silent(err, registry.ErrUnavailable)}})
		return
	}
	ev := core.SessionOpened{ID: e.ID, Session: s.ID(), Lease: m.at(s.Deadline())}
	if !m.send(message{event: ev, session: s}) {
		_ = s.Close(bounded) // nothing needs it any more; if this fails it expires
	}
}

// lose ends a session for all members that share it.
func (m *member) lose(s registry.Session) {
	if s, ok := s.(*protocol.Share); ok {
		s.Lose()
	}
}

// closeSession ends a session that is lost already.
func (m *member) closeSession(ctx context.Context, id string) {
	s := m.sessions[id]
	if s == nil {
		return
	}
	delete(m.sessions, id)
	m.wg.Go(func() {
		ctx, cancel := m.bound(ctx)
		defer cancel()
		_ = s.Close(ctx) // it has ended or will run out
	})
}

// Watch turns changes of keys with a prefix into hints, until ctx ends. It hints too when it begins, and when it goes on
// after an outage.
func Watch(ctx context.Context, r *registry.Registry, prefix string, hint func()) {
	for pause := 50 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, time.Second) {
		ch, err := r.Watch(ctx, prefix)
		if err == nil {
			hint() // what changed before now is seen by the reading that follows
			for range ch {
				pause = 50 * time.Millisecond
				hint()
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

func (m *member) start(ctx context.Context, e core.StartUnit) {
	u := &Unit{
		grant: e.Grant, member: m.cfg.Member, incarnation: m.cfg.Incarnation,
		start: e.Checkpoint, why: e.Why, draining: make(chan struct{}), run: e.Run, pace: m.pace, lease: m.sure,
	}
	ctx, u.cancel = context.WithCancelCause(ctx)
	m.pace.start()
	m.units = append(m.units, u)
	m.wg.Go(func() { m.work(ctx, u) })
}

// revoked reports once that a unit is being drained or stopped.
func (m *member) revoked(u *Unit, why string) {
	if u.revoked {
		return
	}
	u.revoked = true
	m.log().Info("unit revoked", "unit", u.Number(), "epoch", u.Epoch(), "why", why)
	if f := m.cfg.Events.Revoked; f != nil {
		f(u.Number(), u.Epoch(), why)
	}
}
