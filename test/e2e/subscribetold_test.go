package e2e_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
)

// told is what owners tell of the shards of a subscription; nil for those of which there is nothing.
func told(t *testing.T, rf *ringfence.Client, name string) (all []*protocol.Deliveries) {
	t.Helper()
	d, err := rf.Admin().GetSubscription(t.Context(), name)
	must(t, err)
	g, err := group.Describe(t.Context(), rf.Registry(), d.Group())
	must(t, err)
	for i := range g.Units {
		all = append(all, g.Units[i].Told())
	}
	return all
}

// written are the versions of the checkpoints.
func written(t *testing.T, rf *ringfence.Client, name string) string {
	t.Helper()
	d, err := rf.Admin().GetSubscription(t.Context(), name)
	must(t, err)
	g, err := protocol.NewGroup(rf.Registry(), d.Group())
	must(t, err)
	st, err := g.Load(t.Context(), true)
	must(t, err)
	var versions []string
	for _, u := range st.Units {
		versions = append(versions, string(u.CheckpointVersion))
	}
	return strings.Join(versions, " ")
}

// Only the owner of a shard knows what its endpoint says. Everybody reads it in the registry, though nothing was
// finished yet, and it is written when it changes and at no other time.
func TestEverybodySeesWhereDeliveriesAreHeldBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, rf, c := limited(t, 400, 100, admin.SubscriptionConfig{})
		var mended atomic.Bool
		down := func(*ringfence.Message) error {
			if mended.Load() {
				return nil
			}
			return ringfence.Outage(errors.New("no \x1b[31mtills\xff are open: " + strings.Repeat("closed ", 100)))
		}
		began := time.Now()
		stop := subscribe(t, rf, "billing", (&delivered{}).handler(down))
		time.Sleep(5 * time.Second)
		other := s.open(t)
		for shard, d := range told(t, other, "billing") {
			if d == nil || d.HeldBack == nil {
				t.Fatalf("shard %d: %+v", shard, d)
			}
			h := d.HeldBack
			if !strings.HasPrefix(h.Why, "no \x1b[31mtills? are open: closed") || len(h.Why) > protocol.MaxWhyBytes || h.Next != 0 ||
				h.Since < began.UnixMilli() || h.Since > began.Add(time.Second).UnixMilli() {
				t.Errorf("shard %d is held back: %+v", shard, h)
			}
		}
		before := written(t, other, "billing")
		time.Sleep(time.Minute)
		if now := written(t, other, "billing"); now != before {
			t.Errorf("checkpoints of versions %s became %s in an outage that goes on", before, now)
		}

		stop()
		for shard, d := range told(t, other, "billing") {
			if d != nil {
				t.Errorf("shard %d has no owner, and tells %+v", shard, d)
			}
		}
		stop = subscribe(t, rf, "billing", (&delivered{}).handler(down))
		time.Sleep(5 * time.Second)
		mended.Store(true)
		time.Sleep(5 * time.Second)
		for shard, d := range told(t, other, "billing") {
			if d != nil {
				t.Errorf("shard %d is told to be held back when all goes on: %+v", shard, d)
			}
		}
		stop()
		_ = c
	})
}

// What is used of limits goes with the progress, at most once a second, and costs nothing at rest.
func TestEverybodySeesWhatIsUsedOfLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, rf, c := limited(t, 2000, 64, admin.SubscriptionConfig{Rate: 100, Concurrency: 32})
		stopA := subscribe(t, rf, "billing", c.handler("a", 100*time.Millisecond, nil))
		stopB := subscribe(t, s.open(t), "billing", c.handler("b", 100*time.Millisecond, nil))
		time.Sleep(10 * time.Second)
		var rate float64
		running := 0
		for shard, d := range told(t, rf, "billing") {
			if d == nil { // it has delivered all of its partition
				continue
			}
			if time.Now().UnixMilli()-d.At > 2000 {
				t.Errorf("shard %d: %+v", shard, d)
			}
			rate += d.Rate
			running += d.Running
		}
		within(t, "attempts a second", int(rate), 90, 110)
		within(t, "attempts under way", running, 5, 20)
		time.Sleep(30 * time.Second)
		for shard, d := range told(t, rf, "billing") {
			if d != nil && (d.Rate != 0 || d.Running != 0) {
				t.Errorf("shard %d has nothing to deliver, and tells %+v", shard, d)
			}
		}
		before := written(t, rf, "billing")
		time.Sleep(time.Minute)
		if now := written(t, rf, "billing"); now != before {
			t.Errorf("checkpoints of versions %s became %s at rest", before, now)
		}
		stopA()
		stopB()
	})
}
