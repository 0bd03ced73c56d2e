package e2e_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ringfence/ringfence"
)

// Why does not ask anybody to decide what was decided.
func TestWhyTellsWhatWasOrderedAndIsNotDoneYet(t *testing.T) {
	t.Parallel()
	rf := newSubscriptionOf(t, 1, ringfence.SubscriptionConfig{Hold: -1})
	produce(t, rf, "orders", 0, 2, 1)
	stop := subscribe(t, rf, "billing", func(context.Context, *ringfence.Message) error { return ringfence.Permanent(errors.New("no")) })
	var why []ringfence.Blockage
	look := func() bool {
		var err error
		why, err = rf.Why(t.Context(), "billing", []byte("k0"))
		must(t, err)
		return len(why) == 1 && why[0].Parked == 2
	}
	waitFor(t, "two records that wait", look)
	stop()
	if why[0].Ordered != "" || !why[0].Failed {
		t.Errorf("told before any order: %+v", why[0])
	}
	if n, err := rf.Redrive(t.Context(), "billing", nil); err != nil || n != 1 {
		t.Fatalf("redriven %d, %v", n, err)
	}
	if look(); why[0].Ordered != ringfence.StatusRedriven || !why[0].Failed {
		t.Errorf("told after the order, which nobody carries out: %+v", why[0])
	}
}

// Without an order what is parked has no key: that nothing of a key is would be wrong.
func TestWhyHasNoAnswerWithoutAnOrder(t *testing.T) {
	t.Parallel()
	rf := newSubscriptionOf(t, 1, ringfence.SubscriptionConfig{Hold: -1, Order: ringfence.OrderNone})
	if why, err := rf.Why(t.Context(), "billing", []byte("k0")); !errors.Is(err, ringfence.ErrInvalid) {
		t.Errorf("told %+v, %v", why, err)
	}
}
