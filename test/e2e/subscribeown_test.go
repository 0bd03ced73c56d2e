package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/topic"
)

// forged is a definition that a stranger wrote: its set has the names of topics that are not its own.
func forged(state string) string {
	return fmt.Sprintf(`{"format":1,"name":"billing","state":%q,"topic":"orders","order":"key","from":"earliest",`+
		`"retry":{"initial_ms":1,"max_ms":1,"hold_ms":1,"max_attempts":1},"dead_letters":"block",`+
		`"sets":[{"set":0,"id":"abcdefg2","shards":1,"state":"active"}],"created":1}`, state)
}

func TestASetOfAnotherSizeThanItsTopicsIsDamaged(t *testing.T) {
	t.Parallel()
	s, rf := newTopic(t, 1)
	ctx := t.Context()
	for _, kind := range []string{"retry", "dead"} {
		must(t, ensureInternal(ctx, rf, "billing.abcdefg2."+kind, `subscription "billing"`))
	}
	forge(t, s, "subscriptions/billing", strings.Replace(forged("ready"), `"shards":1`, `"shards":4096`, 1))
	if _, err := rf.Admin().ListDeadLetters(ctx, "billing", nil); !errors.Is(err, ringfence.ErrCorrupt) || !strings.Contains(err.Error(), "--force") {
		t.Errorf("a listing: %v; expected ErrCorrupt and what to do", err)
	}
	short, stop := context.WithTimeout(ctx, time.Minute) // it ends at once
	defer stop()
	err := rf.Subscribe(short, "billing", func(context.Context, *ringfence.Message) error { return nil }, nil)
	if !errors.Is(err, ringfence.ErrCorrupt) {
		t.Errorf("a member: %v; expected ErrCorrupt", err)
	}
	must(t, rf.Admin().DeleteSubscription(ctx, "billing", &admin.DeleteSubscriptionOptions{Force: true}))
	if have := s.of(t, "billing"); len(have) > 0 {
		t.Errorf("there is still %q", have)
	}
}

// What a subscription writes down would come to it again, to be written down again.
func TestWhatBelongsToASubscriptionIsNotDeliveredByOne(t *testing.T) {
	t.Parallel()
	_, rf := parked(t)
	ctx := t.Context()
	info, err := rf.Admin().GetSubscription(ctx, "billing")
	must(t, err)
	for _, name := range []string{info.Set().Journal, info.Set().DeadTopic, info.Decisions} {
		_, err := rf.Admin().CreateSubscription(ctx, "again", admin.SubscriptionConfig{Topic: name})
		if !errors.Is(err, ringfence.ErrConflict) || !strings.Contains(err.Error(), `a part of subscription "billing"`) {
			t.Errorf("create: %v; expected ErrConflict and whose the topic is", err)
		}
	}
}

func TestSubscribeRefusesMoreShardsThanPartitions(t *testing.T) {
	t.Parallel()
	s, rf := newTopic(t, 2)
	ctx := t.Context()
	for _, kind := range []string{"retry", "dead", "decided"} {
		must(t, ensureInternal(ctx, rf, "billing.abcdefg2."+kind, `subscription "billing"`))
	}
	forge(t, s, "subscriptions/billing", strings.Replace(forged("ready"), `"shards":1`, `"shards":3`, 1)) // a rotten digit
	short, stop := context.WithTimeout(ctx, time.Minute)                                                  // it ends at once
	defer stop()
	err := rf.Subscribe(short, "billing", func(context.Context, *ringfence.Message) error { return nil }, nil)
	if !errors.Is(err, ringfence.ErrCorrupt) || !strings.Contains(err.Error(), `"orders"`) {
		t.Errorf("a member: %v; expected ErrCorrupt and the topic", err)
	}
}

// ensureInternal makes a topic that is a part of something, as messages name it.
func ensureInternal(ctx context.Context, rf *ringfence.Client, name, owner string) error {
	_, err := topic.NewCatalog(rf.Log(), rf.Registry(), rf.Namespace()).Ensure(ctx, name, topic.Config{Partitions: 1, Internal: owner})
	return err
}
