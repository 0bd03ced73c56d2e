package e2e_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
)

// A subscription has no checkpoint that a handler could store: it says what to do instead.
func TestNoTransactionCoversASubscription(t *testing.T) {
	t.Parallel()
	_, rf := newTopic(t, 1)
	_, err := rf.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{Topic: "orders"})
	must(t, err)
	produce(t, rf, "orders", 0, 1, 1)
	said := make(chan error, 1)
	stop := subscribe(t, rf, "billing", func(ctx context.Context, m *ringfence.Message) error {
		select {
		case said <- m.CommitIn(ctx, nil):
		default:
		}
		return nil
	})
	defer stop()
	if err := <-said; !errors.Is(err, ringfence.ErrInvalid) || !strings.Contains(err.Error(), "write down which record was done") {
		t.Errorf("%v; expected ErrInvalid, and what to do", err)
	}
}
