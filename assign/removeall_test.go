package assign_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/assign"
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
		all := a.RemoveAll(append(gone, ""))
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
