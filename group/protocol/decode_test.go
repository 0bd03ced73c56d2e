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

func TestLoadRefusesNegativeEpochs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key, value string
		bad        bool
	}{
		{"groups/g/owners/00000001", `{"epoch":-1}`, true},
		{"groups/g/owners/00000001", `{"epoch":5,"after":-3}`, true},
		{"groups/g/owners/00000001", `{"epoch":9007199254740992,"after":9007199254740991}`, false},
		{"checkpoints/g/00000001", `{"positions":[],"epoch":-2}`, true},
		{"checkpoints/g/00000001", `{"positions":[],"epoch":3}`, false},
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
		if told := errors.Is(err, fault.Corrupt) && strings.Contains(err.Error(), c.key); told != c.bad || !c.bad && err != nil {
			t.Errorf("%s is %s: %v; expected an error that names the key: %t", c.key, c.value, err, c.bad)
		}
		must(t, reg.Close())
	}
}
