package registry_test

import (
	"errors"
	"strings"
	"testing"

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
		g, err := reg.Group("g")
		must(t, err)
		_, err = g.Load(t.Context(), true)
		if told := errors.Is(err, fault.Corrupt) && strings.Contains(err.Error(), c.key) && strings.Contains(err.Error(), "9007199254740992"); told != c.bad || !c.bad && err != nil {
			t.Errorf("%s is %s: %v; expected an error that names the key and the bound: %t", c.key, c.value, err, c.bad)
		}
		must(t, reg.Close())
	}
}
