package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
)

// In a pause what is under way ends, and counts. Neither what is parked is tried, nor does a member deliver that starts then.
func TestPausedSubscriptionDeliversNothingAndThenGoesOnInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, rf := newTopic(t, 2)
		_, err := rf.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{
			Topic: "orders", Retry: admin.Retry{Initial: 5 * time.Millisecond, Max: 5 * time.Millisecond, Attempts: 1 << 20}, Hold: -1,
		})
		must(t, err)
		produce(t, rf, "orders", 0, 6, 3)
		var d delivered
		release := make(chan struct{})
		h := d.handler(func(m *ringfence.Message) error {
			if string(m.Value) == "2" {
				return errors.New("not yet") // it is parked, and due again and again
			}
			return nil
		})
		subscribe(t, rf, "billing", func(ctx context.Context, m *ringfence.Message) error {
			if string(m.Value) == "1" {
				<-release
			}
			return h(ctx, m)
		})
		time.Sleep(time.Second)
		if d.attempts() < 10 {
			t.Errorf("%d attempts; expected some at what is parked", d.attempts())
		}
		info, err := rf.Admin().PauseSubscription(t.Context(), "billing", &admin.PauseSubscriptionOptions{Reason: "lunch"})
		if must(t, err); info.Paused == nil || info.Paused.Reason != "lunch" || info.Paused.Since == "" {
			t.Errorf("paused: %+v", info.Paused)
		}
		again, err := rf.Admin().PauseSubscription(t.Context(), "billing", &admin.PauseSubscriptionOptions{Reason: "late"})
		if must(t, err); *again.Paused != *info.Paused {
			t.Errorf("a second pause: %+v, not %+v", again.Paused, info.Paused)
		}
		time.Sleep(time.Second)
		close(release)
		time.Sleep(time.Second)
		if got := d.of("k1"); !slices.Equal(got, []string{"1"}) {
			t.Errorf("of k1 %v were delivered; expected what was under way", got)
		}
		d.cure()
		produce(t, rf, "orders", 6, 24, 3)
		subscribe(t, s.open(t), "billing", h)
		before := d.attempts()
		time.Sleep(time.Minute)
		if now := d.attempts(); now != before {
			t.Errorf("%d attempts in a pause", now-before)
		}
		if info, err = rf.Admin().ResumeSubscription(t.Context(), "billing"); err != nil || info.Paused != nil {
			t.Errorf("resumed: %+v, %v", info, err)
		}
		time.Sleep(time.Minute)
		for k := range 3 {
			if got, want := d.of(fmt.Sprint("k", k)), every(30, 3, k); !slices.Equal(got, want) {
				t.Errorf("of k%d came %v; expected %v", k, got, want)
			}
		}
	})
}

func TestAReasonIsBound(t *testing.T) {
	t.Parallel()
	rf := newSubscription(t, admin.SubscriptionConfig{})
	for _, reason := range []string{strings.Repeat("x", 1025), "\xff"} {
		if _, err := rf.Admin().PauseSubscription(t.Context(), "billing", &admin.PauseSubscriptionOptions{Reason: reason}); !errors.Is(err, ringfence.ErrInvalid) {
			t.Errorf("a reason of %d bytes: %v", len(reason), err)
		}
	}
	_, paused := rf.Admin().PauseSubscription(t.Context(), "none", nil)
	_, resumed := rf.Admin().ResumeSubscription(t.Context(), "none")
	for _, err := range []error{paused, resumed} {
		if !errors.Is(err, ringfence.ErrNotFound) {
			t.Errorf("of none: %v", err)
		}
	}
}
