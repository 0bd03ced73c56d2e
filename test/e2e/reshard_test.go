package e2e_test

import (
	"encoding/json"
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

// turned waits until no turn of a subscription is under way.
func turned(t *testing.T, rf *ringfence.Client, name string) (d *api.Subscription) {
	t.Helper()
	eventually(t, "the end of the turn", func() bool {
		var err error
		d, err = rf.Admin().GetSubscription(t.Context(), name)
		must(t, err)
		return !d.Changing()
	})
	return d
}

// A subscription with parked keys and a dead letter is resharded, and its topic grows, while two members deliver it: to
// counts that divide and that don't. All of each key comes once and in order, also what is redriven after that.
func TestSubscriptionKeepsOrderThroughReshardsAndGrowths(t *testing.T) {
	t.Parallel()
	const keys = 12
	for name, c := range map[string]struct {
		partitions    int
		grows, shards []int
	}{"reshards": {6, nil, []int{3, 4, 6, 1, 5}}, "growths": {4, []int{8, 6}, []int{2, 5}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStores()
			one, two := s.open(t), s.open(t)
			must(t, one.EnsureTopic(t.Context(), "a", ringfence.TopicConfig{Partitions: c.partitions}))
			_, err := one.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{
				Topic: "a", Retry: admin.Retry{Initial: 5 * time.Millisecond, Max: 20 * time.Millisecond, Attempts: 3}, Hold: -1,
			})
			must(t, err)
			var d delivered
			h := d.handler(func(m *ringfence.Message) error {
				if string(m.Value) == "k0-3" {
					return ringfence.Permanent(errors.New("poison"))
				}
				if m.Attempt == 1 && m.Offset%7 == 3 {
					return errors.New("a hiccup")
				}
				return nil
			})
			subscribe(t, one, "billing", h)
			subscribe(t, two, "billing", h)
			n := 0
			produce := func(count int) {
				for range count {
					for k := range keys {
						_, err := one.Produce(t.Context(), "a", ringfence.Message{Key: fmt.Appendf(nil, "k%d", k), Value: fmt.Appendf(nil, "k%d-%d", k, n)})
						must(t, err)
					}
					n++
				}
			}
			produce(8)
			for i, partitions := range c.grows {
				grow(t, one, partitions)
				produce(5)
				if info := follows(t, one, "billing", i+1); info.Set().Shards != partitions || info.Set().PauseMS == 0 {
					t.Errorf("%d partitions are delivered by %+v", partitions, info.Set())
				}
			}
			for _, shards := range c.shards { // what came from earlier storage topics goes along
				plan, err := one.Admin().ReshardSubscription(t.Context(), "billing", shards, &admin.ReshardSubscriptionOptions{DryRun: true})
				if must(t, err); plan.Begun || len(plan.Shards) != shards {
					t.Errorf("a dry run to %d shards: %+v", shards, plan)
				}
				_, err = one.Admin().ReshardSubscription(t.Context(), "billing", shards, nil)
				must(t, err)
				produce(5)
				if info := turned(t, one, "billing"); info.Set().PauseMS == 0 {
					t.Errorf("the reshard to %d shards tells no pause", shards)
				}
			}
			eventually(t, "all records of the good keys", func() bool {
				for k := 1; k < keys; k++ {
					if len(d.of(fmt.Sprintf("k%d", k))) < n {
						return false
					}
				}
				return true
			})
			if dead := lettersOf(t, one, n-3, nil)[0]; dead.Status != api.Failed || dead.Value != "k0-3" || dead.Storage != 0 {
				t.Errorf("the first dead letter is %+v", dead)
			}
			d.cure()
			count, err := two.Admin().RedriveDeadLetters(t.Context(), "billing", nil)
			if must(t, err); count != 1 {
				t.Errorf("%d were redriven", count)
			}
			eventually(t, "the redriven key", func() bool { return len(d.of("k0")) >= n })
			for k := range keys {
				var want []string
				for i := range n {
					want = append(want, fmt.Sprintf("k%d-%d", k, i))
				}
				if got := d.of(fmt.Sprintf("k%d", k)); !slices.Equal(got, want) {
					t.Errorf("k%d came as %v", k, got)
				}
			}
		})
	}
}

// reshardable makes a topic of four partitions and a subscription of it, which nobody delivers.
func reshardable(t *testing.T, from ringfence.From) (*stores, *ringfence.Client) {
	t.Helper()
	s := newStores()
	rf := s.open(t)
	must(t, rf.EnsureTopic(t.Context(), "a", ringfence.TopicConfig{Partitions: 4}))
	_, err := rf.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{
		Topic: "a", From: from, Retry: admin.Retry{Initial: 5 * time.Millisecond, Max: 5 * time.Millisecond, Attempts: 2}, Hold: -1,
	})
	must(t, err)
	return s, rf
}

// produceKeys appends a record of each of eight keys, with that value.
func produceKeys(t *testing.T, rf *ringfence.Client, value string) {
	t.Helper()
	for k := range 8 {
		_, err := rf.Produce(t.Context(), "a", ringfence.Message{Key: fmt.Appendf(nil, "k%d", k), Value: []byte(value)})
		must(t, err)
	}
}

func (d *delivered) each(values ...string) func() bool {
	return func() bool {
		for k := range 8 {
			if !slices.Equal(d.of(fmt.Sprintf("k%d", k)), values) {
				return false
			}
		}
		return true
	}
}

func fine(*ringfence.Message) error { return nil }

func TestASubscriptionFromTheLatestSkipsNothingAtATurn(t *testing.T) {
	t.Parallel()
	_, rf := reshardable(t, ringfence.Latest)
	produceKeys(t, rf, "before")
	var d delivered
	h := d.handler(fine)
	stop := subscribe(t, rf, "billing", h)
	info, err := rf.Admin().GetSubscription(t.Context(), "billing")
	must(t, err)
	eventually(t, "that all shards have begun", func() bool {
		g, err := rf.Admin().DescribeGroup(t.Context(), info.Group())
		return err == nil && len(g.Units) == 4 && !slices.ContainsFunc(g.Units, func(u api.Unit) bool { return u.Positions[0].Checkpoint < 0 })
	})
	produceKeys(t, rf, "1")
	eventually(t, "the first", d.each("1"))
	stop()
	produceKeys(t, rf, "2")
	_, err = rf.Admin().ReshardSubscription(t.Context(), "billing", 3, nil)
	must(t, err)
	produceKeys(t, rf, "3")
	subscribe(t, rf, "billing", h)
	eventually(t, "all since", d.each("1", "2", "3"))
	turned(t, rf, "billing")
}

func TestATurnWaitsForMembersAndBarsAnother(t *testing.T) {
	t.Parallel()
	_, rf := reshardable(t, "")
	produceKeys(t, rf, "1")
	for _, shards := range []int{-1, 0, 5} {
		if _, err := rf.Admin().ReshardSubscription(t.Context(), "billing", shards, nil); !errors.Is(err, ringfence.ErrInvalid) {
			t.Errorf("%d shards: %v; expected ErrInvalid", shards, err)
		}
	}
	same, err := rf.Admin().ReshardSubscription(t.Context(), "billing", 4, nil)
	if must(t, err); same.Begun {
		t.Errorf("a turn to as many shards was begun: %+v", same)
	}
	_, err = rf.Admin().ReshardSubscription(t.Context(), "billing", 2, nil)
	must(t, err)
	if _, err := rf.Admin().ReshardSubscription(t.Context(), "billing", 1, nil); !errors.Is(err, ringfence.ErrConflict) {
		t.Errorf("a second turn: %v; expected ErrConflict", err)
	}
	var d delivered
	subscribe(t, rf, "billing", d.handler(fine))
	eventually(t, "all records", d.each("1"))
	if info := turned(t, rf, "billing"); info.Set().Shards != 2 || len(info.Sets) != 2 {
		t.Errorf("after the turn: %+v", info.Sets)
	}
}

func TestWhatTurnedIsGuardedAndDeleted(t *testing.T) {
	t.Parallel()
	_, rf := reshardable(t, "")
	var d delivered
	stop := subscribe(t, rf, "billing", d.handler(fine))
	_, err := rf.Admin().ReshardSubscription(t.Context(), "billing", 2, nil)
	must(t, err)
	info := turned(t, rf, "billing")
	old := info.Sets[0]
	if err := rf.Admin().DeleteGroup(t.Context(), old.Group, nil); !errors.Is(err, ringfence.ErrConflict) {
		t.Errorf("delete of the group that ended: %v; expected ErrConflict", err)
	}
	if err := rf.Admin().PauseGroup(t.Context(), info.Group(), nil); !errors.Is(err, ringfence.ErrConflict) || !strings.Contains(err.Error(), "subscription pause") {
		t.Errorf("pause of its group: %v; expected ErrConflict, and what pauses the subscription", err)
	}
	if err := rf.Admin().DeleteTopic(t.Context(), old.Journal, nil); !errors.Is(err, ringfence.ErrConflict) {
		t.Errorf("delete of the journal that ended: %v; expected ErrConflict", err)
	}
	stop()
	must(t, rf.Admin().DeleteSubscription(t.Context(), "billing", nil))
	topics, err := rf.Admin().ListTopics(t.Context())
	must(t, err)
	groups, err := rf.Admin().ListGroups(t.Context())
	if must(t, err); len(topics) != 1 || len(groups) != 0 {
		t.Errorf("left are %d topics and %d groups", len(topics), len(groups))
	}
}

// rewrite changes the stored definition.
func rewrite(t *testing.T, s *stores, change func(map[string]any)) {
	t.Helper()
	reg := s.reg.Open()
	e, err := reg.Get(t.Context(), "subscriptions/billing")
	must(t, errors.Join(err, reg.Close()))
	var doc map[string]any
	must(t, json.Unmarshal(e.Value, &doc))
	change(doc)
	value, err := json.Marshal(doc)
	must(t, err)
	forge(t, s, "subscriptions/billing", string(value))
}

func TestWhatARetiredSetHasLeftGoes(t *testing.T) {
	t.Parallel()
	s, rf := reshardable(t, "")
	var d delivered
	subscribe(t, rf, "billing", d.handler(fine))
	for _, shards := range []int{2, 3} {
		_, err := rf.Admin().ReshardSubscription(t.Context(), "billing", shards, nil)
		must(t, err)
		turned(t, rf, "billing")
	}
	rewrite(t, s, func(doc map[string]any) {
		for _, set := range doc["sets"].([]any)[:2] {
			set.(map[string]any)["since"] = time.Now().Add(-2 * time.Hour).UnixMilli()
		}
	})
	eventually(t, "that the topics and groups of the first two sets go", func() bool {
		topics, err := rf.Admin().ListTopics(t.Context())
		must(t, err)
		groups, err := rf.Admin().ListGroups(t.Context())
		must(t, err)
		info, err := rf.Admin().GetSubscription(t.Context(), "billing")
		must(t, err)
		return len(topics) == 4 && len(groups) == 1 && len(info.Sets) == 2 && info.Sets[1].Shards == 3 // last of all
	})
	produceKeys(t, rf, "1")
	eventually(t, "all records", d.each("1"))
}

func TestAPausedSubscriptionTurns(t *testing.T) {
	t.Parallel()
	_, rf := reshardable(t, "")
	var d delivered
	subscribe(t, rf, "billing", d.handler(fine))
	produceKeys(t, rf, "1")
	eventually(t, "the first", d.each("1"))
	_, err := rf.Admin().PauseSubscription(t.Context(), "billing", nil)
	must(t, err)
	produceKeys(t, rf, "2")
	_, err = rf.Admin().ReshardSubscription(t.Context(), "billing", 3, nil)
	must(t, err)
	turned(t, rf, "billing")
	before := len(d.of("k1")) // a pause is heard of later than it is stored
	_, err = rf.Admin().ReshardSubscription(t.Context(), "billing", 1, nil)
	must(t, err)
	turned(t, rf, "billing")
	if len(d.of("k1")) > max(before, 1) {
		t.Errorf("k1 was delivered in a pause: %v", d.of("k1"))
	}
	_, err = rf.Admin().ResumeSubscription(t.Context(), "billing")
	must(t, err)
	eventually(t, "the second", d.each("1", "2"))
}
