package ring_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ringfence/ringfence/registry/fileregistry"
	"github.com/ringfence/ringfence/ring"
)

// On a directory, in real time: members with handles of their own join and leave, and
// after each change all that are left agree.
func TestMembersOnADirectoryAgreeAfterEachChange(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, mode ring.Mode) {
		dir := t.TempDir()
		rng := rand.New(rand.NewPCG(1, 2))
		keys := someKeys(60)
		var members []*ring.Ring
		for i := range 14 {
			switch n := rng.IntN(3); {
			case len(members) < 2 || n == 0 && len(members) < 6:
				reg, err := fileregistry.Open(t.Context(), fileregistry.Config{Dir: dir})
				must(t, err)
				t.Cleanup(func() { _ = reg.Close() })
				r, err := ring.Join(t.Context(), ring.Config{Registry: reg, Name: "r", Member: fmt.Sprintf("m%d", i), Mode: mode, Drain: 30 * time.Millisecond})
				must(t, err)
				t.Cleanup(func() { _ = r.Close(context.Background()) })
				members = append(members, r)
			default:
				k := rng.IntN(len(members))
				leave(t, members[k])
				members = slices.Delete(members, k, k+1)
			}
			waitAlone(t, mode, members, keys)
		}
	})
}

// waitAlone is waitSettled; of a table ring it also watches that no two members have a key: one
// that answers yes at one epoch before and after another's yes had it all the time.
func waitAlone(t *testing.T, mode ring.Mode, members []*ring.Ring, keys []string) {
	t.Helper()
	eventually(t, "agreement of all members", func() bool {
		for _, a := range members {
			for _, b := range members {
				for _, key := range keys {
					before, e1 := a.ShouldHandle(key)
					other, _ := b.ShouldHandle(key)
					after, e2 := a.ShouldHandle(key)
					if mode == ring.Table && a != b && before && other && after && e1 == e2 {
						t.Fatalf("key %s: %s has it at epoch %d, and %s answers yes", key, a.Member(), e1, b.Member())
					}
				}
			}
		}
		return settled(members, keys) == nil
	})
}
