package e2e_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
)

// sendFull sends a record with all the headers that one can have, so that none is left to park it with.
func sendFull(t *testing.T, rf *ringfence.Client, key, value string, first ringfence.Header) {
	t.Helper()
	headers := slices.Repeat([]ringfence.Header{{Name: "h"}}, 1000)
	headers[0] = first
	_, err := rf.Produce(t.Context(), "orders", ringfence.Message{Key: []byte(key), Value: []byte(value), Headers: headers})
	must(t, err)
}

// A record that can't be parked is held until it succeeds, whatever was to become of it: it is not only asked
// for ever whether it can be parked by now.
func TestARecordThatCannotBeParkedIsHeldUntilItSucceeds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]admin.SubscriptionConfig{
		"held no longer": {Hold: -1, Retry: admin.Retry{Initial: 5 * time.Millisecond, Max: 5 * time.Millisecond}},
		"attempts spent": {Hold: time.Hour, Retry: admin.Retry{Attempts: 2, Initial: 5 * time.Millisecond, Max: 5 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rf := newSubscriptionOf(t, 1, c)
			sendFull(t, rf, "k", "large", ringfence.Header{Name: "h"})
			send(t, rf, "k", "behind")
			var d delivered
			n := 0
			subscribe(t, rf, "billing", d.handler(func(m *ringfence.Message) error {
				if string(m.Value) == "behind" {
					return nil
				}
				if n++; n < 4 {
					return errors.New("not yet")
				}
				return nil
			}))
			eventually(t, "the record, and what is behind it", func() bool { return slices.Equal(d.of("k"), []string{"large", "behind"}) })
		})
	}
}

// So is one that is to be delivered later: not before its time, and then.
func TestADelayedRecordThatCannotBeParkedIsDeliveredAtItsTime(t *testing.T) {
	t.Parallel()
	rf := newSubscriptionOf(t, 1, admin.SubscriptionConfig{Retry: admin.Retry{Initial: 5 * time.Millisecond, Max: 5 * time.Millisecond, Attempts: 2}})
	due := time.Now().Add(time.Second).Truncate(time.Millisecond)
	sendFull(t, rf, "k", "late", ringfence.Header{Name: ringfence.HeaderNotBefore, Value: fmt.Append(nil, due.UnixMilli())})
	send(t, rf, "k", "behind")
	var d delivered
	subscribe(t, rf, "billing", d.handler(func(m *ringfence.Message) error {
		if time.Now().Before(due) {
			t.Errorf("%s came %s before its time", m.Value, time.Until(due))
		}
		return nil
	}))
	eventually(t, "the record, and what is behind it", func() bool { return slices.Equal(d.of("k"), []string{"late", "behind"}) })
}
