package protocol_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// What comes after the highest number is the lowest one: who writes such an epoch takes the fence away.
func TestAnEpochBeyondItsBoundIsNotBelieved(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key, value string
		bad        bool
	}{
		{"groups/g/owners/00000001", `{"epoch":9223372036854775807}`, true},
		{"groups/g/owners/00000001", `{"epoch":9007199254740993}`, true},
		{"groups/g/owners/00000001", `{"epoch":-1}`, true},
		{"groups/g/owners/00000001", `{"epoch":5,"after":9223372036854775807}`, true},
		{"groups/g/owners/00000001", `{"epoch":9007199254740992,"after":9007199254740991}`, false},
		{"checkpoints/g/00000001", `{"positions":[],"epoch":9223372036854775807}`, true},
		{"checkpoints/g/00000001", `{"positions":[],"epoch":3}`, false},
		{"groups/g/assignment", `{"version":9223372036854775807}`, true},
		{"groups/g/assignment", `{"version":-1}`, true},
		{"groups/g/assignment", `{"version":1}`, false},
	} {
		reg := memregistry.New()
		_, err := reg.Txn(t.Context(), registry.Txn{Puts: []registry.Put{
			{Key: "groups/g/meta", Value: []byte(`{"format":1,"life":"l","topic":"t","units":4}`)}, {Key: c.key, Value: []byte(c.value)},
		}})
		must(t, err)
		g, err := protocol.NewGroup(reg, "g")
		must(t, err)
		st, err := g.Load(t.Context(), true)
		if err == nil && st.AssignmentDamage != nil && st.Assignment == nil {
			err = st.AssignmentDamage // nobody is kept from what the group's owners and checkpoints say
		}
		if told := errors.Is(err, fault.Corrupt) && strings.Contains(err.Error(), c.key) && strings.Contains(err.Error(), "9007199254740992"); told != c.bad || !c.bad && err != nil {
			t.Errorf("%s is %s: %v; expected an error that names the key and the bound: %t", c.key, c.value, err, c.bad)
		}
		must(t, reg.Close())
	}
}

// A seek fences an owner by an epoch of its own: one that nobody reads would keep all from the unit.
func TestASeekBeginsNoEpochThatNobodyReads(t *testing.T) {
	t.Parallel()
	for epoch, ok := range map[int64]bool{protocol.MaxEpoch: false, protocol.MaxEpoch - 1: true} {
		f := newFixture(t, 1)
		res, err := f.h.Registry.Txn(t.Context(), registry.Txn{
			Checks: []registry.Check{{Key: f.g.OwnerKey(0)}},
			Puts:   []registry.Put{{Key: f.g.OwnerKey(0), Value: registry.Encode(protocol.Owner{Epoch: epoch})}},
		})
		must(t, err)
		err = f.g.Seek(t.Context(), 0, protocol.Checkpoint{Positions: []protocol.Position{{Next: 7}}}, "seek to 7")
		u, failed := f.g.Unit(t.Context(), 0)
		must(t, failed)
		switch {
		case ok && (err != nil || u.Owner.Epoch != epoch+1):
			t.Errorf("above epoch %d: %+v, %v", epoch, u.Owner, err)
		case !ok && (!errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "group delete --force") || u.OwnerVersion != res[0] || u.Checkpoint != nil):
			t.Errorf("above epoch %d: %+v, %v; expected fault.Corrupt, what to do, and nothing to be written", epoch, u, err)
		}
	}
}

// What is counted on may be what a stranger wrote.
func TestACheckpointIsWrittenAsItIsRead(t *testing.T) {
	t.Parallel()
	for _, bad := range []protocol.Failing{
		{Offset: 8, Attempts: protocol.MaxAttempts + 1}, {Offset: 8, Attempts: 1, Since: 1<<53 + 1}, {Offset: 8, Attempts: 1, Due: -1}, {Offset: 8, Attempts: 0},
	} {
		f := newFixture(t, 1)
		_, m := f.join("a", "a1")
		grant, err := m.Claim(t.Context(), 0, "first")
		must(t, err)
		c := protocol.Checkpoint{Positions: []protocol.Position{{Next: 7, Failing: []protocol.Failing{bad}}}}
		must(t, f.g.Commit(t.Context(), grant, c, ""))
		u, err := f.g.Unit(t.Context(), 0)
		if err != nil || u.Checkpoint.Positions[0].Next != 7 || len(u.Checkpoint.Positions[0].Failing) > 0 {
			t.Errorf("with %+v: %+v, %v", bad, u.Checkpoint, err)
		}
	}
}
