package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
)

var errDown = ringfence.Outage(errors.New("connection refused"))

const openedLine = "deliveries are held back: what they go to does not work; no attempt counts, and one record at a time is tried until there is an answer"

// outage is a subscription of a topic with n records of so many keys.
func outage(t *testing.T, partitions, n, keys int, c admin.SubscriptionConfig) (*ringfence.Client, *heard) {
	t.Helper()
	h := &heard{}
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Dir: t.TempDir(), Logger: slog.New(h)})
	must(t, err)
	t.Cleanup(func() { _ = rf.Close() })
	must(t, rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: partitions}))
	c.Topic, c.Retry.Initial, c.Retry.Max = "orders", 200*time.Millisecond, 200*time.Millisecond
	_, err = rf.Admin().CreateSubscription(t.Context(), "billing", c)
	must(t, err)
	produce(t, rf, "orders", 0, n, keys)
	return rf, h
}

func (d *delivered) whole(n, keys int) bool {
	for k := range keys {
		if len(d.of(fmt.Sprintf("k%d", k))) < n/keys {
			return false
		}
	}
	return true
}

// Each record may fail three times, and nothing is held: without the breaker all would be dead letters in
// half a second.
func TestAnOutageCostsNoRecordItsAttempts(t *testing.T) {
	t.Parallel()
	const n, keys = 4000, 200
	rf, h := outage(t, 4, n, keys, admin.SubscriptionConfig{Retry: admin.Retry{Attempts: 3}, Hold: -1})
	var d delivered
	stop := subscribe(t, rf, "billing", d.handler(func(*ringfence.Message) error { return errDown }))
	eventually(t, "the outage is noticed", func() bool { return h.says(openedLine) })
	time.Sleep(1500 * time.Millisecond) // it lasts
	begun := d.attempts()
	if begun > 200 {
		t.Errorf("%d attempts in the outage: more than were under way, and one at a time", begun)
	}
	stop() // a member that begins in the outage has to find out by itself
	subscribe(t, rf, "billing", d.handlerOf(func(*ringfence.Message) error { return errDown }))
	time.Sleep(500 * time.Millisecond) // the outage lasts this long
	d.cure()
	since := time.Now()
	eventually(t, "all", func() bool { return d.whole(n, keys) })
	t.Logf("all were delivered %s after the end of the outage", time.Since(since))
	for k := range keys {
		if got, want := d.of(fmt.Sprintf("k%d", k)), every(n, keys, k); !slices.Equal(got, want) {
			t.Errorf("k%d: %v; want %v", k, got, want)
		}
	}
	letters, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
	if err != nil || len(letters) > 0 {
		t.Errorf("%d dead letters, %v", len(letters), err)
	}
}

// handlerOf goes on with what was noted so far.
func (d *delivered) handlerOf(bad func(m *ringfence.Message) error) ringfence.Handler {
	d.mu.Lock()
	taken, tries := d.taken, d.tries
	d.mu.Unlock()
	h := d.handler(bad)
	d.mu.Lock()
	d.taken, d.tries = taken, tries
	d.mu.Unlock()
	return h
}

// A record for which the endpoint never answers is poison like any other.
func TestAKeyThatNeverGetsAnAnswerHoldsNobodyBack(t *testing.T) {
	t.Parallel()
	const n, keys = 4000, 200
	rf, h := outage(t, 4, n, keys, admin.SubscriptionConfig{Retry: admin.Retry{Attempts: 3}, Hold: -1})
	var d delivered
	subscribe(t, rf, "billing", d.handler(func(m *ringfence.Message) error {
		if string(m.Key) == "k7" {
			return errDown
		}
		return nil
	}))
	eventually(t, "the dead letter", func() bool {
		letters, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
		return err == nil && len(letters) == n/keys && letters[0].Status == api.Failed && letters[0].Attempts == 3
	})
	for k := range keys {
		if got := d.of(fmt.Sprintf("k%d", k)); k != 7 && len(got) != n/keys {
			t.Errorf("k%d: %v", k, got)
		}
	}
	if h.says(openedLine) {
		t.Error("one key was taken for an outage")
	}
}

// What is parked is tried too in an outage, one at a time, and loses no attempt by that.
func TestWhatIsParkedLosesNoAttemptInAnOutage(t *testing.T) {
	t.Parallel()
	const n, others = 2, 40 // each has a key of its own
	rf, h := outage(t, 1, n, n, admin.SubscriptionConfig{Retry: admin.Retry{Attempts: 1000}, Hold: time.Second})
	var d delivered
	var down, noticed atomic.Bool
	var mu sync.Mutex
	tries, begun := map[string]int{}, 0 // the attempt that is made at what is parked, by key
	inner := d.handler(func(*ringfence.Message) error { return nil })
	subscribe(t, rf, "billing", func(ctx context.Context, m *ringfence.Message) error {
		old := len(m.Value) < 3 // was there before the outage
		switch {
		case down.Load():
			if old && noticed.Load() {
				mu.Lock()
				defer mu.Unlock()
				if begun++; tries[string(m.Key)] > 0 && tries[string(m.Key)] != m.Attempt {
					t.Errorf("%s: attempt %d after attempt %d", m.Key, m.Attempt, tries[string(m.Key)])
				}
				tries[string(m.Key)] = m.Attempt
			}
			return errDown
		case old && m.Attempt == 1:
			return ringfence.RetryAfter(errors.New("not now"), 2*time.Second)
		}
		return inner(ctx, m)
	})
	eventually(t, "the others are parked", func() bool { return waiting(t, rf) > 0 })
	down.Store(true)
	for i := range others { // their first attempts tell of the outage
		_, err := rf.Produce(t.Context(), "orders", ringfence.Message{Key: fmt.Appendf(nil, "new-%d", i), Value: []byte("100")})
		must(t, err)
	}
	eventually(t, "the outage is noticed", func() bool { return h.says(openedLine) })
	time.Sleep(100 * time.Millisecond) // what was under way has ended
	noticed.Store(true)
	eventually(t, "something parked is tried twice", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return begun > len(tries)+1
	})
	down.Store(false)
	eventually(t, "all", func() bool {
		for i := range others {
			if len(d.of(fmt.Sprintf("new-%d", i))) == 0 {
				return false
			}
		}
		return d.whole(n, n)
	})
}

// waiting is how many records of the keys k0 and k1 are parked.
func waiting(t *testing.T, rf *ringfence.Client) (n int) {
	t.Helper()
	for k := range 2 {
		why, err := rf.Admin().ExplainKey(t.Context(), "billing", fmt.Appendf(nil, "k%d", k))
		must(t, err)
		for _, w := range why {
			n += w.Followers + 1
		}
	}
	return n
}
