package ring_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/ring"
)

// Twenty processes start on an empty store at once, and later leave at once.
func TestACrowdMayComeAndGoAtOnce(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, mode ring.Mode) {
		synctest.Test(t, func(t *testing.T) {
			store := memregistry.NewStore()
			rings := make([]*ring.Ring, 20)
			var crowd sync.WaitGroup
			for i := range rings {
				h := store.Open()
				t.Cleanup(func() { _ = h.Close() })
				h.SetLatency(churnLatency)
				crowd.Go(func() {
					r, err := ring.Join(t.Context(), ring.Config{Registry: h.Registry, Name: "r", Member: fmt.Sprintf("m%02d", i), Mode: mode})
					if err != nil {
						t.Error(err)
						return
					}
					rings[i] = r
					if err := r.WaitEstablished(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			crowd.Wait()
			if t.Failed() {
				return
			}
			time.Sleep(5 * time.Second)
			if err := settled(rings, someKeys(100)); err != nil {
				t.Error(err)
			}
			for _, r := range rings {
				crowd.Go(func() {
					if err := r.Close(context.Background()); err != nil {
						t.Error(err)
					}
				})
			}
			crowd.Wait()
			v, err := ring.Look(t.Context(), store.Open().Registry, "r")
			if err != nil || len(v.Members) != 0 {
				t.Errorf("after all left: %+v %v", v, err)
			}
			if owner, _ := v.Owner("k"); owner != "" {
				t.Errorf("an empty ring: the key belongs to %q", owner)
			}
		})
	})
}
