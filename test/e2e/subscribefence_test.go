package e2e_test

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/subscription/core"
)

// fence appends one to the journal of the only shard, as an owner does.
func fence(t *testing.T, journal *commitlog.Topic, info *api.Subscription, by core.Tenure) {
	t.Helper()
	r := core.Record{Set: info.Set().ID, Kind: core.Fence, By: by, Seq: 1, Member: "another"}
	_, err := journal.Append(t.Context(), 0, []commitlog.Record{{Headers: []commitlog.Header{{Name: "ringfence-parked", Value: core.Encode(&r, nil)}}}}, nil)
	must(t, err)
}

// A registry that went back has forgotten epochs that the journal has not, and may give them again.
func TestAShardIsClaimedAboveWhatItsJournalHas(t *testing.T) {
	t.Parallel()
	s, rf := newTopic(t, 1)
	info, err := rf.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{Topic: "orders", Hold: -1, Retry: admin.Retry{Initial: time.Millisecond, Max: time.Millisecond}})
	must(t, err)
	journal := raw(t, s, rf, info.Set().Journal)
	produce(t, rf, "orders", 0, 4, 1)
	const forgotten = 1 << 45 // far above what the time gives
	fence(t, journal, info, core.Tenure{Epoch: forgotten, Run: 7, Token: 1})

	got := newRecorder()
	var epoch atomic.Int64
	subscribe(t, rf, "billing", func(ctx context.Context, m *ringfence.Message) error {
		if m.Attempt == 1 && string(m.Value) == "1" {
			return context.DeadlineExceeded // so that the journal is used
		}
		epoch.Store(m.Epoch)
		return got.handle(ctx, m)
	})
	got.waitFor(t, 4)
	first := epoch.Load()
	if first <= forgotten {
		t.Errorf("records come in epoch %d; the journal has %d", first, forgotten)
	}
	// And while it is at work: another store has given the same epoch.
	fence(t, journal, info, core.Tenure{Epoch: first, Run: math.MaxUint64, Token: 1})
	produce(t, rf, "orders", 4, 4, 1)
	eventually(t, "a higher epoch", func() bool {
		produce(t, rf, "orders", 8, 1, 1)
		return epoch.Load() > first
	})
}
