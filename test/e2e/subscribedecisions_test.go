package e2e_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
)

// What was decided, by which user and when, outlives reshards, growth, and the topics of the sets at which it was decided;
// also of a record that was parked. It goes with the subscription.
func TestDecisionsOutliveReshardsAndGrowth(t *testing.T) {
	t.Parallel()
	s := newStores()
	rf := s.open(t)
	must(t, rf.EnsureTopic(t.Context(), "a", ringfence.TopicConfig{Partitions: 4}))
	_, err := rf.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{
		Topic: "a", Retry: admin.Retry{Initial: time.Hour, Max: time.Hour, Attempts: 9}, Hold: -1,
	})
	must(t, err)
	var d delivered
	h := d.handler(func(m *ringfence.Message) error {
		switch string(m.Value) {
		case "bad":
			return ringfence.Permanent(errors.New("malformed"))
		case "later":
			return errors.New("not yet")
		}
		return nil
	})
	stop := subscribe(t, rf, "billing", h)
	for key, value := range map[string]string{"skipped": "bad", "redriven": "bad", "discarded": "later", "open": "bad"} {
		_, err := rf.Produce(t.Context(), "a", ringfence.Message{Key: []byte(key), Value: []byte(value)})
		must(t, err)
	}
	eventually(t, "what is given up and what is parked", func() bool {
		n, err := rf.Admin().CountBacklog(t.Context(), "billing")
		must(t, err)
		return n.Dead.Records == 3 && n.Parked.Records == 1
	})
	began := time.Now().Truncate(time.Millisecond)
	order := func(verb func(key string) (int, error), key string) {
		t.Helper()
		if n, err := verb(key); n != 1 || err != nil {
			t.Fatalf("%s: %d records, %v", key, n, err)
		}
	}
	of := func(key, by string) *admin.DeadLetterOptions {
		return &admin.DeadLetterOptions{Key: []byte(key), By: by}
	}
	order(func(key string) (int, error) {
		return rf.Admin().SkipDeadLetters(t.Context(), "billing", of(key, "ann@desk"))
	}, "skipped")
	order(func(key string) (int, error) {
		return rf.Admin().RedriveDeadLetters(t.Context(), "billing", of(key, "bob@desk"))
	}, "redriven")
	order(func(key string) (int, error) {
		return rf.Admin().DiscardDeadLetters(t.Context(), "billing", of(key, ""))
	}, "discarded")
	decided := func(when string) {
		t.Helper()
		var all []api.DeadLetter
		eventually(t, "what was decided, "+when, func() bool {
			all, err = rf.Admin().ListDeadLetters(t.Context(), "billing", &admin.DeadLetterOptions{Decided: true})
			must(t, err)
			return len(all) == 5 // that of "redriven" is a dead letter again
		})
		got := map[string]api.DeadLetter{}
		for _, l := range all {
			if l.DecidedAt != "" {
				got[l.KeyText()] = l
			}
		}
		for key, want := range map[string]api.DeadLetter{
			"skipped":   {Status: api.Skipped, Value: "bad", DecidedBy: "ann@desk", Answer: "malformed", Reason: "permanent", Attempts: 1},
			"redriven":  {Status: api.Redriven, Value: "bad", DecidedBy: "bob@desk", Answer: "malformed", Reason: "permanent", Attempts: 1},
			"discarded": {Status: api.Discarded, Value: "later", Answer: "not yet", Attempts: 1},
		} {
			l := got[key]
			if l.Status != want.Status || l.Value != want.Value || l.DecidedBy == "" || want.DecidedBy != "" && l.DecidedBy != want.DecidedBy || l.Answer != want.Answer ||
				l.Reason != want.Reason || l.Attempts != want.Attempts || l.Lost != "" || l.DecidedAt.Time().Before(began) {
				t.Errorf("%s, %s: %+v; expected %+v", when, key, l, want)
			}
		}
		if len(got) != 3 {
			t.Errorf("%s: %+v", when, all)
		}
	}
	decided("at once")
	_, err = rf.Admin().ReshardSubscription(t.Context(), "billing", 2, nil)
	must(t, err)
	turned(t, rf, "billing")
	decided("after a reshard")
	grow(t, rf, 3)
	follows(t, rf, "billing", 1)
	decided("after growth")
	rewrite(t, s, func(doc map[string]any) {
		for _, set := range doc["sets"].([]any)[:2] {
			set.(map[string]any)["since"] = time.Now().Add(-2 * time.Hour).UnixMilli()
		}
	})
	eventually(t, "that the topics of the first two sets go", func() bool {
		info, err := rf.Admin().GetSubscription(t.Context(), "billing")
		must(t, err)
		return len(info.Sets) == 2 && info.Sets[1].Storage == 1 // and the first, which has the ID
	})
	decided("when the topics of the sets are gone")
	stop()
	info, err := rf.Admin().GetSubscription(t.Context(), "billing")
	must(t, err)
	if topic, err := rf.Admin().DescribeTopic(t.Context(), info.Decisions); err != nil || topic.Retention.AgeMS != (30*24*time.Hour).Milliseconds() || topic.Retention.Bytes == 0 {
		t.Errorf("the decisions are kept as %+v, %v", topic, err)
	}
	must(t, rf.Admin().DeleteSubscription(t.Context(), "billing", &admin.DeleteSubscriptionOptions{Force: true}))
	if _, err := rf.Admin().DescribeTopic(t.Context(), info.Decisions); !errors.Is(err, ringfence.ErrNotFound) {
		t.Errorf("the decisions of a deleted subscription: %v", err)
	}
}

// During a reshard what is parked in the old set may have been handed over by the time the order comes, and not taken over
// yet: the new set gets the order too.
func TestARetryDuringAReshardReachesBothSets(t *testing.T) {
	t.Parallel()
	s, rf := reshardable(t, "")
	_, err := rf.Admin().AlterSubscription(t.Context(), "billing", func(c *admin.SubscriptionConfig) error {
		c.Retry = admin.Retry{Initial: time.Hour, Max: time.Hour, Attempts: 9}
		return nil
	}, nil)
	must(t, err)
	var d delivered
	stop := subscribe(t, rf, "billing", d.handler(func(*ringfence.Message) error { return errors.New("not yet") }))
	produceKeys(t, rf, "1")
	eventually(t, "what is parked", func() bool {
		n, err := rf.Admin().CountBacklog(t.Context(), "billing")
		must(t, err)
		return n.Parked.Records == 8
	})
	stop()
	_, err = rf.Admin().ReshardSubscription(t.Context(), "billing", 2, nil)
	must(t, err)
	info, err := rf.Admin().GetSubscription(t.Context(), "billing")
	must(t, err)
	journal := raw(t, s, rf, info.Set().Journal)
	n, err := rf.Admin().RetrySubscription(t.Context(), "billing", &admin.RetrySubscriptionOptions{IDs: []string{"0.0.0.0"}})
	if n != 1 || err != nil {
		t.Errorf("%d parked records, %v", n, err)
	}
	for shard := range 2 {
		if b, err := journal.Bounds(t.Context(), shard); err != nil || b.Next != 1 {
			t.Errorf("shard %d of the new set has %+v, %v; expected the order", shard, b, err)
		}
	}
	subscribe(t, rf, "billing", d.handler(fine))
	turned(t, rf, "billing")
	eventually(t, "the record", func() bool { return d.attempts() > 0 })
}
