package protocol_test

import (
	"errors"
	"testing"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// A group of a newer version is sound: it stays.
func TestDestroyRemovesWhateverIsDamaged(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	f.join("a", "a1")
	for _, key := range []string{f.g.MetaKey(), f.g.OwnerKey(0), f.g.CheckpointKey(1), f.g.AssignmentKey(), f.g.ControlKey()} {
		e, err := f.h.Get(t.Context(), key)
		if err != nil && !errors.Is(err, registry.ErrNotFound) {
			t.Fatal(err)
		}
		_, err = f.h.Txn(t.Context(), registry.Txn{Checks: []registry.Check{{Key: key, Version: e.Version}}, Puts: []registry.Put{{Key: key, Value: []byte("{")}}})
		must(t, err)
	}
	if err := f.g.Delete(t.Context()); err == nil {
		t.Error("a group that can't be read was deleted without force")
	}
	newer := []byte(`{"format":2}`)
	e, err := f.h.Get(t.Context(), f.g.MetaKey())
	must(t, err)
	v, err := f.h.Registry.Txn(t.Context(), registry.Txn{Checks: []registry.Check{{Key: e.Key, Version: e.Version}}, Puts: []registry.Put{{Key: e.Key, Value: newer}}})
	must(t, err)
	wantErr(t, f.g.Destroy(t.Context()), fault.Newer)
	_, err = f.h.Registry.Txn(t.Context(), registry.Txn{Checks: []registry.Check{{Key: e.Key, Version: v[0]}}, Puts: []registry.Put{{Key: e.Key, Value: e.Value}}})
	must(t, err)
	must(t, f.g.Destroy(t.Context()))
	snap, err := f.h.List(t.Context(), "")
	if err != nil || len(snap.Entries) != 0 {
		t.Errorf("%+v is left, %v", snap.Entries, err)
	}
	if _, err := f.g.EnsureMeta(t.Context(), protocol.Meta{Topic: "payments", Units: 3, Assignor: "sticky"}); err != nil {
		t.Errorf("the next group of the name: %v", err)
	}
}

// A member of which only a session is known is one all the same.
func TestAMemberThatCannotBeReadIsOneWhileItsSessionLives(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	h, m := f.join("a", "a1")
	e, err := h.Get(t.Context(), f.g.MemberKey("a"))
	must(t, err)
	_, err = h.Txn(t.Context(), registry.Txn{Checks: []registry.Check{{Key: e.Key, Version: e.Version}}, Puts: []registry.Put{
		{Key: f.g.MemberKey("a"), Value: []byte(`{"id":`), Session: m.Session.ID()},
	}})
	must(t, err)
	st, err := f.g.Load(t.Context(), true)
	must(t, err)
	if len(st.Members) != 1 || st.Members[0].ID != "a" || !st.Members[0].Unreadable || !st.Members[0].Draining {
		t.Errorf("the members are %+v", st.Members)
	}
	if !st.Alive(protocol.Owner{Member: "a", Incarnation: "whichever"}) {
		t.Error("what it owns counts as nobody's")
	}
	if all, err := f.g.ActiveMembers(t.Context()); err != nil || len(all) != 1 || all[0].ID != "a" {
		t.Errorf("active are %+v, %v", all, err)
	}
}

// Who moves a group elsewhere, say, must not take what can't be read for a beginning.
func TestWhatCannotBeReadIsAnErrorWhereAllIsNeeded(t *testing.T) {
	t.Parallel()
	for _, key := range []func(*protocol.Group, int) string{(*protocol.Group).OwnerKey, (*protocol.Group).CheckpointKey} {
		f := newFixture(t, 2)
		_, err := f.h.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: key(f.g, 1), Value: []byte("{")}}})
		must(t, err)
		var damaged *protocol.DamagedUnitError
		if _, err := f.g.Load(t.Context(), true); !errors.As(err, &damaged) || damaged.Unit != 1 || !errors.Is(err, fault.Corrupt) {
			t.Errorf("%v; expected that unit 1 can't be read", err)
		}
		if _, err := f.g.Load(t.Context(), true); !errors.As(err, &damaged) {
			t.Errorf("%v; expected that unit 1 can't be read", err)
		}
		st, err := f.g.Survey(t.Context(), true)
		if err != nil || st.Units[0].Damage() != nil || st.Units[1].Damage() == nil {
			t.Errorf("%+v, %v; expected that only unit 1 can't be read", st, err)
		}
	}
}
