package ring_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/internal/testlog"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/ring"
)

const years = 30 * 365 * 24 * time.Hour // a bubble begins before the time at which an epoch would be 0

// A store that goes back has forgotten epochs that receivers have seen with a yes. The next ones are
// higher all the same.
func TestNoEpochOfARingIsGivenAgainByAStoreThatWentBack(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, mode ring.Mode) {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(years)
			h := memregistry.NewStore().Open()
			t.Cleanup(func() { _ = h.Close() })
			var last int64
			life := func(member string) {
				t.Helper()
				r, err := ring.Join(t.Context(), ring.Config{Registry: h.Registry, Name: "r", Member: member, Mode: mode, Slots: slots(mode)})
				must(t, err)
				defer leave(t, r)
				must(t, r.WaitEstablished(t.Context()))
				mine, epoch := r.ShouldHandle("key")
				if !mine || epoch <= last {
					t.Errorf("%s says %t under epoch %d, after epoch %d of one before it", member, mine, epoch, last)
				}
				last = epoch
			}
			for _, member := range []string{"a", "b", "c"} {
				life(member)
			}
			forget(t, h.Registry)
			time.Sleep(time.Second) // so fast nobody restores a store
			life("d")
		})
	})
}

func slots(mode ring.Mode) int {
	if mode == ring.Table {
		return 1
	}
	return 0
}

// forget makes the store that of before the ring.
func forget(t *testing.T, reg *registry.Registry) {
	t.Helper()
	snap, err := reg.List(t.Context(), "rings/")
	must(t, err)
	for _, e := range snap.Entries {
		_, err := reg.Txn(t.Context(), registry.Txn{Deletes: []string{e.Key}})
		must(t, err)
	}
}

// deaf is the registry of a process that does not hear of newer starts, and lives on.
type deaf struct {
	*registry.Registry
	on    atomic.Bool
	heard atomic.Pointer[driver.Snapshot]
}

func (d *deaf) List(ctx context.Context, prefix string) (driver.Snapshot, error) {
	starts := strings.Contains(prefix, "/starts/")
	if starts && d.on.Load() {
		return *d.heard.Load(), nil
	}
	snap, err := d.Registry.List(ctx, prefix)
	if starts && err == nil {
		d.heard.Store(&snap)
	}
	return snap, err
}

// A start that waits for an earlier one, which goes on and on, says so again and again, and says no.
func TestAStartThatWaitsForAnEarlierOneSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memregistry.NewStore()
		ha, hb := store.Open(), store.Open()
		t.Cleanup(func() { _ = ha.Close() })
		t.Cleanup(func() { _ = hb.Close() })
		d := &deaf{Registry: ha.Registry}
		cfg := ring.Config{Registry: registry.New(d), Name: "r", Member: "m", Mode: ring.Table, Slots: 1, TTL: 3 * time.Second}
		a, err := ring.Join(t.Context(), cfg)
		must(t, err)
		must(t, a.WaitEstablished(t.Context()))
		d.on.Store(true)

		var lines testlog.Buffer
		cfg.Registry, cfg.Logger = hb.Registry, lines.Logger()
		b, err := ring.Join(t.Context(), cfg)
		must(t, err)
		time.Sleep(time.Minute)
		synctest.Wait()
		if yes(b, "key") || !yes(a, "key") {
			t.Errorf("the earlier start says %t, the one that waits %t", yes(a, "key"), yes(b, "key"))
		}
		if n := strings.Count(lines.String(), "waiting for an earlier start"); n < 3 || n > 5 {
			t.Errorf("it said so %d times in a minute; expected 4, each after twice the time:\n%s", n, lines.String())
		}
		leave(t, a)
		time.Sleep(10 * time.Second)
		if !yes(b, "key") {
			t.Error("the earlier start has ended, and the next does not begin")
		}
		leave(t, b)
	})
}
