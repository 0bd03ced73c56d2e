package e2e_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
)

func alter(t *testing.T, rf *ringfence.Client, change func(*admin.SubscriptionConfig)) {
	t.Helper()
	_, err := rf.Admin().AlterSubscription(t.Context(), "billing", func(c *admin.SubscriptionConfig) error { change(c); return nil }, nil)
	must(t, err)
}

// All settings change again and again under load, while keys fail and members come and go: no record is lost, and each
// key comes in order.
func TestAlteredSubscriptionLosesAndReordersNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const records, keys = 4000, 40
		s, rf := newTopic(t, 4)
		_, err := rf.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{
			Topic: "orders", Retry: admin.Retry{Initial: 10 * time.Millisecond, Max: time.Second, Attempts: 1000},
		})
		must(t, err)
		var d delivered
		h := d.handler(func(*ringfence.Message) error {
			if rand.N(4) == 0 {
				return errors.New("not yet")
			}
			return nil
		})
		subscribe(t, rf, "billing", h)
		stop := subscribe(t, s.open(t), "billing", h)
		for i := range 40 {
			produce(t, rf, "orders", i*records/40, records/40, keys)
			alter(t, rf, func(c *admin.SubscriptionConfig) {
				c.Retry = admin.Retry{Initial: time.Duration(1+rand.N(50)) * time.Millisecond, Max: time.Duration(1+rand.N(5)) * time.Second, Attempts: 500 + rand.N(1000)}
				c.Hold = []time.Duration{-time.Millisecond, 10 * time.Millisecond, time.Second}[rand.N(3)]
				c.DeadLetters = []api.DeadLetterPolicy{api.BlockKey, api.SkipRecord, api.DropRecord}[rand.N(3)]
				c.Filter = []string{"", `key != "x"`, "partition >= 0"}[rand.N(3)]
				c.Concurrency = []int{0, 4, 64}[rand.N(3)]
			})
			time.Sleep(time.Duration(rand.N(2000)) * time.Millisecond)
			if i == 20 {
				stop()
				subscribe(t, s.open(t), "billing", h)
			}
		}
		d.cure()
		time.Sleep(5 * time.Minute)
		for k := range keys {
			if got, want := d.of(fmt.Sprint("k", k)), every(records, keys, k); !slices.Equal(got, want) {
				t.Errorf("of k%d came %v; expected %v", k, got, want)
			}
		}
	})
}

// An attempt is judged, and a record filtered, by the definition of that moment, whether the record is parked or not.
func TestAlteredSubscriptionJudgesByItsNewSettings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const pause = 10 * time.Second
		rf := newSubscription(t, admin.SubscriptionConfig{Retry: admin.Retry{Initial: pause, Max: pause, Attempts: 3}, Hold: -1})
		var d delivered
		subscribe(t, rf, "billing", d.handler(func(m *ringfence.Message) error {
			if m.Offset >= 0 && strings.HasPrefix(string(m.Key), "bad") {
				return errors.New("boom")
			}
			return nil
		}))
		put := func(key string, values ...string) {
			for _, v := range values {
				_, err := rf.Produce(t.Context(), "orders", ringfence.Message{Key: []byte(key), Value: []byte(v)})
				must(t, err)
			}
		}
		put("bad1", "a", "b")
		put("bad2", "c", "d")
		time.Sleep(time.Second)

		alter(t, rf, func(c *admin.SubscriptionConfig) { c.Retry.Attempts = 20 })
		time.Sleep(4 * pause)
		list, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
		if must(t, err); len(list) != 0 || d.tried("a") < 4 {
			t.Errorf("after %d attempts of 20 there are %d dead letters", d.tried("a"), len(list))
		}
		alter(t, rf, func(c *admin.SubscriptionConfig) { c.Retry.Attempts, c.DeadLetters = 2, api.SkipRecord })
		time.Sleep(5 * pause)
		list, err = rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
		if must(t, err); len(list) != 4 || list[0].Attempts != d.tried("a") || d.tried("b") != 2 {
			t.Errorf("with 2 attempts, and without blocking: %+v", list)
		}

		put("bad3", "e", "f")
		time.Sleep(pause / 4)
		alter(t, rf, func(c *admin.SubscriptionConfig) { c.Filter = `key != "bad3"` })
		time.Sleep(2 * pause)
		put("bad3", "g")
		time.Sleep(2 * pause)
		b, err := rf.Admin().CountBacklog(t.Context(), "billing")
		if must(t, err); b.Parked.Records != 0 || b.Dead.Records != 4 || d.tried("e") != 1 || d.tried("f")+d.tried("g") != 0 {
			t.Errorf("what the filter is false of by now: %+v, tried %d, %d and %d times", b, d.tried("e"), d.tried("f"), d.tried("g"))
		}
	})
}

// Also of a record that a member holds in memory.
func TestAlteredSubscriptionJudgesWhatItHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rf := newSubscription(t, admin.SubscriptionConfig{Retry: admin.Retry{Initial: 10 * time.Second, Max: 10 * time.Second, Attempts: 100}, Hold: 2 * time.Hour})
		var d delivered
		subscribe(t, rf, "billing", d.handler(func(*ringfence.Message) error { return errors.New("boom") }))
		produce(t, rf, "orders", 0, 1, 1)
		time.Sleep(time.Second)
		alter(t, rf, func(c *admin.SubscriptionConfig) { c.Retry.Attempts = 2 })
		time.Sleep(time.Minute)
		if list, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil); err != nil || len(list) != 1 || list[0].Attempts != 2 {
			t.Errorf("%+v, %v; expected a dead letter after 2 attempts", list, err)
		}
	})
}

func (d *delivered) tried(value string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tries[value]
}

func TestAlterRefusesWhatNeverChangesWithWhatToDo(t *testing.T) {
	t.Parallel()
	rf := newSubscription(t, admin.SubscriptionConfig{})
	for want, change := range map[string]func(*admin.SubscriptionConfig){
		`delivers topic "orders"`:                   func(c *admin.SubscriptionConfig) { c.Topic = "others" },
		"another subscription is ordered by none":   func(c *admin.SubscriptionConfig) { c.Order = api.OrderNone },
		"subscription reset billing --to latest":    func(c *admin.SubscriptionConfig) { c.From = api.Latest },
		"subscription reshard billing --shards 1\"": func(c *admin.SubscriptionConfig) { c.Shards = 1 },
	} {
		_, err := rf.Admin().AlterSubscription(t.Context(), "billing", func(c *admin.SubscriptionConfig) error { change(c); return nil }, nil)
		if !errors.Is(err, ringfence.ErrConflict) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "delete") {
			t.Errorf("%v; expected a conflict with %q", err, want)
		}
	}
	d, err := rf.Admin().GetSubscription(t.Context(), "billing")
	must(t, err)
	_, err = rf.Admin().AlterSubscription(t.Context(), "billing", func(*admin.SubscriptionConfig) error { return nil }, &admin.AlterSubscriptionOptions{ID: "another1"})
	if !errors.Is(err, ringfence.ErrConflict) {
		t.Errorf("of another ID than %s: %v", d.ID, err)
	}
}
