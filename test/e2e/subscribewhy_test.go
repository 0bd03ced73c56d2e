package e2e_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
)

// Why does not ask anybody to decide what was decided.
func TestWhyTellsWhatWasOrderedAndIsNotDoneYet(t *testing.T) {
	t.Parallel()
	rf := newSubscriptionOf(t, 1, admin.SubscriptionConfig{Hold: -1})
	produce(t, rf, "orders", 0, 2, 1)
	stop := subscribe(t, rf, "billing", func(context.Context, *ringfence.Message) error { return ringfence.Permanent(errors.New("no")) })
	var why []api.BlockedKey
	look := func() bool {
		answer, err := rf.Admin().ExplainKey(t.Context(), "billing", []byte("k0"))
		must(t, err)
		why = answer.Blocked
		return len(why) == 1 && why[0].Followers+1 == 2
	}
	eventually(t, "two records that wait", look)
	stop()
	if why[0].Ordered != "" || why[0].Status != "failed" {
		t.Errorf("told before any order: %+v", why[0])
	}
	if n, err := rf.Admin().RedriveDeadLetters(t.Context(), "billing", nil); err != nil || n != 1 {
		t.Fatalf("redriven %d, %v", n, err)
	}
	if look(); why[0].Ordered != api.Redriven || why[0].Status != "failed" {
		t.Errorf("told after the order, which nobody carries out: %+v", why[0])
	}
}

// Without an order what is parked has no key: that nothing of a key is would be wrong.
func TestWhyIsUnknownWithoutAnOrder(t *testing.T) {
	t.Parallel()
	rf := newSubscriptionOf(t, 1, admin.SubscriptionConfig{Hold: -1, Order: api.OrderNone})
	if why, err := rf.Admin().ExplainKey(t.Context(), "billing", []byte("k0")); err != nil || why.State != api.KeyUnknown || len(why.Unknown) == 0 {
		t.Errorf("told %+v, %v", why, err)
	}
}
