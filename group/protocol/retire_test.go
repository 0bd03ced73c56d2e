package protocol_test

import (
	"strings"
	"testing"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// definition is an entry that a retirement belongs to.
func (f *fixture) definition(value string) registry.Check {
	f.t.Helper()
	versions, err := f.h.Txn(f.t.Context(), registry.Txn{Puts: []registry.Put{{Key: "topics/payments", Value: []byte(value)}}})
	must(f.t, err)
	return registry.Check{Key: "topics/payments", Version: versions[0]}
}

// known are the numbers of units with an owner or a checkpoint.
func (f *fixture) known() (text string) {
	f.t.Helper()
	st, err := f.g.Load(f.t.Context(), true)
	must(f.t, err)
	for _, u := range st.Units {
		if u.OwnerVersion != "" || u.Checkpoint != nil {
			text += string(rune('0' + u.Number))
		}
	}
	return text
}

func TestRetiredUnitsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 4)
	for unit := range 4 {
		must(t, f.g.Seek(t.Context(), unit, at(7), ""))
	}
	now := f.definition("a")
	must(t, f.g.Retire(t.Context(), "payments", 3, now))
	must(t, f.g.Retire(t.Context(), "payments", 3, now))
	must(t, f.g.Retire(t.Context(), "payments", 2, now))
	if m, err := f.g.Meta(t.Context()); err != nil || m.First != 3 || m.Retired == 0 || m.Units != 4 || f.known() != "3" {
		t.Errorf("%+v, %v, known are units %q; expected 3 of 4", m, err, f.known())
	}
	must(t, f.g.Retire(t.Context(), "payments", 6, now))
	if m, err := f.g.Meta(t.Context()); err != nil || m.First != 6 || m.Retired == 0 || m.Units != 6 || m.Initial != 4 || f.known() != "" {
		t.Errorf("%+v, %v, known are units %q; expected a group of six units that knows none", m, err, f.known())
	}
}

// Units of another layout have other numbers: what is over by those of the topic's partitions is not.
func TestARetirementTakesNoUnitsOfAnotherLayout(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	must(t, f.g.Delete(t.Context()))
	want := protocol.Meta{Topic: "payments", Units: 4, Layout: "pairs"}
	_, err := f.g.EnsureMeta(t.Context(), want)
	must(t, err)
	must(t, f.g.Seek(t.Context(), 1, at(7), ""))
	must(t, f.g.Retire(t.Context(), "payments", 3, f.definition("a")))
	if m, err := f.g.Meta(t.Context()); err != nil || m.First != 0 || f.known() != "1" {
		t.Errorf("%+v, %v, known are units %q; expected the group as it was", m, err, f.known())
	}
	want.Layout = ""
	_, err = f.g.EnsureMeta(t.Context(), want)
	wantErr(t, err, registry.ErrExists)
}

func TestARetirementThatIsOverChangesNoGroup(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	must(t, f.g.Seek(t.Context(), 0, at(7), ""))
	before := f.definition("a")
	now := f.definition("b")
	wantErr(t, f.g.Retire(t.Context(), "payments", 1, before), registry.ErrConflict)
	must(t, f.g.Retire(t.Context(), "orders", 1, now))
	if m, err := f.g.Meta(t.Context()); err != nil || m.First != 0 || f.known() != "0" {
		t.Errorf("%+v, %v, known are units %q; expected the group as it was", m, err, f.known())
	}
	must(t, f.g.Delete(t.Context()))
	must(t, f.g.Retire(t.Context(), "payments", 1, now))
	if names, err := protocol.ListGroups(t.Context(), f.h.Registry); err != nil || strings.Join(names, "") != "" {
		t.Errorf("groups %v, %v; expected none", names, err)
	}
}
