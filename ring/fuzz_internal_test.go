package ring

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/ringfence/ringfence/assign"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// The documents of a ring are in a registry that others write to. A ring is read as a whole, with
// an anchor whose members are those of the document, or refused with an error of a kind.
func FuzzRing(f *testing.F) {
	first, err := (*anchorDoc)(nil).next(map[string]string{"a": "1", "b": "2"}, "a", 0, 0)
	if err != nil {
		f.Fatal(err)
	}
	b, err := json.Marshal(first)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"format":1,"mode":"anchor"}`), b, []byte(`{"incarnation":"1"}`))
	f.Add([]byte(`{"format":1}`), []byte(`{"format":1,"anchor":null}`), []byte("{}"))
	f.Add([]byte(`{"format":2}`), []byte(`{"format":1,"members":{"x":"1"}}`), []byte("null"))
	f.Fuzz(func(t *testing.T, meta, anchor, member []byte) {
		reg := memregistry.New()
		defer reg.Close()
		k := keys{"r"}
		if _, err := reg.Txn(t.Context(), registry.Txn{Puts: []registry.Put{
			{Key: k.meta(), Value: meta}, {Key: k.anchor(), Value: anchor}, {Key: k.member("a"), Value: member},
		}}); err != nil {
			return
		}
		st, err := read(t.Context(), reg, "r")
		if err != nil {
			if !errors.Is(err, fault.Corrupt) && !errors.Is(err, fault.Invalid) {
				t.Fatalf("an error without a kind: %v", err)
			}
			return
		}
		if n := len(st.doc.Anchor.Members()); n != len(st.doc.Members) {
			t.Fatalf("%d members, %d in the anchor", len(st.doc.Members), n)
		}
		for id := range st.doc.Members {
			if _, err := st.doc.next(map[string]string{id: "again"}, "x", st.doc.Epoch, 0); err != nil {
				t.Fatalf("only %q is left: %v", id, err)
			}
		}
	})
}

// More members than a ring may have, as only somebody writes who is none, are refused at once: to add
// them one by one took minutes, and whoever closed waited for that.
func TestACrowdThatSomebodyMadeUpIsRefused(t *testing.T) {
	t.Parallel()
	crowd := map[string]string{}
	for i := range assign.MaxAnchorMembers {
		crowd[fmt.Sprint(i)] = "1"
	}
	full, err := (*anchorDoc)(nil).next(maps.Clone(crowd), "a", 0, 0)
	if err != nil || full.Anchor.Len() != assign.MaxAnchorMembers {
		t.Fatalf("%v; expected that there is room for each", err)
	}
	crowd["one more"] = "1"
	if _, err := full.next(crowd, "a", 0, 0); !errors.Is(err, fault.Invalid) {
		t.Errorf("%v; expected that there are too many", err)
	}
}
