package ringfence_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/subscription/core"
)

// fence appends one to the journal of the only shard, as an owner does.
func fence(t *testing.T, journal *commitlog.Topic, info *ringfence.SubscriptionInfo, by core.Tenure) {
	t.Helper()
	r := core.Record{Set: info.Set().ID, Kind: core.Fence, By: by, Seq: 1, Member: "another"}
	_, err := journal.Append(t.Context(), 0, []commitlog.Record{{Headers: []commitlog.Header{{Name: "ringfence-parked", Value: core.Encode(&r, nil)}}}}, nil)
	must(t, err)
}

// A registry that went back has forgotten epochs that the journal has not, and may give them again.
func TestAShardIsClaimedAboveWhatItsJournalHas(t *testing.T) {
	t.Parallel()
	s, rf := newTopic(t, 1)
	info, err := rf.EnsureSubscription(t.Context(), "billing", ringfence.SubscriptionConfig{Topic: "orders", Hold: -1, Initial: time.Millisecond, Max: time.Millisecond})
	must(t, err)
	journal := raw(t, s, rf, info.JournalTopic())
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

// A fence of the last epoch that there is leaves none for the shard: nothing is written that nobody reads,
// and all but that shard goes on.
func TestAShardBeginsNoEpochThatNobodyReads(t *testing.T) {
	t.Parallel()
	s, rf := newTopic(t, 2)
	info, err := rf.EnsureSubscription(t.Context(), "billing", ringfence.SubscriptionConfig{Topic: "orders"})
	must(t, err)
	journal := raw(t, s, rf, info.JournalTopic())
	fence(t, journal, info, core.Tenure{Epoch: core.MaxEpoch, Run: 1, Token: 1})
	produce(t, rf, "orders", 0, 20, 4)
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan error, 100)
	over := make(chan error, 1)
	got := newRecorder()
	go func() {
		over <- rf.Subscribe(ctx, "billing", got.handle, &ringfence.SubscribeOptions{Events: ringfence.Events{Trouble: func(_ int, _ string, err error) {
			select {
			case told <- err:
			default:
			}
		}}})
	}()
	eventually(t, "what is to be done", func() bool {
		select {
		case err := <-told:
			return errors.Is(err, ringfence.ErrCorrupt) && strings.Contains(err.Error(), "subscription delete --force")
		default:
			return false
		}
	})
	b, err := journal.Bounds(t.Context(), 0)
	must(t, err)
	if b.Next > 2 { // the forged one, and perhaps that of an owner who had not met it yet
		t.Errorf("the journal has %d records; expected 2 at most", b.Next)
	}
	got.waitFor(t, 1) // of the other shard
	if _, err := rf.DeadLetters(t.Context(), "billing", nil); err != nil {
		t.Errorf("the list: %v", err)
	}
	cancel()
	must(t, <-over)
	must(t, rf.DeleteSubscription(t.Context(), "billing", &ringfence.DeleteSubscriptionOptions{Force: true}))
}
