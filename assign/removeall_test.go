package assign_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/assign"
	"github.com/ringfence/ringfence/internal/fault"
)

func TestRemovingAllIsRemovingOneAfterTheOther(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := new(assign.Anchor)
		for i := range rapid.IntRange(0, 20).Draw(t, "members") {
			a, _ = a.Add(fmt.Sprint("m", i))
		}
		gone := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string { return fmt.Sprint("m", rapid.IntRange(0, 25).Draw(t, "id")) }), 0, 12).Draw(t, "gone")
		one := a
		for _, id := range append(gone, "") {
			one = one.Remove(id)
		}
		all := a.Remove(append(gone, "")...)
		for i := range 200 {
			if key := fmt.Sprint("key", i); one.Owner(key) != all.Owner(key) {
				t.Fatalf("without %q: %s belongs to %q one after the other, and to %q at once", gone, key, one.Owner(key), all.Owner(key))
			}
		}
		if back, _ := one.Add("back"); back != nil {
			same, _ := all.Add("back")
			if x, y := back.Owner("k"), same.Owner("k"); x != y {
				t.Fatalf("a member that comes then gets another place: %q, %q", x, y)
			}
		}
	})
}

// What a ring makes of many that came at once is what it makes of one after the other.
func TestAddingManyIsAddingOneAfterTheOther(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := anchorOf(t, rapid.IntRange(0, 8).Draw(t, "members"))
		for range rapid.IntRange(0, 8).Draw(t, "removals") {
			a = a.Remove(fmt.Sprintf("member-%03d", rapid.IntRange(0, 8).Draw(t, "gone")))
		}
		came := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "member-000", "member-003"}), 0, 8).Draw(t, "came")
		one := a
		for _, id := range came {
			one = add(t, one, id)
		}
		all, err := a.Add(came...)
		if err != nil {
			t.Fatal(err)
		}
		got, want := mustJSON(t, all), mustJSON(t, one)
		if got != want {
			t.Fatalf("%s; expected %s", got, want)
		}
	})
	if _, err := new(assign.Anchor).Add("a", ""); !errors.Is(err, fault.Invalid) {
		t.Errorf("%v; expected that a member has a name", err)
	}
	crowd := make([]string, assign.MaxAnchorMembers+1)
	for i := range crowd {
		crowd[i] = fmt.Sprint(i)
	}
	if _, err := new(assign.Anchor).Add(crowd...); !errors.Is(err, fault.Invalid) {
		t.Errorf("%v; expected that there are too many", err)
	}
	if a, err := new(assign.Anchor).Add(crowd[1:]...); err != nil || a.Len() != assign.MaxAnchorMembers {
		t.Errorf("%v; expected that there is room for each", err)
	}
}

func mustJSON(t rapid.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
