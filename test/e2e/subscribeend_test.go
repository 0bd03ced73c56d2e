package e2e_test

import (
	"context"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
)

// Whoever ends a member while it begins has asked for its end all the same.
func TestAMemberThatIsEndedWhileItBeginsEndsWithoutAnError(t *testing.T) {
	t.Parallel()
	rf := newSubscription(t, admin.SubscriptionConfig{})
	nothing := func(context.Context, *ringfence.Message) error { return nil }
	for i := range 100 {
		ctx, end := context.WithCancel(t.Context())
		after := time.AfterFunc(time.Duration(i)*20*time.Microsecond, end)
		if i == 0 {
			end()
		}
		if err := rf.Subscribe(ctx, "billing", nothing, nil); err != nil {
			t.Fatalf("ended after %d times 20 µs: %v", i, err)
		}
		after.Stop()
		end()
		ctx, end = context.WithCancel(t.Context())
		time.AfterFunc(time.Duration(i)*20*time.Microsecond, end)
		if err := rf.Consume(ctx, "orders", "g", nothing, nil); err != nil {
			t.Fatalf("a consumer, ended after %d times 20 µs: %v", i, err)
		}
	}
}
