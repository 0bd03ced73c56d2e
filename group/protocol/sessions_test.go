package protocol_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// members puts entries of groups under one session.
type members struct {
	t   *testing.T
	h   *memregistry.Handle
	all *protocol.Sessions
}

// inOneProcess runs a test with the sessions of one process.
func inOneProcess(t *testing.T, f func(t *testing.T, m *members)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := memregistry.NewStore().Open()
		defer func() { _ = h.Close() }()
		f(t, &members{t: t, h: h, all: protocol.NewSessions(h.Registry)})
	})
}

func (m *members) open() *protocol.Share {
	m.t.Helper()
	s, err := m.all.Open(m.t.Context(), 5*time.Second)
	must(m.t, err)
	return s
}

// put puts the entry of a start of a member in a group, under s, and returns what takes it away.
func (m *members) put(s *protocol.Share, of, incarnation string) registry.Txn {
	m.t.Helper()
	g, err := protocol.NewGroup(m.h.Registry, of)
	must(m.t, err)
	versions, err := m.h.Txn(m.t.Context(), registry.Txn{Puts: []registry.Put{{
		Key: g.MemberKey("a"), Value: registry.Encode(protocol.Member{ID: "a", Incarnation: incarnation}), Session: s.ID(),
	}}})
	must(m.t, err)
	return g.WithdrawTxn("a", versions[0])
}

// has says whether a group has the entry of the member.
func (m *members) has(of string) bool {
	m.t.Helper()
	g, err := protocol.NewGroup(m.h.Registry, of)
	must(m.t, err)
	_, err = m.h.Get(m.t.Context(), g.MemberKey("a"))
	return err == nil
}

func lost(s registry.Session) bool {
	synctest.Wait()
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

func TestOneSessionServesAllAndOneThatLeavesEndsItForNobody(t *testing.T) {
	t.Parallel()
	inOneProcess(t, func(t *testing.T, m *members) {
		a, b := m.open(), m.open()
		if a.ID() != b.ID() {
			t.Fatal("two sessions in one process; want one")
		}
		out := m.put(a, "g", "1")
		m.put(b, "h", "2")
		must(t, a.Leave(t.Context(), &out, "1", false))
		if m.has("g") || !m.has("h") || lost(b) {
			t.Errorf("entry of the one that left: %v, of the other: %v, its session lost: %v; want false, true, false", m.has("g"), m.has("h"), lost(b))
		}
		if c := m.open(); c.ID() != b.ID() {
			t.Error("who comes next gets a session of its own; want that of the other")
		} else if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		must(t, b.Leave(t.Context(), nil, "2", true))
		if m.has("h") {
			t.Error("the last one left, and its entry is there")
		}
	})
}

// What nobody can be sure of ends with the session, and so that of the others does.
func TestALeaveThatMayNotBeAllEndsTheSessionForAll(t *testing.T) {
	t.Parallel()
	for what, leave := range map[string]func(m *members, s *protocol.Share, out registry.Txn) error{
		"in doubt": func(m *members, s *protocol.Share, out registry.Txn) error {
			return s.Leave(m.t.Context(), &out, "1", true)
		},
		"of an entry that is another by now": func(m *members, s *protocol.Share, out registry.Txn) error {
			m.put(s, "g", "1") // its own, as nobody heard
			return s.Leave(m.t.Context(), &out, "1", false)
		},
		"whose answer is lost": func(m *members, s *protocol.Share, out registry.Txn) error {
			m.h.LoseReplies(1)
			return s.Leave(m.t.Context(), &out, "1", false)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			inOneProcess(t, func(t *testing.T, m *members) {
				a, b := m.open(), m.open()
				out := m.put(a, "g", "1")
				must(t, leave(m, a, out))
				if !lost(b) {
					t.Error("the other goes on with the session; want it lost")
				}
				next := m.open()
				if next.ID() == b.ID() {
					t.Error("who opens one gets the session that is lost")
				}
				late := registry.Txn{Puts: []registry.Put{{Key: "late", Value: []byte("x"), Session: a.ID()}}}
				must(t, b.Close(t.Context()))
				if _, err := m.h.Txn(t.Context(), late); err == nil || m.has("g") {
					t.Errorf("a write that lands late: %v, the entry: %v; want both refused once all have let go", err, m.has("g"))
				}
				must(t, next.Close(t.Context()))
			})
		})
	}
}

// What somebody else has taken away, or replaced, is gone: no other group has to hear of that.
func TestALeaveOfWhatIsGoneEndsTheSessionForNobody(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		before func(m *members, s *protocol.Share, out registry.Txn)
		lost   bool
	}{
		"deleted": {func(m *members, _ *protocol.Share, out registry.Txn) {
			_, err := m.h.Txn(m.t.Context(), out)
			must(m.t, err)
		}, false},
		"of another session": {func(m *members, _ *protocol.Share, _ registry.Txn) {
			s, err := protocol.NewSessions(m.h.Registry).Open(m.t.Context(), 5*time.Second)
			must(m.t, err)
			m.t.Cleanup(func() { _ = s.Close(context.Background()) }) // its store may be closed
			m.put(s, "g", "1")
		}, false},
		"of another start":                    {func(m *members, s *protocol.Share, _ registry.Txn) { m.put(s, "g", "2") }, false},
		"of a start that nobody knows":        {func(m *members, s *protocol.Share, _ registry.Txn) { m.put(s, "g", "") }, true},
		"of this one, and of another version": {func(m *members, s *protocol.Share, _ registry.Txn) { m.put(s, "g", "1") }, true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			inOneProcess(t, func(t *testing.T, m *members) {
				a, b := m.open(), m.open()
				out := m.put(a, "g", "1")
				c.before(m, a, out)
				must(t, a.Leave(t.Context(), &out, "1", false))
				if lost(b) != c.lost {
					t.Errorf("the session of the other is lost: %v; want %v", lost(b), c.lost)
				}
				must(t, b.Close(t.Context()))
			})
		})
	}
}

// silent answers no reading.
type silent struct{ *registry.Registry }

func (silent) List(context.Context, string) (registry.Snapshot, error) {
	return registry.Snapshot{}, registry.ErrUnavailable
}

// Where the store does not say what became of the entry, it may be there.
func TestALeaveThatIsRefusedAndCanNotBeLookedAtEndsTheSessionForAll(t *testing.T) {
	t.Parallel()
	inOneProcess(t, func(t *testing.T, m *members) {
		m.all = protocol.NewSessions(registry.New(silent{m.h.Registry}))
		a, b := m.open(), m.open()
		out := m.put(a, "g", "1")
		m.put(a, "g", "1")
		must(t, a.Leave(t.Context(), &out, "1", false))
		if !lost(b) {
			t.Error("the other goes on with the session; want it lost")
		}
		must(t, b.Close(t.Context()))
	})
}

// A session that is lost stays open until the last one has let go: until then nobody else begins what it runs.
func TestASessionThatIsLostEndsWhenAllHaveLetGo(t *testing.T) {
	t.Parallel()
	inOneProcess(t, func(t *testing.T, m *members) {
		a, b := m.open(), m.open()
		m.put(a, "g", "1")
		a.Lose()
		if !lost(b) || !lost(a) {
			t.Fatal("it is lost for one only")
		}
		if err := a.Close(t.Context()); err != nil || !m.has("g") {
			t.Errorf("%v; the entry went while another still runs things under the session", err)
		}
		if err := b.Close(t.Context()); err != nil || m.has("g") {
			t.Errorf("%v; the entry stays though all have let go", err)
		}
	})
}

func TestASessionThatEndsInTheStoreIsLostForAll(t *testing.T) {
	t.Parallel()
	inOneProcess(t, func(t *testing.T, m *members) {
		a, b := m.open(), m.open()
		m.h.SetOutage(true)
		time.Sleep(6 * time.Second)
		if !lost(a) || !lost(b) {
			t.Fatal("a session that could not be renewed is not lost for all")
		}
		m.h.SetOutage(false)
		next := m.open()
		if next.ID() == a.ID() {
			t.Error("who opens one gets the session that has ended")
		}
		for _, s := range []*protocol.Share{a, b, next} {
			_ = s.Close(t.Context()) // two of them have ended
		}
	})
}

// A store that goes back has the entry of a member again that left, under a session that lives on.
func TestAnEntryThatCameBackIsTakenAwayAgain(t *testing.T) {
	t.Parallel()
	inOneProcess(t, func(t *testing.T, m *members) {
		a, b := m.open(), m.open()
		out := m.put(a, "g", "1")
		must(t, a.Leave(context.WithoutCancel(t.Context()), &out, "1", false))
		m.put(b, "g", "1") // as the store that went back has it
		m.put(b, "h", "2")
		time.Sleep(31 * time.Second)
		if m.has("g") || !m.has("h") {
			t.Errorf("entry that came back: %v, another: %v; want false, true", m.has("g"), m.has("h"))
		}
		m.put(b, "g", "3") // the member was started again
		time.Sleep(time.Minute)
		if !m.has("g") || lost(b) {
			t.Error("the next start of the member was taken for the one that left")
		}
		must(t, b.Close(t.Context()))
	})
}

// The store is slow to say whether entries came back: the session is lost for all meanwhile, when it ends.
func TestASessionIsLostForAllWhileItIsLookedForWhatCameBack(t *testing.T) {
	t.Parallel()
	inOneProcess(t, func(t *testing.T, m *members) {
		a, b := m.open(), m.open()
		for i := range 10 {
			share := m.open()
			out := m.put(share, fmt.Sprint("g", i), "1")
			must(t, share.Leave(t.Context(), &out, "1", false))
		}
		time.Sleep(29 * time.Second)
		m.h.SetLatency(time.Hour)
		time.Sleep(7 * time.Second)
		if !lost(a) || !lost(b) {
			t.Error("the session could not be renewed for longer than its TTL, and is not lost")
		}
		m.h.SetLatency(0)
		for _, s := range []*protocol.Share{a, b} {
			_ = s.Close(t.Context()) // it has ended
		}
	})
}

// Whoever opens a session may be the first of many, and be gone long before they are.
func TestASessionIsWatchedForAllWhenWhoOpenedItIsGone(t *testing.T) {
	t.Parallel()
	inOneProcess(t, func(t *testing.T, m *members) {
		ctx, cancel := context.WithCancel(t.Context())
		a, err := m.all.Open(ctx, 5*time.Second)
		must(t, err)
		b := m.open()
		cancel()
		must(t, a.Close(t.Context()))
		if lost(b) {
			t.Fatal("it went with the context of who opened it")
		}
		m.h.SetOutage(true)
		time.Sleep(6 * time.Second)
		if !lost(b) {
			t.Error("a session that could not be renewed is not lost for who has it still")
		}
		m.h.SetOutage(false)
		_ = b.Close(t.Context()) // it has ended
	})
}

func TestMembersWithAnotherTTLHaveASessionOfTheirOwn(t *testing.T) {
	t.Parallel()
	inOneProcess(t, func(t *testing.T, m *members) {
		a := m.open()
		b, err := m.all.Open(t.Context(), 10*time.Second)
		must(t, err)
		if a.ID() == b.ID() {
			t.Fatal("one session for two TTLs: one of them is not what was asked for")
		}
		a.Lose()
		if lost(b) {
			t.Error("the session of one TTL is lost with that of the other")
		}
		for _, s := range []*protocol.Share{a, b} {
			must(t, s.Close(t.Context()))
		}
	})
}

// Between the look at an entry that came back and its removal the member may be started again.
func TestAnEntryThatChangesAsItIsTakenAwayStays(t *testing.T) {
	t.Parallel()
	inOneProcess(t, func(t *testing.T, m *members) {
		a, b := m.open(), m.open()
		out := m.put(a, "g", "1")
		must(t, a.Leave(t.Context(), &out, "1", false))
		m.put(b, "g", "1") // as a store that went back has it
		again := 0
		m.h.OnApply(func([]string) error {
			if again++; again == 1 {
				m.put(b, "g", "2")
			}
			return nil
		})
		time.Sleep(31 * time.Second)
		m.h.OnApply(nil)
		if again == 0 || !m.has("g") {
			t.Errorf("%d writes; the entry of the next start is there: %v; want it to stay", again, m.has("g"))
		}
		must(t, b.Close(t.Context()))
	})
}

// A process that lives for years has more members come and go than it can keep in mind.
func TestASessionFromWhichManyHaveGoneEnds(t *testing.T) {
	t.Parallel()
	inOneProcess(t, func(t *testing.T, m *members) {
		b := m.open()
		for n := 0; !lost(b); n++ {
			if n > 1000 {
				t.Fatal("what is looked at has no end")
			}
			a := m.open()
			out := m.put(a, "g", "1")
			must(t, a.Leave(t.Context(), &out, "1", false))
			if n < 1000 == lost(b) {
				t.Fatalf("lost after %d: %v; want it after 1,001", n+1, lost(b))
			}
		}
		must(t, b.Close(t.Context()))
	})
}

// Who lets go late of a session that was lost leaves the next one to those who come: they share it.
func TestTheSessionAfterOneThatWasLostIsOneForAllToo(t *testing.T) {
	t.Parallel()
	inOneProcess(t, func(t *testing.T, m *members) {
		a, b := m.open(), m.open()
		a.Lose()
		next := m.open()
		if next.ID() == a.ID() {
			t.Fatal("a session that is lost is given away")
		}
		for _, late := range []*protocol.Share{a, b} {
			must(t, late.Close(t.Context()))
			late.Lose() // as a group does that hears of the end last
		}
		other := m.open()
		if other.ID() != next.ID() || lost(next) {
			t.Errorf("sessions %s and %s in one process, the first one lost: %v; want one that goes on", next.ID(), other.ID(), lost(next))
		}
		for _, s := range []*protocol.Share{next, other} {
			must(t, s.Close(t.Context()))
		}
	})
}

// The member may have come back under a session of its own, and be the same start: that entry is no ghost.
func TestAnEntryUnderAnotherSessionIsNoneThatCameBack(t *testing.T) {
	t.Parallel()
	inOneProcess(t, func(t *testing.T, m *members) {
		a, b := m.open(), m.open()
		out := m.put(a, "g", "1")
		must(t, a.Leave(t.Context(), &out, "1", false))
		own, err := m.all.Open(t.Context(), 10*time.Second)
		must(t, err)
		m.put(own, "g", "1")
		time.Sleep(31 * time.Second)
		if !m.has("g") {
			t.Error("the entry is taken away, though it is of a session from which nobody has gone")
		}
		for _, s := range []*protocol.Share{b, own} {
			must(t, s.Close(t.Context()))
		}
	})
}
