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
	"github.com/ringfence/ringfence/commitlog"
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
		must(t, rf.EnsureTopic(ctx, name, ringfence.TopicConfig{Partitions: 1, Internal: owner}))
		info, err := rf.DescribeTopic(ctx, name)
		must(t, err)
		lives[name] = info.Life
		recs := slices.Repeat([]commitlog.Record{{Value: []byte("v")}}, 10)
		_, err = raw(t, s, rf, name).Append(ctx, 0, recs, nil)
		must(t, err)
	}
	return func(after string) {
		t.Helper()
		for name, life := range lives {
			info, err := rf.DescribeTopic(ctx, name)
			if err != nil || info.Life != life {
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
	force := &ringfence.DeleteSubscriptionOptions{Force: true}
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
				{"a listing", func() error { _, err := rf.DeadLetters(ctx, "billing", nil); return err }},
				{"a redrive", func() error { _, err := rf.Redrive(ctx, "billing", nil); return err }},
				{"a discard", func() error { _, err := rf.Discard(ctx, "billing", nil); return err }},
				{"a look", func() error { _, err := rf.Why(ctx, "billing", []byte("k0")); return err }},
				{"a member", func() error {
					ctx, stop := context.WithTimeout(ctx, 2*time.Second) // it ends at once
					defer stop()
					return rf.Subscribe(ctx, "billing", got.handle, nil)
				}},
				{"a deletion", func() error { return rf.DeleteSubscription(ctx, "billing", nil) }},
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
			_, err := rf.EnsureSubscription(ctx, "billing", ringfence.SubscriptionConfig{Topic: "orders"})
			if (state == "creating") != errors.Is(err, ringfence.ErrExists) {
				t.Errorf("a creation: %v", err)
			}
			untouched("a creation")
			forge()
			must(t, rf.DeleteSubscription(ctx, "billing", force))
			untouched("a deletion with force")
			if _, err := rf.DescribeSubscription(ctx, "billing"); !errors.Is(err, ringfence.ErrNotFound) {
				t.Errorf("it is still there: %v", err)
			}
			if n := got.count(); n > 0 {
				t.Errorf("delivered %d records", n)
			}
			// And the name is of use again.
			_, err = rf.EnsureSubscription(ctx, "billing", ringfence.SubscriptionConfig{Topic: "orders"})
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
		must(t, rf.EnsureTopic(ctx, name, ringfence.TopicConfig{Partitions: 1, Internal: `subscription "billing"`}))
	}
	own := "billing.bbbbbbbb.retry"
	must(t, rf.EnsureTopic(ctx, own, ringfence.TopicConfig{Partitions: 1, Internal: `subscription "billing"`}))
	must(t, rf.DeleteSubscription(ctx, "billing", &ringfence.DeleteSubscriptionOptions{Force: true}))
	untouched("the removal of what is left")
	all, err := rf.Topics(ctx)
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
		must(t, rf.EnsureTopic(ctx, "billing.abcdefg2."+kind, ringfence.TopicConfig{Partitions: 1, Internal: `subscription "billing"`}))
	}
	forge(t, s, "subscriptions/billing", strings.Replace(forged("ready"), `"shards":1`, `"shards":4096`, 1))
	if _, err := rf.DeadLetters(ctx, "billing", nil); !errors.Is(err, ringfence.ErrCorrupt) || !strings.Contains(err.Error(), "--force") {
		t.Errorf("a listing: %v; expected ErrCorrupt and what to do", err)
	}
	short, stop := context.WithTimeout(ctx, 2*time.Second) // it ends at once
	defer stop()
	err := rf.Subscribe(short, "billing", func(context.Context, *ringfence.Message) error { return nil }, nil)
	if !errors.Is(err, ringfence.ErrCorrupt) {
		t.Errorf("a member: %v; expected ErrCorrupt", err)
	}
	must(t, rf.DeleteSubscription(ctx, "billing", &ringfence.DeleteSubscriptionOptions{Force: true}))
	if have := s.of(t, "billing"); len(have) > 0 {
		t.Errorf("there is still %q", have)
	}
}

// What a subscription writes down would come to it again, to be written down again.
func TestWhatBelongsToASubscriptionIsNotDeliveredByOne(t *testing.T) {
	t.Parallel()
	s, rf := parked(t)
	ctx := t.Context()
	info, err := rf.DescribeSubscription(ctx, "billing")
	must(t, err)
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ringfence.ErrConflict) || !strings.Contains(err.Error(), `a part of subscription "billing"`) {
			t.Errorf("%s: %v; expected ErrConflict and whose the topic is", what, err)
		}
	}
	never := func(context.Context, *ringfence.Message) error { t.Error("something was delivered"); return nil }
	for _, name := range []string{info.JournalTopic(), info.DeadTopic()} {
		_, err := rf.EnsureSubscription(ctx, "again", ringfence.SubscriptionConfig{Topic: name})
		refused("create", err)
		for _, state := range []string{"creating", "ready"} {
			forge(t, s, "subscriptions/again", strings.NewReplacer("billing", "again", `"orders"`, fmt.Sprintf("%q", name)).Replace(forged(state)))
			_, err := rf.EnsureSubscription(ctx, "again", ringfence.SubscriptionConfig{Topic: name})
			refused("create of one that is "+state, err)
			if state == "ready" {
				for _, kind := range []string{"retry", "dead"} {
					must(t, rf.EnsureTopic(ctx, "again.abcdefg2."+kind, ringfence.TopicConfig{Partitions: 1, Internal: `subscription "again"`}))
				}
				short, stop := context.WithTimeout(ctx, 2*time.Second) // it ends at once
				defer stop()
				refused("run", rf.Subscribe(short, "again", never, nil))
			}
			must(t, rf.DeleteSubscription(ctx, "again", &ringfence.DeleteSubscriptionOptions{Force: true}))
		}
		// Its own, which it has when it is made.
		own := strings.ReplaceAll(name, info.Set().ID, "abcdefg2")
		forge(t, s, "subscriptions/again", strings.NewReplacer("billing", "again", `"orders"`, fmt.Sprintf("%q", strings.ReplaceAll(own, "billing", "again"))).Replace(forged("creating")))
		if _, err := rf.EnsureSubscription(ctx, "again", ringfence.SubscriptionConfig{Topic: strings.ReplaceAll(own, "billing", "again")}); err == nil {
			t.Errorf("one that delivers its own %s was made", own)
		}
		must(t, rf.DeleteSubscription(ctx, "again", &ringfence.DeleteSubscriptionOptions{Force: true}))
	}
	if letters, err := rf.DeadLetters(ctx, "billing", nil); err != nil || len(letters) != 2 {
		t.Errorf("of billing there are %+v, %v", letters, err)
	}
}

func TestASetOfAnotherSizeThanTheMainTopicIsDamaged(t *testing.T) {
	t.Parallel()
	s, rf := newTopic(t, 2)
	ctx := t.Context()
	for _, kind := range []string{"retry", "dead"} {
		must(t, rf.EnsureTopic(ctx, "billing.abcdefg2."+kind, ringfence.TopicConfig{Partitions: 1, Internal: `subscription "billing"`}))
	}
	forge(t, s, "subscriptions/billing", forged("ready"))
	short, stop := context.WithTimeout(ctx, 2*time.Second) // it ends at once
	defer stop()
	err := rf.Subscribe(short, "billing", func(context.Context, *ringfence.Message) error { return nil }, nil)
	if !errors.Is(err, ringfence.ErrCorrupt) || !strings.Contains(err.Error(), `"orders"`) {
		t.Errorf("a member: %v; expected ErrCorrupt and the topic", err)
	}
}
