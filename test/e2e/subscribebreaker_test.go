package e2e_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
)

// Each record may fail three times, and nothing is held: if attempts counted, all would be dead letters in half a second.
// A member that begins in the outage has to find out by itself.
func TestOutageCostsNoRecordItsAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, keys = 4000, 200
		pause := 200 * time.Millisecond
		rf := newSubscriptionOf(t, 4, admin.SubscriptionConfig{Retry: admin.Retry{Initial: pause, Max: pause, Attempts: 3}, Hold: -1})
		produce(t, rf, "orders", 0, n, keys)
		var d delivered
		h := d.handler(func(*ringfence.Message) error { return ringfence.Outage(errors.New("connection refused")) })
		stop := subscribe(t, rf, "billing", h)
		time.Sleep(3 * time.Second)
		if begun := d.attempts(); begun > 200 {
			t.Errorf("%d attempts in the outage: more than were under way, and one at a time", begun)
		}
		stop()
		subscribe(t, rf, "billing", h)
		time.Sleep(time.Hour)
		d.cure()
		time.Sleep(time.Minute)
		for k := range keys {
			if got, want := d.of(fmt.Sprintf("k%d", k)), every(n, keys, k); !slices.Equal(got, want) {
				t.Errorf("k%d: %v; want %v", k, got, want)
			}
		}
		letters, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
		if err != nil || len(letters) > 0 {
			t.Errorf("%d dead letters, %v", len(letters), err)
		}
	})
}
