package e2e_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	registrydriver "github.com/ringfence/ringfence/registry/driver"
)

// What a subscription has in its journals names records of its topic by their offsets, so none outlives the topic.

// The process that deletes a topic dies when it has said so, and a subscription came in that moment, which has parked
// some records and knows others to be finished. It would take the first records of the next topic of the name for those.
func TestNoTopicIsMadeAnewUnderASubscriptionOfTheLast(t *testing.T) {
	t.Parallel()
	s := newStores()
	rf := s.open(t)
	shape := ringfence.TopicConfig{Partitions: 1}
	must(t, rf.EnsureTopic(t.Context(), "orders", shape))
	produce(t, rf, "orders", 0, 3, 1)
	ctx, die := context.WithCancel(t.Context())
	defer die()
	begin := func() {
		_, err := rf.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{Topic: "orders"})
		must(t, err)
	}
	deleter := s.standing(t, &standing{before: marksDeleted, after: die, during: func() {
		begin()
		var d delivered
		stop := subscribe(t, rf, "billing", d.handler(func(m *ringfence.Message) error {
			if string(m.Value) == "1" {
				return ringfence.Permanent(nil)
			}
			return nil
		}))
		eventually(t, "the dead letter", func() bool {
			letters, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
			return err == nil && len(letters) == 2
		})
		stop()
	}})
	if err := deleter.Admin().DeleteTopic(ctx, "orders", &admin.DeleteTopicOptions{Force: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	for what, make := range map[string]func(context.Context, string, ringfence.TopicConfig) error{"ensured": rf.EnsureTopic, "created": func(ctx context.Context, name string, cfg ringfence.TopicConfig) error {
		return rf.Admin().CreateTopic(ctx, name, admin.TopicConfig(cfg), &admin.CreateTopicOptions{MustBeNew: true})
	}} {
		if err := make(t.Context(), "orders", shape); !errors.Is(err, ringfence.ErrConflict) || !strings.Contains(err.Error(), "billing") {
			t.Fatalf("the next topic is %s: %v", what, err)
		}
	}
	must(t, rf.Admin().DeleteSubscription(t.Context(), "billing", &admin.DeleteSubscriptionOptions{Force: true}))
	must(t, rf.EnsureTopic(t.Context(), "orders", shape))
	produce(t, rf, "orders", 0, 3, 1)
	begin()
	var d delivered
	subscribe(t, rf, "billing", d.handler(fine))
	eventually(t, "all of the next topic", func() bool { return slices.Equal(d.of("k0"), every(3, 1, 0)) })
}

// Who makes a subscription stood still while its topic ended. Where that began says nothing of the next one: records
// before it would be skipped.
func TestASubscriptionIsMadeOfTheTopicThatIsThere(t *testing.T) {
	t.Parallel()
	s := newStores()
	rf := s.open(t)
	grow := func() {
		_, err := rf.Admin().AddStorage(t.Context(), "orders", 1)
		must(t, err)
		_, err = rf.Admin().SwitchProduce(t.Context(), "orders")
		must(t, err)
	}
	must(t, rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 1}))
	grow()
	retired, err := rf.Admin().RetireStorage(t.Context(), "orders", nil)
	must(t, err)
	if len(retired.Retired) != 1 {
		t.Fatalf("%+v", retired)
	}
	maker := s.still(t, func(p registrydriver.Put) bool { return p.Key == "subscriptions/billing" }, func() {
		must(t, rf.Admin().DeleteTopic(t.Context(), "orders", nil))
		must(t, rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 1}))
		produce(t, rf, "orders", 0, 3, 1)
		grow()
		produce(t, rf, "orders", 3, 3, 1)
	})
	_, err = maker.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{Topic: "orders"})
	must(t, err)
	var d delivered
	subscribe(t, rf, "billing", d.handler(fine))
	eventually(t, "all records", func() bool { return slices.Equal(d.of("k0"), every(6, 1, 0)) })
}

// A subscription that is half made keeps its topic: who makes it goes on with that.
func TestATopicIsNotDeletedUnderASubscriptionThatIsBeingMade(t *testing.T) {
	t.Parallel()
	s, rf := newTopic(t, 1)
	produce(t, rf, "orders", 0, 3, 1)
	ready := func(p registrydriver.Put) bool {
		return p.Key == "subscriptions/billing" && strings.Contains(string(p.Value), `"state":"ready"`)
	}
	maker := s.still(t, ready, func() {
		if err := rf.Admin().DeleteTopic(t.Context(), "orders", &admin.DeleteTopicOptions{Force: true}); !errors.Is(err, ringfence.ErrConflict) {
			t.Errorf("the deletion ended with %v", err)
		}
		if all, err := rf.Admin().ListSubscriptions(t.Context()); err != nil || len(all) > 0 {
			t.Errorf("there are %+v, %v", all, err)
		}
	})
	_, err := maker.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{Topic: "orders"})
	must(t, err)
	var d delivered
	subscribe(t, rf, "billing", d.handler(fine))
	eventually(t, "all records", func() bool { return slices.Equal(d.of("k0"), every(3, 1, 0)) })
}
