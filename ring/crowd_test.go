package ring_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/registry"
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

// More members than a ring may have, as only somebody writes who is none, hold nobody up: a member that
// closes then says that it could not say goodbye.
func TestACrowdThatSomebodyMadeUpHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memregistry.NewStore()
		h := store.Open()
		defer h.Close()
		r, err := ring.Join(t.Context(), ring.Config{Registry: h.Registry, Name: "r", Member: "m", Mode: ring.Anchor})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.WaitEstablished(t.Context()); err != nil {
			t.Fatal(err)
		}
		stranger := store.Open()
		defer stranger.Close()
		for i := range 200 {
			var forged registry.Txn
			for j := range 100 {
				forged.Puts = append(forged.Puts, registry.Put{Key: fmt.Sprintf("rings/r/members/x%05d", 100*i+j), Value: []byte(`{"incarnation":"1"}`)})
			}
			if _, err := stranger.Txn(t.Context(), forged); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		if err := r.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "more than 16384 members") {
			t.Errorf("%v; expected why it could not say goodbye", err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %s", took)
		}
	})
}
