package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
)

// A key that fails holds back those of the same account, parked or not, and no others.
func TestASubscriptionIsOrderedByAFunctionOfTheKey(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]time.Duration{"held": time.Hour, "parked": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rf := newSubscriptionOf(t, 1, admin.SubscriptionConfig{Order: api.OrderByFunction, Hold: hold, Retry: admin.Retry{Initial: 100 * time.Millisecond, Max: 100 * time.Millisecond}})
			for _, key := range []string{"a/1", "a/2", "b/1", "a/1", "b/2"} {
				send(t, rf, key, "x")
			}
			var d delivered
			done := make(chan struct{})
			fails := func(m *ringfence.Message) error {
				select {
				case <-done:
					return nil
				default:
				}
				if bytes.HasPrefix(m.Key, []byte("a/1")) {
					return errors.New("not yet")
				}
				return nil
			}
			subscribeWith(t, rf, "billing", d.handler(fails), &ringfence.SubscribeOptions{
				OrderBy: func(key []byte) []byte { account, _, _ := bytes.Cut(key, []byte("/")); return account },
			})
			eventually(t, "those of the other account", func() bool { return len(d.of("b/1"))+len(d.of("b/2")) == 2 })
			if hold < 0 {
				eventually(t, "the account to be parked", func() bool {
					why, err := rf.Admin().ExplainKey(t.Context(), "billing", []byte("a"))
					return err == nil && len(why.Blocked) == 1 && why.State == api.KeyParked
				})
			}
			if got := d.of("a/2"); len(got) != 0 {
				t.Errorf("%q came before one of its account that fails", got)
			}
			close(done)
			eventually(t, "the rest", func() bool { return len(d.of("a/1")) == 2 && len(d.of("a/2")) == 1 })
		})
	}
}

// What the journal says is the order, also for who takes over: the key of a record alone does not tell.
func TestWhatIsParkedKeepsTheOrderOfTheFunction(t *testing.T) {
	t.Parallel()
	rf := newSubscriptionOf(t, 1, admin.SubscriptionConfig{Order: api.OrderByFunction, Retry: admin.Retry{Initial: 1, Attempts: 1}, Hold: -1})
	info, err := rf.Admin().GetSubscription(t.Context(), "billing")
	if err != nil {
		t.Fatalf("%+v, %v; expected a format that older versions refuse", info, err)
	}
	long := strings.Repeat("x", 2000)
	byAccount := &ringfence.SubscribeOptions{OrderBy: func(key []byte) []byte {
		account, _, _ := bytes.Cut(key, []byte("/"))
		return append(account, long...)
	}}
	send(t, rf, "a/1", "bad")
	send(t, rf, "a/2", "1")
	var first, second delivered
	stop := subscribeWith(t, rf, "billing", first.handler(func(m *ringfence.Message) error { return errors.New(string(m.Value)) }), byAccount)
	letters := lettersOf(t, rf, 2, nil)
	if letters[0].KeyText() != "a/1" || letters[0].Status != api.Failed || letters[1].KeyText() != "a/2" || letters[1].Status == api.Failed {
		t.Fatalf("%+v; expected the second to wait behind the first", letters)
	}
	stop()
	send(t, rf, "a/3", "2")
	subscribeWith(t, rf, "billing", second.handler(fine), byAccount)
	lettersOf(t, rf, 3, nil)
	must(t, rf.Admin().EditDeadLetter(t.Context(), "billing", letters[0].ID, []byte("good")))
	eventually(t, "all of the account", func() bool { return len(second.of("a/3")) == 1 })
	if !slices.Equal(second.of("a/1"), []string{"good"}) || !slices.Equal(second.of("a/2"), []string{"1"}) {
		t.Errorf("%q and %q; expected the edited one, and what waited", second.of("a/1"), second.of("a/2"))
	}
}

func TestAnOrderByAFunctionNeedsTheFunction(t *testing.T) {
	t.Parallel()
	for order, by := range map[api.Order]func([]byte) []byte{
		api.OrderByFunction: nil,
		api.OrderByKey:      bytes.ToLower,
		api.OrderNone:       bytes.ToLower,
	} {
		rf := newSubscription(t, admin.SubscriptionConfig{Order: order})
		err := rf.Subscribe(t.Context(), "billing", func(context.Context, *ringfence.Message) error { return nil }, &ringfence.SubscribeOptions{OrderBy: by})
		if !errors.Is(err, ringfence.ErrInvalid) {
			t.Errorf("order %s: %v; expected ErrInvalid", order, err)
		}
	}
	c := admin.SubscriptionConfig{Topic: "orders", Order: api.OrderByFunction, Endpoint: admin.EndpointConfig{URL: "https://example.com/"}}
	if err := c.Validate("s"); !errors.Is(err, ringfence.ErrInvalid) {
		t.Errorf("with an endpoint: %v; expected ErrInvalid", err)
	}
}

// Without an order a failing record holds back no other of its key.
func TestWithoutAnOrderAFailingRecordHoldsBackNone(t *testing.T) {
	t.Parallel()
	rf := newSubscription(t, admin.SubscriptionConfig{Order: api.OrderNone, Hold: time.Hour, Retry: admin.Retry{Initial: time.Hour, Max: time.Hour}})
	send(t, rf, "k", "bad", "1", "2")
	var d delivered
	subscribe(t, rf, "billing", d.handler(func(m *ringfence.Message) error {
		if string(m.Value) == "bad" {
			return errors.New("not yet")
		}
		return nil
	}))
	eventually(t, "the others of the key", func() bool { return len(d.of("k")) == 2 })
}

// A filter in Go comes after that of the definition; what it can't judge, or panics at, is given up.
func TestAFilterInGoPassesOver(t *testing.T) {
	t.Parallel()
	rf := newSubscription(t, admin.SubscriptionConfig{Filter: `value != 0`, Retry: admin.Retry{Initial: time.Hour, Max: time.Hour, Attempts: 5}})
	for i, value := range []string{"0", "1", "2", "3", "4"} {
		send(t, rf, fmt.Sprint("k", i), value)
	}
	var d delivered
	subscribeWith(t, rf, "billing", d.handler(func(*ringfence.Message) error { return nil }), &ringfence.SubscribeOptions{
		Filter: func(m *ringfence.Message) (bool, error) {
			switch string(m.Value) {
			case "0":
				t.Error("asked about what the filter of the definition is false of")
			case "2":
				return false, errors.New("no idea")
			case "3":
				panic("no idea either")
			}
			return string(m.Value) == "4" && m.Topic == "orders" && string(m.Key) == "k4", nil
		},
	})
	eventually(t, "the one that is wanted", func() bool { return slices.Equal(d.of("k4"), []string{"4"}) })
	for i, l := range lettersOf(t, rf, 2, nil) {
		if want := []string{"2", "3"}[i]; l.Value != want || l.Status != api.Failed {
			t.Errorf("dead letter %d: %+v; expected %s", i, l, want)
		}
	}
	if len(d.of("k1")) != 0 {
		t.Error("what the filter is false of was delivered")
	}
}
