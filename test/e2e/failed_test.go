package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
)

// failures collects what Failed gets.
type failures struct {
	mu  sync.Mutex
	all []string
}

func (f *failures) add(x ringfence.Failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, fmt.Sprintf("%s: %s %s %d, attempt %d: %v", x.Outcome, x.Topic, x.Key, x.Offset, x.Attempt, x.Err))
}

func (f *failures) told() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.all)
}

func TestSubscribeTellsFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rf := newSubscriptionOf(t, 1, admin.SubscriptionConfig{Retry: admin.Retry{Initial: time.Second, Max: time.Second, Attempts: 2}, Hold: -1})
		produce(t, rf, "orders", 0, 2, 2)
		var told failures
		subscribeWith(t, rf, "billing", func(_ context.Context, m *ringfence.Message) error {
			if string(m.Key) == "k1" {
				return errors.New("no card")
			}
			return nil
		}, &ringfence.SubscribeOptions{Failed: told.add})
		time.Sleep(time.Minute)
		want := []string{
			"tried again: orders k1 1, attempt 1: no card", "parked: orders k1 1, attempt 1: no card", "dead letter: orders k1 1, attempt 2: no card",
		}
		if got := told.told(); !slices.Equal(got, want) {
			t.Errorf("told %q; expected %q", got, want)
		}
	})
}

func TestConsumeTellsFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, rf := newTopic(t, 1)
		produce(t, rf, "orders", 0, 1, 1)
		var told failures
		c := consume(t, rf, "orders", "g", func(_ context.Context, m *ringfence.Message) error {
			switch m.Attempt {
			case 1:
				return errors.New("not yet")
			case 2:
				return errors.Join(m.Later().Answer(errors.New("not later either")))
			}
			return nil
		}, ringfence.ConsumeOptions{Failed: told.add})
		time.Sleep(time.Minute)
		c.leave(t)
		if got := told.told(); !slices.Equal(got, []string{"tried again: orders k0 0, attempt 1: not yet", "tried again: orders k0 0, attempt 2: not later either"}) {
			t.Errorf("told %q", got)
		}
	})
}
