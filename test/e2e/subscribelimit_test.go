package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
)

// counted notes what the members of a subscription do, each by its name.
type counted struct {
	mu      sync.Mutex
	begun   map[string]int
	running int
	most    int
	keys    map[string][]string
}

// handler is that of a member; each attempt takes so long, and then fails or not.
func (c *counted) handler(member string, long time.Duration, fails func(m *ringfence.Message) bool) ringfence.Handler {
	return func(ctx context.Context, m *ringfence.Message) error {
		c.mu.Lock()
		c.begun[member]++
		c.running++
		c.most = max(c.most, c.running)
		c.mu.Unlock()
		time.Sleep(long)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.running--
		if fails != nil && fails(m) {
			return errors.New("no")
		}
		c.keys[string(m.Key)] = append(c.keys[string(m.Key)], string(m.Value))
		return nil
	}
}

// since is what each member began since it was asked last, and how many were under way at once.
func (c *counted) since() (begun map[string]int, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	begun, most = c.begun, c.most
	c.begun, c.most = map[string]int{}, 0
	return begun, most
}

// limited is a subscription of eight partitions with a backlog, in a bubble.
func limited(t *testing.T, n, keys int, c admin.SubscriptionConfig) (*stores, *ringfence.Client, *counted) {
	t.Helper()
	s := newStores()
	rf := s.open(t)
	must(t, rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 8}))
	c.Topic = "orders"
	_, err := rf.Admin().CreateSubscription(t.Context(), "billing", c)
	must(t, err)
	produce(t, rf, "orders", 0, n, keys)
	return s, rf, &counted{begun: map[string]int{}, keys: map[string][]string{}}
}

func within(t *testing.T, what string, got, low, high int) {
	t.Helper()
	if got < low || got > high {
		t.Errorf("%s: %d; expected %d to %d", what, got, low, high)
	}
}

func TestTheMembersShareTheRateOfASubscription(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, keys = 12000, 64
		s, rf, c := limited(t, n, keys, admin.SubscriptionConfig{Rate: 100})
		stopA := subscribe(t, rf, "billing", c.handler("a", 0, nil))
		time.Sleep(10 * time.Second)
		begun, _ := c.since()
		within(t, "alone, in 10 s", begun["a"], 950, 1011)

		stopB := subscribe(t, s.open(t), "billing", c.handler("b", 0, nil))
		time.Sleep(5 * time.Second) // they share the shards out
		c.since()
		time.Sleep(10 * time.Second)
		begun, _ = c.since()
		within(t, "the first of two", begun["a"], 450, 550)
		within(t, "the second", begun["b"], 450, 550)
		within(t, "both", begun["a"]+begun["b"], 950, 1011)

		stopB()
		time.Sleep(5 * time.Second)
		c.since()
		time.Sleep(10 * time.Second)
		begun, _ = c.since()
		within(t, "who is left", begun["a"], 950, 1011)

		_, err := rf.Admin().ReshardSubscription(t.Context(), "billing", 3, nil)
		must(t, err)
		time.Sleep(10 * time.Second)
		begun, _ = c.since()
		within(t, "while the shards turn", begun["a"], 850, 1011)

		_, err = limit(t, rf, "billing", api.Limits{Rate: 10})
		must(t, err)
		time.Sleep(2 * time.Second)
		c.since()
		time.Sleep(10 * time.Second)
		begun, _ = c.since()
		within(t, "at a tenth of it", begun["a"], 90, 102)

		d, err := limit(t, rf, "billing", api.Limits{Rate: noLimit})
		must(t, err)
		if d.Limits != nil {
			t.Errorf("the limits are %+v", d.Limits)
		}
		time.Sleep(5 * time.Second)
		c.mu.Lock()
		for k := range keys {
			if got := c.keys[fmt.Sprintf("k%d", k)]; !slices.Equal(got, every(n, keys, k)) {
				t.Errorf("of k%d %d were delivered, or not in order", k, len(got))
			}
		}
		c.mu.Unlock()
		stopA()
	})
}

const noLimit = -1

// limit changes the limits that are named; noLimit ends one.
func limit(t *testing.T, rf *ringfence.Client, name string, to api.Limits) (*api.Subscription, error) {
	t.Helper()
	return rf.Admin().AlterSubscription(t.Context(), name, func(c *admin.SubscriptionConfig) error {
		for at, n := range map[*int]int{&c.Rate: to.Rate, &c.Concurrency: to.Concurrency} {
			switch n {
			case 0:
			case noLimit:
				*at = 0
			default:
				*at = n
			}
		}
		return nil
	}, nil)
}

func TestLimitsThatCannotBeAreRefusedWithWhatToDo(t *testing.T) {
	t.Parallel()
	rf := newSubscription(t, admin.SubscriptionConfig{Rate: 7, Concurrency: 2})
	for _, l := range []api.Limits{{Rate: -2}, {Rate: 10_000_001}, {Concurrency: -7}, {Concurrency: 1}, {Concurrency: 1<<20 + 1}} {
		if _, err := limit(t, rf, "billing", l); !errors.Is(err, ringfence.ErrInvalid) {
			t.Errorf("%+v: %v", l, err)
		}
		cfg := admin.SubscriptionConfig{Topic: "orders", Rate: l.Rate, Concurrency: l.Concurrency}
		if _, err := rf.Admin().CreateSubscription(t.Context(), "another", cfg); !errors.Is(err, ringfence.ErrInvalid) {
			t.Errorf("made with %+v: %v", l, err)
		}
	}
	_, err := limit(t, rf, "nowhere", api.Limits{Rate: 1})
	if !errors.Is(err, ringfence.ErrNotFound) {
		t.Errorf("of none: %v", err)
	}
	_, err = rf.Admin().ReshardSubscription(t.Context(), "billing", 1, nil)
	must(t, err)
	d, err := rf.Admin().GetSubscription(t.Context(), "billing")
	if must(t, err); *d.Limits != (api.Limits{Rate: 7, Concurrency: 2}) {
		t.Errorf("%+v, %+v", d, d.Limits)
	}
}

func TestMoreShardsThanTheConcurrencyHasAreRefused(t *testing.T) {
	t.Parallel()
	rf := newSubscription(t, admin.SubscriptionConfig{Shards: 1, Concurrency: 1})
	if _, err := rf.Admin().ReshardSubscription(t.Context(), "billing", 2, nil); !errors.Is(err, ringfence.ErrInvalid) {
		t.Errorf("two shards: %v", err)
	}
}

// Records that fail for ever are always due, and there are always new ones: neither keeps the rate for itself. In a
// pause none of them is tried.
func TestWhatIsParkedAndWhatIsNewTakeTurnsAtARate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, keys = 2000, 40
		_, rf, c := limited(t, n, keys, admin.SubscriptionConfig{Rate: 5, Hold: -1, Retry: admin.Retry{Initial: time.Second, Max: time.Second, Attempts: 1000}})
		first, again := 0, 0
		fails := func(m *ringfence.Message) bool {
			if m.Attempt > 1 {
				again++
			} else {
				first++
			}
			return m.Key[len(m.Key)-1]%2 == 0 // every other key
		}
		stop := subscribe(t, rf, "billing", c.handler("a", 0, fails))
		time.Sleep(30 * time.Second)
		c.mu.Lock()
		first, again = 0, 0
		c.mu.Unlock()
		time.Sleep(60 * time.Second)
		c.mu.Lock()
		within(t, "new ones in a minute", first, 50, 250)
		within(t, "parked ones in a minute", again, 50, 250)
		c.mu.Unlock()
		_, err := rf.Admin().PauseSubscription(t.Context(), "billing", nil)
		must(t, err)
		time.Sleep(5 * time.Second)
		c.since()
		time.Sleep(time.Minute)
		if begun, _ := c.since(); begun["a"] != 0 {
			t.Errorf("%d were tried in a pause", begun["a"])
		}
		stop()
	})
}

func TestTheMembersShareTheConcurrencyOfASubscription(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// A record in eight fails twice, and is parked at once.
		_, rf, c := limited(t, 30000, 256, admin.SubscriptionConfig{Concurrency: 20, Hold: -1, Retry: admin.Retry{Initial: 100 * time.Millisecond, Attempts: 1000}})
		failed := map[string]int{}
		fails := func(m *ringfence.Message) bool {
			failed[string(m.Value)]++
			return m.Value[len(m.Value)-1]%8 == 0 && failed[string(m.Value)] < 3
		}
		stop := subscribe(t, rf, "billing", c.handler("a", 10*time.Millisecond, fails))
		measure := func(what string, most int) {
			t.Helper()
			time.Sleep(time.Second)
			c.since()
			time.Sleep(time.Second)
			if _, got := c.since(); got != most {
				t.Errorf("%s: %d under way at once; expected %d", what, got, most)
			}
		}
		measure("as it was made", 20)
		for _, l := range []api.Limits{{Concurrency: 9}, {Concurrency: 64}, {Rate: 5000}, {Concurrency: 8}} {
			_, err := limit(t, rf, "billing", l)
			must(t, err)
			if l.Concurrency > 0 {
				measure(fmt.Sprint(l), l.Concurrency)
			}
		}
		_, err := limit(t, rf, "billing", api.Limits{Concurrency: noLimit})
		must(t, err)
		time.Sleep(time.Second)
		if _, got := c.since(); got < 100 {
			t.Errorf("without a bound %d were under way at once", got)
		}
		stop()
	})
}
