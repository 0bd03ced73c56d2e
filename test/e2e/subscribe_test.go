package e2e_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
)

// delivered notes what a handler of a subscription was given and what it took.
type delivered struct {
	mu    sync.Mutex
	taken map[string][]string // values by key, in order
	tries map[string]int      // by value
	cured bool
}

// handler refuses the values that bad says, until they are cured.
func (d *delivered) handler(bad func(m *ringfence.Message) error) ringfence.Handler {
	d.taken, d.tries = map[string][]string{}, map[string]int{}
	return func(_ context.Context, m *ringfence.Message) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.tries[string(m.Value)]++
		if err := bad(m); err != nil && !d.cured {
			return err
		}
		d.taken[string(m.Key)] = append(d.taken[string(m.Key)], string(m.Value))
		return nil
	}
}

func (d *delivered) cure() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cured = true
}

func (d *delivered) of(key string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.taken[key])
}

func (d *delivered) attempts() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range d.tries {
		n += k
	}
	return n
}

// subscribe runs a member until the test ends or stop is called.
func subscribe(t *testing.T, rf *ringfence.Client, name string, h ringfence.Handler) (stop func()) {
	t.Helper()
	return subscribeWith(t, rf, name, h, nil)
}

func subscribeWith(t *testing.T, rf *ringfence.Client, name string, h ringfence.Handler, opts *ringfence.SubscribeOptions) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- rf.Subscribe(ctx, name, h, opts) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-over; err != nil {
			t.Errorf("Subscribe returned %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func every(n, keys, key int) []string {
	var out []string
	for i := key; i < n; i += keys {
		out = append(out, fmt.Sprint(i))
	}
	return out
}

func newSubscription(t *testing.T, c admin.SubscriptionConfig) *ringfence.Client {
	t.Helper()
	return newSubscriptionOf(t, 2, c)
}

// newSubscriptionOf is newSubscription of a topic of so many partitions.
func newSubscriptionOf(t *testing.T, partitions int, c admin.SubscriptionConfig) *ringfence.Client {
	t.Helper()
	_, rf := newTopic(t, partitions)
	c.Topic = "orders"
	_, err := rf.Admin().CreateSubscription(t.Context(), "billing", c)
	must(t, err)
	return rf
}

func TestAPoisonRecordBlocksItsKeyUntilItIsRedriven(t *testing.T) {
	t.Parallel()
	rf := newSubscription(t, admin.SubscriptionConfig{Retry: admin.Retry{Initial: 5 * time.Millisecond, Max: 5 * time.Millisecond, Attempts: 3}, Hold: -1})
	produce(t, rf, "orders", 0, 60, 6)
	var d delivered
	h := d.handler(func(m *ringfence.Message) error {
		if string(m.Value) == "12" {
			return errors.New("boom")
		}
		return nil
	})
	stop := subscribe(t, rf, "billing", h)
	eventually(t, "the other keys", func() bool {
		for k := 1; k < 6; k++ {
			if len(d.of(fmt.Sprintf("k%d", k))) < 10 {
				return false
			}
		}
		return true
	})
	var letters []api.DeadLetter
	eventually(t, "the dead letter and what waits behind it", func() bool {
		var err error
		if letters, err = rf.Admin().ListDeadLetters(t.Context(), "billing", nil); err != nil {
			t.Fatal(err)
		}
		return len(letters) == 8
	})
	for i, l := range letters {
		if l.KeyText() != "k0" || l.Value != fmt.Sprint(12+6*i) || l.Status == api.Failed != (i == 0) {
			t.Errorf("letter %d: %s %s, failed: %t", i, l.KeyText(), l.Value, l.Status == api.Failed)
		}
	}
	if l := letters[0]; l.Attempts != 3 || l.Reason != "attempts" || l.Answer != "boom" {
		t.Errorf("the dead letter: %+v", l)
	}
	answer, err := rf.Admin().ExplainKey(t.Context(), "billing", []byte("k0"))
	must(t, err)
	if why := answer.Blocked; answer.State != api.KeyDead || len(why) != 1 || why[0].Status != "failed" || why[0].ID != letters[0].ID || why[0].Followers+1 != 8 || why[0].Attempts != 3 || why[0].Answer != "boom" || why[0].Owner == "" || why[0].Epoch == 0 {
		t.Errorf("why: %+v", answer)
	}
	if why, err := rf.Admin().ExplainKey(t.Context(), "billing", []byte("k1")); err != nil || len(why.Blocked) > 0 {
		t.Errorf("why of a key that goes on: %+v, %v", why, err)
	}
	if got := d.of("k0"); !slices.Equal(got, []string{"0", "6"}) {
		t.Errorf("of the blocked key %v were delivered", got)
	}
	stop() // an heir finds it all in the journal
	subscribe(t, rf, "billing", h)
	produce(t, rf, "orders", 60, 6, 6)
	eventually(t, "another record behind it", func() bool {
		letters, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
		return err == nil && len(letters) == 9
	})
	d.cure()
	if n, err := rf.Admin().RedriveDeadLetters(t.Context(), "billing", &admin.DeadLetterOptions{Key: []byte("k0")}); n != 1 || err != nil {
		t.Fatalf("redriven: %d, %v", n, err)
	}
	eventually(t, "the rest of each key", func() bool {
		for k := range 6 {
			if len(d.of(fmt.Sprintf("k%d", k))) < 11 {
				return false
			}
		}
		return true
	})
	for k := range 6 {
		if got, want := d.of(fmt.Sprintf("k%d", k)), every(66, 6, k); !slices.Equal(got, want) {
			t.Errorf("k%d: %v; want %v", k, got, want)
		}
	}
	eventually(t, "no dead letter", func() bool {
		letters, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
		return err == nil && len(letters) == 0
	})
}

func TestAPermanentErrorIsADeadLetterAtOnceThatMayBeSkipped(t *testing.T) {
	t.Parallel()
	rf := newSubscription(t, admin.SubscriptionConfig{DeadLetters: api.SkipRecord})
	produce(t, rf, "orders", 0, 20, 2)
	var d delivered
	subscribe(t, rf, "billing", d.handler(func(m *ringfence.Message) error {
		if string(m.Value) == "4" {
			return ringfence.Permanent(errors.New("malformed"))
		}
		return nil
	}))
	eventually(t, "the others", func() bool { return len(d.of("k0")) == 9 && len(d.of("k1")) == 10 })
	letters, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
	if err != nil || len(letters) != 1 || letters[0].Reason != "permanent" || letters[0].Attempts != 1 {
		t.Fatalf("letters: %+v, %v", letters, err)
	}
	if n, err := rf.Admin().DiscardDeadLetters(t.Context(), "billing", &admin.DeadLetterOptions{IDs: []string{letters[0].ID}}); n != 1 || err != nil {
		t.Fatalf("discarded: %d, %v", n, err)
	}
	eventually(t, "no dead letter", func() bool {
		letters, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
		return err == nil && len(letters) == 0
	})
	if _, err := rf.Admin().RedriveDeadLetters(t.Context(), "billing", &admin.DeadLetterOptions{IDs: []string{letters[0].ID}}); !errors.Is(err, ringfence.ErrConflict) {
		t.Errorf("a redrive of what is gone: %v", err)
	}
}

func TestASubscriptionKeepsItsTopicAndOrder(t *testing.T) {
	t.Parallel()
	rf := newSubscription(t, admin.SubscriptionConfig{})
	for _, c := range []struct {
		cfg  admin.SubscriptionConfig
		want error
	}{
		{admin.SubscriptionConfig{Topic: "orders", Retry: admin.Retry{Attempts: 7}}, nil},
		{admin.SubscriptionConfig{Topic: "orders", Order: api.OrderNone}, ringfence.ErrExists},
		{admin.SubscriptionConfig{Topic: "orders", DeadLetters: "burn"}, ringfence.ErrInvalid},
	} {
		if _, err := rf.Admin().CreateSubscription(t.Context(), "billing", c.cfg); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v; want %v", c.cfg, err, c.want)
		}
	}
	if err := rf.Subscribe(t.Context(), "mails", func(context.Context, *ringfence.Message) error { return nil }, nil); !errors.Is(err, ringfence.ErrNotFound) {
		t.Errorf("an unknown subscription: %v", err)
	}
}

func TestASubscriptionsGroupAndTopicsAreNotTouchedUnderIt(t *testing.T) {
	t.Parallel()
	rf := newSubscription(t, admin.SubscriptionConfig{})
	produce(t, rf, "orders", 0, 4, 2)
	var d delivered
	stop := subscribe(t, rf, "billing", d.handler(func(*ringfence.Message) error { return nil }))
	eventually(t, "all", func() bool { return len(d.of("k0"))+len(d.of("k1")) == 4 })
	stop()
	info, err := rf.Admin().GetSubscription(t.Context(), "billing")
	must(t, err)
	to, err := ringfence.ParseSeek("earliest")
	must(t, err)
	for what, err := range map[string]error{
		"seek": func() error {
			_, err := rf.Admin().SeekGroup(t.Context(), info.Group(), to, nil)
			return err
		}(),
		"delete of the group":   rf.Admin().DeleteGroup(t.Context(), info.Group(), nil),
		"delete of the topic":   rf.Admin().DeleteTopic(t.Context(), "orders", &admin.DeleteTopicOptions{Force: true}),
		"delete of the journal": rf.Admin().DeleteTopic(t.Context(), info.Set().Journal, nil),
		"delete of the copies":  rf.Admin().DeleteTopic(t.Context(), info.Set().DeadTopic, nil),
	} {
		if !errors.Is(err, ringfence.ErrConflict) {
			t.Errorf("%s: %v; want ErrConflict", what, err)
		}
	}
	// Those of others are as before.
	must(t, rf.EnsureTopic(t.Context(), "mails", ringfence.TopicConfig{Partitions: 1}))
	must(t, rf.Admin().DeleteTopic(t.Context(), "mails", nil))
}

func TestTheJournalDoesNotGrowForEver(t *testing.T) {
	t.Parallel()
	_, rf := newTopic(t, 1)
	_, err := rf.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{Topic: "orders", Retry: admin.Retry{Initial: time.Millisecond, Max: time.Millisecond}, Hold: -1})
	must(t, err)
	var d delivered
	h := d.handler(func(m *ringfence.Message) error {
		switch {
		case string(m.Value) == "0":
			return ringfence.Permanent(errors.New("malformed"))
		case m.Attempt == 1:
			return errors.New("not at first")
		}
		return nil
	})
	stop := subscribe(t, rf, "billing", h)
	info, err := rf.Admin().GetSubscription(t.Context(), "billing")
	must(t, err)
	dropped := func() bool {
		j, err := rf.Admin().DescribeTopic(t.Context(), info.Set().Journal)
		must(t, err)
		return j.Storage[0].Partitions[0].First > 0
	}
	// The dead letter is at the journal's beginning, and those behind it wait for it there.
	produce(t, rf, "orders", 0, 1, 1)
	others := func() (n int) {
		for k := range 7 {
			n += len(d.of(fmt.Sprintf("other%d", k)))
		}
		return n
	}
	sent, waiting := 1, 1
	eventually(t, "the journal's beginning was dropped", func() bool {
		for range 100 {
			m := ringfence.Message{Key: fmt.Appendf(nil, "other%d", sent%7), Value: fmt.Append(nil, sent)}
			_, err := rf.Produce(t.Context(), "orders", m)
			must(t, err)
			sent++
		}
		produce(t, rf, "orders", sent, 1, 1)
		sent++
		eventually(t, "all of the other keys", func() bool { return others() == sent-1-waiting })
		waiting++
		return dropped()
	})
	stop()
	d.cure()
	subscribe(t, rf, "billing", h) // an heir knows of it all the same
	letters, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
	must(t, err)
	if len(letters) == 0 || letters[0].Value != "0" || letters[0].Status != api.Failed {
		t.Fatalf("the letters are %+v", letters)
	}
	n, err := rf.Admin().RedriveDeadLetters(t.Context(), "billing", nil)
	if n != 1 || err != nil {
		t.Errorf("redriven: %d, %v", n, err)
	}
	eventually(t, "all", func() bool { return len(d.of("k0"))+others() == sent })
	if got := d.of("k0"); got[0] != "0" || !slices.IsSortedFunc(got, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }) {
		t.Errorf("of its key %v", got)
	}
}
