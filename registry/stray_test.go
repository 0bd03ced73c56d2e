package registry_test

import (
	"errors"
	"testing"

	"github.com/ringfence/ringfence/registry"
)

// stray puts what a stranger wrote into the place of a member, bound to no session.
func (f *fixture) stray(id, value string) {
	f.t.Helper()
	_, err := f.h.Txn(f.t.Context(), registry.Txn{Puts: []registry.Put{{Key: f.g.MemberKey(id), Value: []byte(value)}}})
	must(f.t, err)
}

func TestWhatIsBoundToNoSessionOrCannotBeReadIsNoMember(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"whole": `{"id":"ghost","incarnation":"g1","joined":1}`, "damaged": `{"id":`, "of another name": `{"id":"a","incarnation":"a2"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 2)
			f.join("a", "a1")
			f.stray("ghost", value)
			st, err := f.g.Load(t.Context(), true)
			must(t, err)
			if len(st.Members) != 1 || st.Members[0].Incarnation != "a1" || len(st.Strange) != 1 || st.Strays["ghost"] == "" {
				t.Errorf("the members are %+v, strange %q, strays %v", st.Members, st.Strange, st.Strays)
			}
		})
	}
}

func TestADeletionWaitsForNoMemberWithoutASession(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	f.stray("ghost", `{"id":"ghost","incarnation":"g1"}`)
	must(t, f.g.Delete(t.Context()))
	snap, err := f.h.List(t.Context(), "")
	if err != nil || len(snap.Entries) != 0 {
		t.Errorf("%+v is left, %v", snap.Entries, err)
	}
}

func TestDestroyRemovesWhateverThereIs(t *testing.T) {
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
	must(t, f.g.Destroy(t.Context()))
	snap, err := f.h.List(t.Context(), "")
	if err != nil || len(snap.Entries) != 0 {
		t.Errorf("%+v is left, %v", snap.Entries, err)
	}
	if _, err := f.g.EnsureMeta(t.Context(), registry.Meta{Topic: "payments", Units: 3, Assignor: "sticky"}); err != nil {
		t.Errorf("the next group of the name: %v", err)
	}
}
