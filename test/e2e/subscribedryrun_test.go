package e2e_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
)

func TestADryRunOrdersNothingAboutDeadLetters(t *testing.T) {
	t.Parallel()
	rf := newSubscription(t, admin.SubscriptionConfig{Retry: admin.Retry{Initial: 1, Attempts: 1}, Hold: -1})
	send(t, rf, "a", "1", "2")
	send(t, rf, "b", "3")
	var d delivered
	subscribe(t, rf, "billing", d.handler(func(*ringfence.Message) error { return ringfence.Permanent(errors.New("no")) }))
	lettersOf(t, rf, 3, nil) // of which one waits behind another
	dry := &admin.DeadLetterOptions{DryRun: true}
	for name, order := range map[string]func(context.Context, string, *admin.DeadLetterOptions) (int, error){
		"redrive": rf.Admin().RedriveDeadLetters, "discard": rf.Admin().DiscardDeadLetters, "skip": rf.Admin().SkipDeadLetters,
	} {
		if n, err := order(t.Context(), "billing", dry); n != 2 || err != nil {
			t.Errorf("%s: %d, %v; expected the 2 that failed", name, n, err)
		}
	}
	unknown := &admin.DeadLetterOptions{DryRun: true, IDs: []string{"0-0-99"}}
	if _, err := rf.Admin().RedriveDeadLetters(t.Context(), "billing", unknown); !errors.Is(err, ringfence.ErrNotFound) {
		t.Errorf("%v; expected ErrNotFound", err)
	}
	if n, err := rf.Admin().DiscardDeadLetters(t.Context(), "billing", nil); n != 2 || err != nil { // nothing was ordered before
		t.Errorf("%d, %v; expected 2", n, err)
	}
}
