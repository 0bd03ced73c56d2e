package ring_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/ring"
)

// One document that can't be used hides no other ring, and takes no memory for what it declares.
func TestADamagedRingHidesNoOther(t *testing.T) {
	t.Parallel()
	reg := memregistry.New()
	t.Cleanup(func() { _ = reg.Close() })
	bad := map[string]string{
		"c": `{not JSON`,
		"m": `{"format":1,"mode":"table","slots":1099511627776}`,
		"n": `{"format":1,"mode":"table","slots":-1}`,
		"o": `{"format":1,"mode":"table"}`,
	}
	docs := map[string]string{"a": `{"format":1,"mode":"anchor"}`, "z": `{"format":1,"mode":"anchor"}`}
	for name, doc := range bad {
		docs[name] = doc
	}
	for name, doc := range docs {
		puts := []registry.Put{{Key: "rings/" + name + "/meta", Value: []byte(doc)}}
		_, err := reg.Txn(t.Context(), registry.Txn{Puts: puts})
		must(t, err)
	}
	names, err := ring.List(t.Context(), reg)
	if err != nil || !slices.Equal(names, []string{"a", "c", "m", "n", "o", "z"}) {
		t.Fatalf("rings %v, %v", names, err)
	}
	for _, name := range names {
		_, err := ring.Look(t.Context(), reg, name)
		if _, isBad := bad[name]; isBad && (!errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "rings/"+name+"/meta")) || !isBad && err != nil {
			t.Errorf("ring %s: %v", name, err)
		}
	}
}
