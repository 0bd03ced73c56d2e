package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/topic"
)

// forged is a definition that a stranger wrote: its set has the names of topics that are not its own.
func forged(state string) string {
	return fmt.Sprintf(`{"format":1,"name":"billing","state":%q,"topic":"orders","order":"key","from":"earliest",`+
		`"retry":{"initial_ms":1,"max_ms":1,"hold_ms":1,"max_attempts":1},"dead_letters":"block",`+
		`"sets":[{"set":0,"id":"abcdefg2","shards":1,"state":"active"}],"created":1}`, state)
}

// ofOthers makes topics that go by the names of a subscription's, each with ten records, and returns what
// tells whether they are as they were.
func ofOthers(t *testing.T, s *stores, rf *ringfence.Client) (untouched func(after string)) {
	t.Helper()
	ctx := t.Context()
	lives := map[string]string{}
	for name, owner := range map[string]string{"billing.abcdefg2.retry": "", "billing.abcdefg2.dead": `subscription "other"`} {
		must(t, ensureInternal(ctx, rf, name, owner))
		info, err := rf.Admin().DescribeTopic(ctx, name)
		must(t, err)
		lives[name] = info.ID
		recs := slices.Repeat([]commitlog.Record{{Value: []byte("v")}}, 10)
		_, err = raw(t, s, rf, name).Append(ctx, 0, recs, nil)
		must(t, err)
	}
	return func(after string) {
		t.Helper()
		for name, life := range lives {
			info, err := rf.Admin().DescribeTopic(ctx, name)
			if err != nil || info.ID != life {
				t.Errorf("after %s topic %s is %+v, %v; expected life %s", after, name, info, err, life)
				continue
			}
			if p := info.Storage[0].Partitions[0]; p.First != 0 || p.Next != 10 {
				t.Errorf("after %s topic %s has records %d to %d; expected 0 to 10", after, name, p.First, p.Next)
			}
		}
	}
}

func TestASubscriptionTouchesNoTopicThatOnlyItsDefinitionNames(t *testing.T) {
	t.Parallel()
	force := &admin.DeleteSubscriptionOptions{Force: true}
	for _, state := range []string{"creating", "ready", "deleting"} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			s, rf := newTopic(t, 1)
			ctx := t.Context()
			produce(t, rf, "orders", 0, 3, 1)
			untouched := ofOthers(t, s, rf)
			forge := func() { forge(t, s, "subscriptions/billing", forged(state)) }
			forge()
			got := newRecorder()
			for _, try := range []struct {
				what string
				do   func() error
			}{
				{"a listing", func() error { _, err := rf.Admin().ListDeadLetters(ctx, "billing", nil); return err }},
				{"a redrive", func() error { _, err := rf.Admin().RedriveDeadLetters(ctx, "billing", nil); return err }},
				{"a discard", func() error { _, err := rf.Admin().DiscardDeadLetters(ctx, "billing", nil); return err }},
				{"a look", func() error { _, err := rf.Admin().ExplainKey(ctx, "billing", []byte("k0")); return err }},
				{"a member", func() error {
					ctx, stop := context.WithTimeout(ctx, 2*time.Second) // it ends at once
					defer stop()
					return rf.Subscribe(ctx, "billing", got.handle, nil)
				}},
				{"a deletion", func() error { return rf.Admin().DeleteSubscription(ctx, "billing", nil) }},
			} {
				err := try.do()
				switch {
				case state == "ready" && (!errors.Is(err, ringfence.ErrConflict) || !strings.Contains(err.Error(), "billing.abcdefg2")):
					t.Errorf("%s: %v; expected ErrConflict and the topic", try.what, err)
				case state == "deleting" && try.what == "a deletion" && err != nil:
					t.Errorf("%s: %v", try.what, err)
				}
				untouched(try.what)
			}
			forge()
			_, err := rf.Admin().CreateSubscription(ctx, "billing", admin.SubscriptionConfig{Topic: "orders"})
			if (state == "creating") != errors.Is(err, ringfence.ErrExists) {
				t.Errorf("a creation: %v", err)
			}
			untouched("a creation")
			forge()
			must(t, rf.Admin().DeleteSubscription(ctx, "billing", force))
			untouched("a deletion with force")
			if _, err := rf.Admin().GetSubscription(ctx, "billing"); !errors.Is(err, ringfence.ErrNotFound) {
				t.Errorf("it is still there: %v", err)
			}
			if n := got.count(); n > 0 {
				t.Errorf("delivered %d records", n)
			}
			// And the name is of use again.
			_, err = rf.Admin().CreateSubscription(ctx, "billing", admin.SubscriptionConfig{Topic: "orders"})
			must(t, err)
			subscribe(t, rf, "billing", got.handle)
			got.waitFor(t, 3)
			untouched("its next life")
		})
	}
}

func TestWhatIsLeftOfASubscriptionIsKnownByItsNameToo(t *testing.T) {
	t.Parallel()
	s, rf := newTopic(t, 1)
	ctx := t.Context()
	untouched := ofOthers(t, s, rf)
	// Somebody says of a topic with a name of its own that it is a part of the subscription.
	for _, name := range []string{"payments", "billing.abcdefg2.other", "billing.abc.retry", "billing.abcdefg2.retry.2"} {
		must(t, ensureInternal(ctx, rf, name, `subscription "billing"`))
	}
	own := "billing.bbbbbbbb.retry"
	must(t, ensureInternal(ctx, rf, own, `subscription "billing"`))
	must(t, rf.Admin().DeleteSubscription(ctx, "billing", &admin.DeleteSubscriptionOptions{Force: true}))
	untouched("the removal of what is left")
	all, err := rf.Admin().ListTopics(ctx)
	must(t, err)
	var names []string
	for _, info := range all {
		names = append(names, info.Name)
	}
	want := []string{"billing.abc.retry", "billing.abcdefg2.dead", "billing.abcdefg2.other", "billing.abcdefg2.retry", "billing.abcdefg2.retry.2", "orders", "payments"}
	if !slices.Equal(names, want) {
		t.Errorf("there are the topics %q; expected %q", names, want)
	}
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
	short, stop := context.WithTimeout(ctx, 2*time.Second) // it ends at once
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
	s, rf := parked(t)
	ctx := t.Context()
	info, err := rf.Admin().GetSubscription(ctx, "billing")
	must(t, err)
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ringfence.ErrConflict) || !strings.Contains(err.Error(), `a part of subscription "billing"`) {
			t.Errorf("%s: %v; expected ErrConflict and whose the topic is", what, err)
		}
	}
	never := func(context.Context, *ringfence.Message) error { t.Error("something was delivered"); return nil }
	for _, name := range []string{info.Set().Journal, info.Set().DeadTopic} {
		_, err := rf.Admin().CreateSubscription(ctx, "again", admin.SubscriptionConfig{Topic: name})
		refused("create", err)
		for _, state := range []string{"creating", "ready"} {
			forge(t, s, "subscriptions/again", strings.NewReplacer("billing", "again", `"orders"`, fmt.Sprintf("%q", name)).Replace(forged(state)))
			_, err := rf.Admin().CreateSubscription(ctx, "again", admin.SubscriptionConfig{Topic: name})
			refused("create of one that is "+state, err)
			if state == "ready" {
				for _, kind := range []string{"retry", "dead"} {
					must(t, ensureInternal(ctx, rf, "again.abcdefg2."+kind, `subscription "again"`))
				}
				short, stop := context.WithTimeout(ctx, 2*time.Second) // it ends at once
				defer stop()
				refused("run", rf.Subscribe(short, "again", never, nil))
			}
			must(t, rf.Admin().DeleteSubscription(ctx, "again", &admin.DeleteSubscriptionOptions{Force: true}))
		}
		// Its own, which it has when it is made.
		own := strings.ReplaceAll(name, info.Set().ID, "abcdefg2")
		forge(t, s, "subscriptions/again", strings.NewReplacer("billing", "again", `"orders"`, fmt.Sprintf("%q", strings.ReplaceAll(own, "billing", "again"))).Replace(forged("creating")))
		if _, err := rf.Admin().CreateSubscription(ctx, "again", admin.SubscriptionConfig{Topic: strings.ReplaceAll(own, "billing", "again")}); err == nil {
			t.Errorf("one that delivers its own %s was made", own)
		}
		must(t, rf.Admin().DeleteSubscription(ctx, "again", &admin.DeleteSubscriptionOptions{Force: true}))
	}
	if letters, err := rf.Admin().ListDeadLetters(ctx, "billing", nil); err != nil || len(letters) != 2 {
		t.Errorf("of billing there are %+v, %v", letters, err)
	}
}

func TestSubscribeRefusesMoreShardsThanPartitions(t *testing.T) {
	t.Parallel()
	s, rf := newTopic(t, 2)
	ctx := t.Context()
	for _, kind := range []string{"retry", "dead"} {
		must(t, ensureInternal(ctx, rf, "billing.abcdefg2."+kind, `subscription "billing"`))
	}
	forge(t, s, "subscriptions/billing", strings.Replace(forged("ready"), `"shards":1`, `"shards":3`, 1)) // a rotten digit
	short, stop := context.WithTimeout(ctx, 2*time.Second)                                                // it ends at once
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
