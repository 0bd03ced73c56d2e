package registry_test

import (
	"errors"
	"testing"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// What would live longer was opened by none of ours.
func TestASessionHasALongestTTL(t *testing.T) {
	t.Parallel()
	r := memregistry.New()
	defer r.Close()
	if x, err := r.OpenSession(t.Context(), registry.MaxSessionTTL+1); !errors.Is(err, registry.ErrInvalid) {
		t.Errorf("%v, %v", x, err)
	}
	x, err := r.OpenSession(t.Context(), registry.MaxSessionTTL)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
