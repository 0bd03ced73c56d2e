package protocol_test

import (
	"context"
	"testing"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/group/protocol/protocoltest"
	"github.com/ringfence/ringfence/registry"
)

// interposed runs a function before a transaction that it chooses, once.
type interposed struct {
	*registry.Registry
	before func(t *registry.Txn) bool
	done   bool
}

func (d *interposed) Apply(ctx context.Context, txns []registry.Txn) ([]registry.Result, error) {
	if !d.done {
		d.done = true // for what before calls
		d.done = d.before(&txns[0])
	}
	return d.Registry.Apply(ctx, txns)
}

func (f *fixture) keys() (keys []string) {
	f.t.Helper()
	snap, err := f.h.List(f.t.Context(), "")
	must(f.t, err)
	for _, e := range snap.Entries {
		keys = append(keys, e.Key)
	}
	return keys
}

func (f *fixture) put(key, value string) {
	f.t.Helper()
	_, err := f.h.Txn(f.t.Context(), registry.Txn{Puts: []registry.Put{{Key: key, Value: []byte(value)}}})
	must(f.t, err)
}

func TestNothingThatArrivesAfterADeletionIsStored(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(f *fixture, g *protocol.Group, s registry.Session) error{
		"join": func(f *fixture, g *protocol.Group, s registry.Session) error {
			_, err := protocoltest.Join(f.t.Context(), g, s, protocol.Member{ID: "b", Incarnation: "b1", Static: true})
			return err
		},
		"pause": func(f *fixture, g *protocol.Group, _ registry.Session) error { return g.Pause(f.t.Context(), "me") },
		"claim": func(f *fixture, g *protocol.Group, _ registry.Session) error {
			m := protocoltest.Member{Group: g, ID: "a", Incarnation: "a1"}
			_, err := m.Claim(f.t.Context(), 0, "")
			return err
		},
		"seek": func(f *fixture, g *protocol.Group, _ registry.Session) error {
			return g.Seek(f.t.Context(), 0, at(1), "")
		},
		"grow": func(f *fixture, g *protocol.Group, _ registry.Session) error { return g.Grow(f.t.Context(), 9) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 2)
			h, a := f.join("a", "a1")
			s, err := h.OpenSession(t.Context(), ttl)
			must(t, err)
			d := &interposed{Registry: h.Registry}
			d.before = func(*registry.Txn) bool {
				must(t, a.Session.Close(t.Context()))
				must(t, f.g.Delete(t.Context()))
				return true
			}
			if err := call(f, groupOf(t, registry.New(d)), s); err == nil {
				t.Error("it succeeded after the deletion")
			}
			if keys := f.keys(); len(keys) > 0 {
				t.Errorf("of the deleted group there is %q", keys)
			}
		})
	}
}

// A process that was stopped in the middle of a deletion may go on when the group is in use again.
func TestAStalledDeletionTakesNoGroupThatIsInUse(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	d := &interposed{Registry: f.h.Registry}
	d.before = func(*registry.Txn) bool {
		_, a := f.join("a", "a1")
		_, err := a.Claim(t.Context(), 0, "")
		must(t, err)
		f.put(a.Group.AssignmentKey(), `{"version":1,"members":["a@a1"],"targets":["a","a"]}`)
		return true
	}
	wantErr(t, groupOf(t, registry.New(d)).Delete(t.Context()), registry.ErrConflict)
	st, err := f.g.Load(t.Context(), true)
	must(t, err)
	if st.Meta == nil || len(st.Members) != 1 || st.Units[0].Owner.Member != "a" {
		t.Errorf("after a deletion that was refused the group is %+v", st)
	}
}

// What an earlier version left of a group that it deleted by halves.
func TestWhatIsLeftOfADeletedGroupIsInNobodysWay(t *testing.T) {
	t.Parallel()
	leave := func(f *fixture) {
		must(t, f.g.Delete(t.Context()))
		f.put(f.g.OwnerKey(7), `{"member":"x","incarnation":"x1","epoch":9}`)
		f.put(f.g.CheckpointKey(0), `{"positions":[{"storage":0,"partition":0,"next":100}]}`)
		f.put(f.g.AssignmentKey(), `{"version":3}`)
	}
	for name, heal := range map[string]func(*protocol.Group) error{
		"delete": func(g *protocol.Group) error { return g.Delete(t.Context()) },
		"heal":   func(g *protocol.Group) error { return g.Heal(t.Context()) },
	} {
		f := newFixture(t, 2)
		leave(f)
		st, err := f.g.Load(t.Context(), true)
		must(t, err)
		if st.Meta != nil || !st.Leftover {
			t.Errorf("meta %+v, leftover %t", st.Meta, st.Leftover)
		}
		must(t, heal(f.g))
		if keys := f.keys(); len(keys) > 0 {
			t.Errorf("after %s there is %q", name, keys)
		}
	}
	f := newFixture(t, 2)
	leave(f)
	_, err := f.g.EnsureMeta(t.Context(), protocol.Meta{Topic: "payments", Units: 1})
	must(t, err)
	st, err := f.g.Load(t.Context(), true)
	must(t, err)
	if st.Leftover || st.Units[0].Checkpoint != nil {
		t.Errorf("a new group begins with %+v, leftover %t", st.Units[0], st.Leftover)
	}
}

// A store that went back may show units that the group has not got yet.
func TestLoadPassesOverUnitsBeyondTheGroup(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	f.put(f.g.OwnerKey(5), `{"member":"x","incarnation":"x1","epoch":9}`)
	f.put(f.g.CheckpointKey(6), `{}`)
	st, err := f.g.Load(t.Context(), true)
	must(t, err)
	if len(st.Units) != 2 {
		t.Errorf("the group has %d units; expected 2", len(st.Units))
	}
	must(t, f.g.Grow(t.Context(), 8))
	st, err = f.g.Load(t.Context(), true)
	must(t, err)
	if st.Units[5].Owner.Epoch != 9 {
		t.Errorf("in a group of 8, unit 5 is %+v", st.Units[5])
	}
}
