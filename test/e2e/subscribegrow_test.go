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
	"github.com/ringfence/ringfence/api"
)

// grow adds a storage topic of so many partitions and has producers go on there.
func grow(t *testing.T, rf *ringfence.Client, partitions int) {
	t.Helper()
	_, err := rf.Admin().AddStorage(t.Context(), "a", partitions)
	must(t, err)
	_, err = rf.Admin().SwitchProduce(t.Context(), "a")
	must(t, err)
}

// follows waits until a subscription delivers a storage topic, and no turn is under way.
func follows(t *testing.T, rf *ringfence.Client, name string, storage int) (d *api.Subscription) {
	t.Helper()
	eventually(t, fmt.Sprintf("that storage topic %d is delivered", storage), func() bool {
		var err error
		d, err = rf.Admin().GetSubscription(t.Context(), name)
		must(t, err)
		return !d.Changing() && d.Set().Storage == storage
	})
	return d
}

func TestASubscriptionOfATopicThatHasGrownDeliversAllOfIt(t *testing.T) {
	t.Parallel()
	s := newStores()
	rf := s.open(t)
	must(t, rf.EnsureTopic(t.Context(), "a", ringfence.TopicConfig{Partitions: 2}))
	produceKeys(t, rf, "1")
	grow(t, rf, 4)
	produceKeys(t, rf, "2")
	grow(t, rf, 3)
	for _, from := range []ringfence.From{ringfence.Latest, ringfence.Earliest} {
		_, err := rf.Admin().CreateSubscription(t.Context(), string(from), admin.SubscriptionConfig{Topic: "a", From: from})
		must(t, err)
	}
	produceKeys(t, rf, "3")
	info, err := rf.Admin().GetSubscription(t.Context(), "latest")
	if must(t, err); info.Set().Storage != 2 || info.Set().Shards != 3 {
		t.Errorf("from the latest: %+v", info.Set())
	}
	var d delivered
	subscribe(t, rf, "earliest", d.handler(fine))
	eventually(t, "all records", d.each("1", "2", "3"))
}

// Nobody delivers while the topic grows, twice.
func TestMembersThatComeLaterFollowAllGrowths(t *testing.T) {
	t.Parallel()
	_, rf := reshardable(t, "")
	produceKeys(t, rf, "1")
	grow(t, rf, 8)
	grow(t, rf, 2)
	produceKeys(t, rf, "2")
	var d delivered
	subscribe(t, rf, "billing", d.handler(fine))
	eventually(t, "all records", d.each("1", "2"))
	if info := follows(t, rf, "billing", 2); info.Set().Shards != 2 {
		t.Errorf("two partitions are delivered by %+v", info.Set())
	}
}

// Fewer shards than partitions stay as many, unless the storage topic has not so many partitions.
func TestAGrowthKeepsTheNumberOfShardsThatCanBe(t *testing.T) {
	t.Parallel()
	_, rf := reshardable(t, "")
	var d delivered
	subscribe(t, rf, "billing", d.handler(fine))
	_, err := rf.Admin().ReshardSubscription(t.Context(), "billing", 3, nil)
	must(t, err)
	turned(t, rf, "billing")
	for i, c := range []struct{ partitions, shards int }{{8, 3}, {2, 2}} {
		grow(t, rf, c.partitions)
		if info := follows(t, rf, "billing", i+1); info.Set().Shards != c.shards {
			t.Errorf("%d partitions are delivered by %d shards; expected %d", c.partitions, info.Set().Shards, c.shards)
		}
	}
	if _, err := rf.Admin().ReshardSubscription(t.Context(), "billing", 3, nil); !errors.Is(err, ringfence.ErrInvalid) {
		t.Errorf("more shards than partitions: %v", err)
	}
}

// A reset goes to any storage topic, and those after it follow.
func TestAResetGoesAcrossStorageTopics(t *testing.T) {
	t.Parallel()
	_, rf := reshardable(t, "")
	var d delivered
	subscribe(t, rf, "billing", d.handler(poisoned))
	produceKeys(t, rf, "1")
	produceKeys(t, rf, "2")
	grow(t, rf, 8)
	produceKeys(t, rf, "3")
	follows(t, rf, "billing", 1)
	eventually(t, "all of k1", func() bool { return slices.Equal(d.of("k1"), []string{"1", "2", "3"}) })
	zero := 0
	plan, err := rf.Admin().ResetSubscription(t.Context(), "billing", ringfence.SeekEarliest, &admin.ResetSubscriptionOptions{DryRun: true})
	must(t, err)
	eventually(t, "that what waits is seen", func() bool {
		plan, err = rf.Admin().ResetSubscription(t.Context(), "billing", ringfence.SeekEarliest, &admin.ResetSubscriptionOptions{DryRun: true})
		must(t, err)
		all := sums(plan)
		return all.Again == 22 && all.Anew == 2
	})
	if plan.Storage != 0 || plan.Shards != 4 || len(plan.Positions) != 12 || plan.Begun {
		t.Errorf("a dry run to the earliest: %+v", plan)
	}
	if _, err := rf.Admin().ResetSubscription(t.Context(), "billing", ringfence.SeekEarliest, &admin.ResetSubscriptionOptions{Storage: &zero, Partitions: []int{1}}); !errors.Is(err, ringfence.ErrInvalid) {
		t.Errorf("one partition of another storage topic: %v", err)
	}
	_, err = rf.Admin().ResetSubscription(t.Context(), "billing", ringfence.SeekEarliest, nil)
	must(t, err)
	eventually(t, "all of k1 again", func() bool { return slices.Equal(d.of("k1"), []string{"1", "2", "3", "1", "2", "3"}) })
	follows(t, rf, "billing", 1)
	// To the end of what is sealed: the next storage topic comes again as a whole.
	d.cure()
	_, err = rf.Admin().ResetSubscription(t.Context(), "billing", ringfence.SeekLatest, &admin.ResetSubscriptionOptions{Storage: &zero})
	must(t, err)
	eventually(t, "the last once more", func() bool { return slices.Equal(d.of("k1"), []string{"1", "2", "3", "1", "2", "3", "3"}) })
	follows(t, rf, "billing", 1)
	grow(t, rf, 4)
	follows(t, rf, "billing", 2)
	letters, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
	if must(t, err); len(letters) != 2 || letters[0].Storage != 0 {
		t.Errorf("dead letters and what waits: %+v", letters)
	}
	out := sent(t, rf, ringfence.SeekLatest, &admin.ResetSubscriptionOptions{DropParked: true})
	if out.Storage != 2 || out.Earlier != 2 {
		t.Errorf("to the latest without what is parked: %+v", out)
	}
	letters, err = rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
	if must(t, err); len(letters) != 0 {
		t.Errorf("left are %d dead letters", len(letters))
	}
}

// What is not delivered yet is passed over by a reset forward, across storage topics too, and what is parked stays.
func TestAResetForwardPassesStorageTopicsOver(t *testing.T) {
	t.Parallel()
	_, rf := reshardable(t, "")
	produceKeys(t, rf, "1")
	grow(t, rf, 6)
	produceKeys(t, rf, "2")
	grow(t, rf, 4)
	var d delivered
	out, err := rf.Admin().ResetSubscription(t.Context(), "billing", ringfence.SeekLatest, nil)
	must(t, err)
	if all := sums(out); all.Skipped != 16 || out.Storage != 2 {
		t.Errorf("passed over: %+v", out)
	}
	produceKeys(t, rf, "3")
	subscribe(t, rf, "billing", d.handler(fine))
	eventually(t, "what came since", d.each("3"))
	follows(t, rf, "billing", 2)
}

// Storage topics go that all sets have delivered. Until then nothing keeps the records of earlier ones, and the
// group of a set keeps all that it and later ones need.
func TestStorageTopicsOfASubscriptionAreRetired(t *testing.T) {
	t.Parallel()
	s, rf := reshardable(t, "")
	var d delivered
	produceKeys(t, rf, "1")
	grow(t, rf, 2)
	produceKeys(t, rf, "2")
	held := func(storage int) (n int64) {
		change, err := rf.Admin().AlterTopic(t.Context(), "a", api.Retention{AgeMS: 1}, &admin.AlterTopicOptions{DryRun: true})
		must(t, err)
		for _, drop := range change.Drops {
			if drop.Storage == storage {
				n += drop.Held
			}
		}
		return n
	}
	stop := subscribe(t, rf, "billing", d.handler(fine))
	eventually(t, "all records", d.each("1", "2"))
	info := follows(t, rf, "billing", 1)
	stop()
	produceKeys(t, rf, "3")
	eventually(t, "that what was not delivered yet is kept, and nothing else", func() bool { return held(0) == 0 && held(1) >= 8 })
	_, err := rf.Admin().AlterTopic(t.Context(), "a", api.Retention{AgeMS: 1}, nil)
	must(t, err)
	eventually(t, "that nothing but the set that has read it keeps the storage topic", func() bool {
		kept, err := rf.Admin().RetireStorage(t.Context(), "a", &admin.RetireStorageOptions{DryRun: true})
		if must(t, err); len(kept.Retired) > 0 {
			t.Fatalf("it would be retired under the set that has read it: %+v", kept)
		}
		return strings.Contains(kept.Kept[0].Why, "a subscription delivers storage topic 0")
	})
	rewrite(t, s, func(doc map[string]any) {
		doc["sets"].([]any)[0].(map[string]any)["since"] = time.Now().Add(-2 * time.Hour).UnixMilli()
	})
	subscribe(t, rf, "billing", d.handler(fine))
	retire(t, rf, 0)
	produceKeys(t, rf, "4")
	eventually(t, "the newest", d.last("4"))
	if now := follows(t, rf, "billing", 1); now.Set().ID != info.Set().ID {
		t.Errorf("set %s delivers, not %s", now.Set().ID, info.Set().ID)
	}
	grow(t, rf, 3)
	produceKeys(t, rf, "5")
	eventually(t, "what came after another growth", d.last("5"))
}

// The registry went back behind what the checkpoints said when the turn began: the shards have not read all.
func TestAShardEndsNotBeforeItHasReadAll(t *testing.T) {
	t.Parallel()
	s, rf := reshardable(t, "")
	for _, v := range []string{"1", "2", "3"} {
		produceKeys(t, rf, v)
	}
	grow(t, rf, 8)
	produceKeys(t, rf, "4")
	rewrite(t, s, func(doc map[string]any) {
		doc["sets"] = append(doc["sets"].([]any), map[string]any{"set": 1, "id": "aaaaaaaa", "storage": 1, "shards": 8, "state": "making"})
	})
	var d delivered
	h, release := d.handler(fine), make(chan struct{})
	subscribe(t, rf, "billing", func(ctx context.Context, m *ringfence.Message) error {
		<-release
		return h(ctx, m)
	})
	eventually(t, "that the shards are to end", func() bool {
		info, err := rf.Admin().GetSubscription(t.Context(), "billing")
		must(t, err)
		_, closing := info.Closing()
		g, err := rf.Admin().DescribeGroup(t.Context(), info.Group())
		return closing && err == nil && len(g.Members) > 0 // it has joined the next set, and so heard of it
	})
	close(release)
	eventually(t, "all records", d.each("1", "2", "3", "4"))
}

func TestAPausedSubscriptionFollowsWhenItGoesOn(t *testing.T) {
	t.Parallel()
	_, rf := reshardable(t, "")
	var d delivered
	subscribe(t, rf, "billing", d.handler(fine))
	produceKeys(t, rf, "1")
	eventually(t, "the first", d.each("1"))
	_, err := rf.Admin().PauseSubscription(t.Context(), "billing", nil)
	must(t, err)
	produceKeys(t, rf, "2")
	grow(t, rf, 8)
	produceKeys(t, rf, "3")
	info, err := rf.Admin().GetSubscription(t.Context(), "billing")
	must(t, err)
	g, err := rf.Admin().DescribeGroup(t.Context(), info.Group())
	must(t, err)
	lag := g.Later
	for _, u := range g.Units {
		lag += u.Lag
	}
	if g.Later != 8 || g.Lag != lag || len(g.Units) != 4 {
		t.Errorf("behind are %d, %d of them in later storage topics, by %d units", g.Lag, g.Later, len(g.Units))
	}
	_, err = rf.Admin().ResumeSubscription(t.Context(), "billing")
	must(t, err)
	eventually(t, "all records", d.each("1", "2", "3"))
}

func TestAResetGoesToTheStorageTopicOfATime(t *testing.T) {
	t.Parallel()
	_, rf := reshardable(t, "")
	produceKeys(t, rf, "1")
	grow(t, rf, 8)
	produceKeys(t, rf, "2")
	var d delivered
	subscribe(t, rf, "billing", d.handler(fine))
	follows(t, rf, "billing", 1)
	for ago, storage := range map[time.Duration]int{time.Hour: 0, -time.Hour: 1} {
		out, err := rf.Admin().ResetSubscription(t.Context(), "billing", ringfence.SeekTime(time.Now().Add(-ago)), &admin.ResetSubscriptionOptions{DryRun: true})
		if must(t, err); out.Storage != storage {
			t.Errorf("%s ago is in storage topic %d: %+v", ago, storage, out)
		}
	}
}
