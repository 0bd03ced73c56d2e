package e2e_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
)

// A copy of a message is as good as the message: what it is answered by counts, as long as the handler is there
// that it was given to.
func TestACopyOfAMessageIsAnsweredLaterToo(t *testing.T) {
	t.Parallel()
	for name, subscribed := range map[string]bool{"consume": false, "subscribe": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, rf := newTopic(t, 1)
			produce(t, rf, "orders", 0, 2, 2)
			type owed struct {
				copied ringfence.Message
				later  ringfence.Later
			}
			came := make(chan owed, 9)
			next := func() owed {
				select {
				case o := <-came:
					return o
				case <-time.After(20 * time.Second):
					t.Fatal("nothing comes: an answer was taken and counts for nothing")
					return owed{}
				}
			}
			h := func(_ context.Context, m *ringfence.Message) error {
				o := owed{copied: *m}
				if string(m.Value) == "0" {
					o.later = o.copied.Later()
					if m.Later() != o.later {
						t.Error("the message and its copy have two answers")
					}
				}
				came <- o
				return nil
			}
			if subscribed {
				_, err := rf.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{Topic: "orders", Retry: admin.Retry{Initial: time.Millisecond, Max: time.Millisecond}})
				must(t, err)
				defer subscribe(t, rf, "billing", h)()
			} else {
				defer consume(t, rf, "orders", "g", h, ringfence.ConsumeOptions{Retry: ringfence.Retry{Initial: time.Millisecond}}).leave(t)
			}
			for range 2 {
				o := next()
				if o.later == (ringfence.Later{}) {
					continue
				}
				if err := o.later.Answer(errors.New("no")); err != nil {
					t.Errorf("the answer is refused: %v", err)
				}
			}
			again := next()
			if string(again.copied.Value) != "0" || again.copied.Attempt != 2 {
				t.Errorf("message %s came in attempt %d; expected 0 in its second", again.copied.Value, again.copied.Attempt)
			}
			if err := again.later.Answer(nil); err != nil {
				t.Error(err)
			}
			if n := len(came); n > 0 {
				t.Errorf("%d came besides", n)
			}
		})
	}
}
