package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
)

// What waits for an hour, in the journal, in memory, or behind a circuit that an answer told to wait, is tried at once.
func TestRetrySubscriptionEndsPauses(t *testing.T) {
	t.Parallel()
	wait := func(err error) error { return ringfence.RetryAfter(err, time.Hour) }
	for name, c := range map[string]struct {
		hold   time.Duration
		answer error
		opts   *admin.RetrySubscriptionOptions
		parked int
		order  api.Order
	}{
		"parked, all":         {-1, wait(errors.New("boom")), nil, 3, ""},
		"parked, by key":      {-1, wait(errors.New("boom")), &admin.RetrySubscriptionOptions{Key: []byte("k0")}, 3, ""},
		"parked, by ID":       {-1, wait(errors.New("boom")), &admin.RetrySubscriptionOptions{IDs: []string{"0.0.0.0"}}, 1, ""},
		"held, by key":        {2 * time.Hour, wait(errors.New("boom")), &admin.RetrySubscriptionOptions{Key: []byte("k0")}, 0, ""},
		"held, by a function": {2 * time.Hour, wait(errors.New("boom")), &admin.RetrySubscriptionOptions{Key: []byte("K0")}, 0, api.OrderByFunction},
		"circuit is open":     {-1, wait(ringfence.Outage(unreached{errors.New("down")})), nil, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rf := newSubscriptionOf(t, 1, admin.SubscriptionConfig{Retry: admin.Retry{Max: 24 * time.Hour, Attempts: 3}, Hold: c.hold, Order: c.order})
				var d delivered
				opts := &ringfence.SubscribeOptions{}
				if c.order == api.OrderByFunction {
					opts.OrderBy = bytes.ToUpper
				}
				subscribeWith(t, rf, "billing", d.handler(func(*ringfence.Message) error { return c.answer }), opts)
				produce(t, rf, "orders", 0, 3, 1)
				time.Sleep(10 * time.Second)
				d.cure()
				before := d.attempts()
				time.Sleep(15 * time.Second)
				if n := d.attempts(); n != before || len(d.of("k0")) > 0 {
					t.Fatalf("%d attempts, and then %d", before, n)
				}
				n, err := rf.Admin().RetrySubscription(t.Context(), "billing", c.opts)
				if must(t, err); n != c.parked {
					t.Errorf("%d parked records; expected %d", n, c.parked)
				}
				time.Sleep(2 * time.Second)
				if got := d.of("k0"); !slices.Equal(got, []string{"0", "1", "2"}) {
					t.Errorf("delivered %v", got)
				}
			})
		})
	}
}

type unreached struct{ error }

func (unreached) Unreached() bool { return true }

func TestRetrySubscriptionRefusesWhatIsNotParked(t *testing.T) {
	t.Parallel()
	rf := newSubscriptionOf(t, 1, admin.SubscriptionConfig{Retry: admin.Retry{Initial: time.Millisecond, Max: time.Millisecond, Attempts: 1}})
	var d delivered
	subscribe(t, rf, "billing", d.handler(func(*ringfence.Message) error { return ringfence.Permanent(errors.New("boom")) }))
	produce(t, rf, "orders", 0, 1, 1)
	eventually(t, "a dead letter", func() bool {
		list, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
		return err == nil && len(list) == 1
	})
	_, err := rf.Admin().RetrySubscription(t.Context(), "billing", &admin.RetrySubscriptionOptions{IDs: []string{"0.0.0.0"}})
	if !errors.Is(err, ringfence.ErrConflict) || !strings.Contains(err.Error(), "dead-letters redrive billing 0.0.0.0") {
		t.Errorf("of a dead letter: %v", err)
	}
	_, err = rf.Admin().RetrySubscription(t.Context(), "billing", &admin.RetrySubscriptionOptions{IDs: []string{"0.0.7.0"}})
	if !errors.Is(err, ringfence.ErrNotFound) {
		t.Errorf("of nothing: %v", err)
	}
}

// A parked record that is skipped or discarded is finished, and its key goes on; others that are tried again stay.
func TestSkippedParkedRecordLetsItsKeyGoOn(t *testing.T) {
	t.Parallel()
	for _, by := range []admin.DeadLetterOptions{{Key: []byte("k0")}, {IDs: []string{"0.0.0.0"}}} {
		synctest.Test(t, func(t *testing.T) {
			rf := newSubscriptionOf(t, 1, admin.SubscriptionConfig{Retry: admin.Retry{Initial: time.Hour, Max: time.Hour}, Hold: -1})
			var d delivered
			slow := d.handler(func(m *ringfence.Message) error {
				if n := string(m.Value); n == "0" || n == "1" {
					return errors.New("boom")
				}
				return nil
			})
			subscribe(t, rf, "billing", func(ctx context.Context, m *ringfence.Message) error { return slow(ctx, m) })
			produce(t, rf, "orders", 0, 6, 2)
			time.Sleep(time.Minute)
			n, err := rf.Admin().DiscardDeadLetters(t.Context(), "billing", nil)
			if must(t, err); n != 0 {
				t.Errorf("%d parked records were discarded with all dead letters", n)
			}
			n, err = rf.Admin().SkipDeadLetters(t.Context(), "billing", &by)
			if must(t, err); n != 1 {
				t.Errorf("%d records skipped; expected 1", n)
			}
			time.Sleep(time.Minute)
			if got := d.of("k0"); !slices.Equal(got, []string{"2", "4"}) {
				t.Errorf("of the key came %v", got)
			}
			if got := d.of("k1"); len(got) > 0 {
				t.Errorf("of another key, which is to wait, came %v", got)
			}
			if _, err = rf.Admin().SkipDeadLetters(t.Context(), "billing", &admin.DeadLetterOptions{IDs: []string{"0.0.0.0"}}); err == nil {
				t.Error("it was skipped twice")
			}
		})
	}
}

func TestRetryAfterIsBoundByTheSubscription(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		retry admin.Retry
		want  time.Duration
	}{
		{admin.Retry{}, time.Hour},
		{admin.Retry{Max: 3 * time.Hour}, 3 * time.Hour},
		{admin.Retry{AfterMax: time.Minute}, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			rf := newSubscriptionOf(t, 1, admin.SubscriptionConfig{Retry: c.retry, DeadLetters: api.SkipRecord})
			var mu sync.Mutex
			var at []time.Time
			subscribe(t, rf, "billing", func(context.Context, *ringfence.Message) error {
				mu.Lock()
				defer mu.Unlock()
				if at = append(at, time.Now()); len(at) == 1 {
					return ringfence.RetryAfter(errors.New("boom"), 7*24*time.Hour)
				}
				return nil
			})
			produce(t, rf, "orders", 0, 1, 1)
			time.Sleep(4 * time.Hour)
			mu.Lock()
			defer mu.Unlock()
			if len(at) != 2 || at[1].Sub(at[0]).Round(time.Second) != c.want {
				t.Errorf("%+v: attempts at %v; expected two %s apart", c.retry, at, c.want)
			}
		})
	}
}
