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
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/testlog"
	registrypkg "github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/subscription/core"
)

// raw opens the only storage topic of a topic past Ringfence, as whoever has rights in the log can.
func raw(t *testing.T, s *stores, rf *ringfence.Client, name string) *commitlog.Topic {
	t.Helper()
	info, err := rf.Admin().DescribeTopic(t.Context(), name)
	must(t, err)
	log := s.log.Open()
	st, err := log.Topic(t.Context(), info.Storage[0].Name)
	must(t, err)
	t.Cleanup(func() { must(t, errors.Join(st.Close(), log.Close())) })
	return st
}

// forge puts a document of a stranger into the registry.
func forge(t *testing.T, s *stores, key, value string) {
	t.Helper()
	reg := s.reg.Open()
	var was registrypkg.Version
	if e, err := reg.Get(t.Context(), key); err == nil {
		was = e.Version
	}
	_, err := reg.Txn(t.Context(), registrypkg.Txn{
		Checks: []registrypkg.Check{{Key: key, Version: was}}, Puts: []registrypkg.Put{{Key: key, Value: []byte(value)}},
	})
	must(t, errors.Join(err, reg.Close()))
}

func TestNobodyElseWritesToTheTopicsOfASubscription(t *testing.T) {
	t.Parallel()
	_, rf := parked(t)
	info, err := rf.Admin().GetSubscription(t.Context(), "billing")
	must(t, err)
	ctx := t.Context()
	for _, name := range []string{info.Set().Journal, info.Set().DeadTopic, info.Decisions} {
		before, err := rf.Admin().DescribeTopic(ctx, name)
		must(t, err)
		if before.Internal != `subscription "billing"` {
			t.Errorf("topic %s is a part of %q", name, before.Internal)
		}
		less := api.Retention{Bytes: 1, Force: true}
		for what, try := range map[string]func() error{
			"produce": func() error { _, err := rf.Produce(ctx, name, ringfence.Message{Value: []byte("v")}); return err },
			"produce async": func() error {
				answer := make(chan error, 1)
				rf.ProduceAsync(ctx, name, ringfence.Message{Value: []byte("v")}, nil, func(_ ringfence.Position, err error) { answer <- err })
				return <-answer
			},
			"alter": func() error { _, err := rf.Admin().AlterTopic(ctx, name, less, nil); return err },
			"would alter": func() error {
				_, err := rf.Admin().AlterTopic(ctx, name, less, &admin.AlterTopicOptions{DryRun: true})
				return err
			},
			"add storage": func() error { _, err := rf.Admin().AddStorage(ctx, name, 2); return err },
			"switch":      func() error { _, err := rf.Admin().SwitchProduce(ctx, name); return err },
			"plan": func() error {
				_, err := rf.Admin().PlanTopic(ctx, name, &admin.PlanTopicOptions{Partitions: 2})
				return err
			},
			"create": func() error { return rf.EnsureTopic(ctx, name, ringfence.TopicConfig{Partitions: 1}) },
			"delete": func() error { return rf.Admin().DeleteTopic(ctx, name, &admin.DeleteTopicOptions{Force: true}) },
		} {
			if err := try(); !errors.Is(err, ringfence.ErrConflict) || !strings.Contains(err.Error(), `"billing"`) {
				t.Errorf("%s of topic %s: %v; expected ErrConflict and whose it is", what, name, err)
			}
		}
		after, err := rf.Admin().DescribeTopic(ctx, name)
		must(t, err)
		if after.Retention != before.Retention || len(after.Storage) != 1 || after.Storage[0].Partitions[0] != before.Storage[0].Partitions[0] {
			t.Errorf("topic %s was %+v and is %+v", name, before, after)
		}
	}
}

func TestNobodyElseConsumesByTheGroupOfASubscription(t *testing.T) {
	t.Parallel()
	_, rf := parked(t)
	info, err := rf.Admin().GetSubscription(t.Context(), "billing")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, name := range []string{info.Group(), "billing..", "a..b"} {
		err := rf.Consume(ctx, "orders", name, func(context.Context, *ringfence.Message) error { return nil }, nil)
		if !errors.Is(err, ringfence.ErrInvalid) || !strings.Contains(err.Error(), "subscription run") {
			t.Errorf("group %q: %v; expected ErrInvalid and what to do", name, err)
		}
	}
}

const damagedDefinition = `{"format":1,"name":"billing","state":"ready","topic":"orders","order":"key","from":"earliest",` +
	`"retry":{"initial_ms":1,"max_ms":1,"hold_ms":1,"max_attempts":1},"dead_letters":"block",` +
	`"sets":[{"set":0,"id":"abcdefg2","shards":1099511627776,"state":"active"}],"created":1}`

func TestADamagedDefinitionHarmsNoOtherAndCanBeRemoved(t *testing.T) {
	t.Parallel()
	s, rf := parked(t)
	ctx := t.Context()
	for _, name := range []string{"mails", "news"} {
		must(t, rf.EnsureTopic(ctx, name, ringfence.TopicConfig{Partitions: 1}))
	}
	cfg := admin.SubscriptionConfig{Topic: "mails"}
	_, err := rf.Admin().CreateSubscription(ctx, "a", cfg)
	must(t, err)
	info, err := rf.Admin().GetSubscription(ctx, "billing")
	must(t, err)
	group := info.Group()
	forge(t, s, "subscriptions/billing", damagedDefinition)

	all, err := rf.Admin().ListSubscriptions(ctx)
	must(t, err)
	if len(all) != 2 || all[0].Name != "a" || all[0].Damaged != "" || all[1].Name != "billing" || !strings.Contains(all[1].Damaged, "1099511627776") {
		t.Errorf("the list is %+v", all)
	}
	_, described := rf.Admin().GetSubscription(ctx, "billing")
	_, ensured := rf.Admin().CreateSubscription(ctx, "billing", admin.SubscriptionConfig{Topic: "orders"})
	for what, err := range map[string]error{"describe": described, "ensure": ensured, "delete": rf.Admin().DeleteSubscription(ctx, "billing", nil)} {
		if !errors.Is(err, ringfence.ErrCorrupt) || !strings.Contains(err.Error(), "--force") {
			t.Errorf("%s: %v; expected ErrCorrupt and what to do", what, err)
		}
	}
	for what, err := range map[string]error{
		"its group": rf.Admin().DeleteGroup(ctx, group, nil), "a topic that it may deliver": rf.Admin().DeleteTopic(ctx, "news", nil),
	} {
		if !errors.Is(err, ringfence.ErrConflict) || !strings.Contains(err.Error(), "--force") {
			t.Errorf("delete of %s: %v; expected ErrConflict and what to do", what, err)
		}
	}
	must(t, rf.Admin().DeleteTopic(ctx, "news", &admin.DeleteTopicOptions{Force: true}))
	if err := rf.Admin().DeleteTopic(ctx, "mails", &admin.DeleteTopicOptions{Force: true}); !errors.Is(err, ringfence.ErrConflict) {
		t.Errorf("delete of a topic that a sound subscription delivers: %v; expected ErrConflict", err)
	}

	force := &admin.DeleteSubscriptionOptions{Force: true, DryRun: true}
	must(t, rf.Admin().DeleteSubscription(ctx, "billing", force))
	if have := s.of(t, "billing"); len(have) < 4 {
		t.Errorf("after a dry run there is %q", have)
	}
	force.DryRun = false
	must(t, rf.Admin().DeleteSubscription(ctx, "billing", force))
	if have := s.of(t, "billing"); len(have) > 0 {
		t.Errorf("there is still %q", have)
	}
	if err := rf.Admin().DeleteSubscription(ctx, "billing", force); !errors.Is(err, ringfence.ErrNotFound) {
		t.Errorf("once more: %v; expected ErrNotFound", err)
	}
	if _, err := rf.Admin().GetSubscription(ctx, "a"); err != nil {
		t.Errorf("the other one: %v", err)
	}
	_, err = rf.Admin().CreateSubscription(ctx, "billing", admin.SubscriptionConfig{Topic: "orders"})
	must(t, err)
}

func TestARemovalOfADamagedDefinitionThatIsCutIsFinishedByTheNext(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		cuts := 0
		for cut := true; cut; {
			s, rf := parked(t)
			forge(t, s, "subscriptions/billing", damagedDefinition)
			if cut = cutDeletion(t, s, cuts+1, after); cut {
				cuts++
			}
			err := rf.Admin().DeleteSubscription(t.Context(), "billing", &admin.DeleteSubscriptionOptions{Force: true})
			if err != nil && !errors.Is(err, ringfence.ErrNotFound) {
				t.Errorf("after a cut at write %d: %v", cuts, err)
			}
			if have := s.of(t, "billing"); len(have) > 0 {
				t.Errorf("after a cut at write %d there is %q", cuts, have)
			}
		}
		if cuts < 6 {
			t.Errorf("it was cut %d times; expected each step of the way", cuts)
		}
	}
}

func TestADamagedSubscriptionGoesByNoOtherID(t *testing.T) {
	t.Parallel()
	s, rf := parked(t)
	info, err := rf.Admin().GetSubscription(t.Context(), "billing")
	must(t, err)
	forge(t, s, "subscriptions/billing", damagedDefinition)
	have := s.of(t, "billing")
	err = rf.Admin().DeleteSubscription(t.Context(), "billing", &admin.DeleteSubscriptionOptions{Force: true, ID: "abcdefgh"})
	if now := s.of(t, "billing"); !errors.Is(err, ringfence.ErrCorrupt) || !slices.Equal(now, have) {
		t.Errorf("by another ID: %v, and there is %q; there was %q", err, now, have)
	}
	must(t, rf.Admin().DeleteSubscription(t.Context(), "billing", &admin.DeleteSubscriptionOptions{Force: true, ID: info.ID}))
	if now := s.of(t, "billing"); len(now) > 0 {
		t.Errorf("there is still %q", now)
	}
}

// lose drops the copies of a subscription's dead letters from the log.
func lose(t *testing.T, s *stores, rf *ringfence.Client) {
	t.Helper()
	info, err := rf.Admin().GetSubscription(t.Context(), "billing")
	must(t, err)
	dead := raw(t, s, rf, info.Set().DeadTopic)
	b, err := dead.Bounds(t.Context(), 0)
	must(t, err)
	must(t, dead.Trim(t.Context(), 0, b.Next))
}

func TestADeadLetterWhoseCopyIsLostIsListedAndDiscarded(t *testing.T) {
	t.Parallel()
	for _, ordered := range []bool{false, true} { // a redrive, before it is lost
		s, rf := parked(t)
		ctx := t.Context()
		if ordered {
			_, err := rf.Admin().RedriveDeadLetters(ctx, "billing", nil)
			must(t, err)
		}
		lose(t, s, rf)
		list, err := rf.Admin().ListDeadLetters(ctx, "billing", nil)
		must(t, err)
		if len(list) != 2 || list[0].Status != api.Failed || list[0].Lost == "" || list[0].KeyText() != "k0" || list[1].Lost != "" || list[1].Value != "2" {
			t.Errorf("ordered: %t: the list is %+v", ordered, list)
		}
		if _, err := rf.Admin().RedriveDeadLetters(ctx, "billing", &admin.DeadLetterOptions{IDs: []string{list[0].ID}}); !errors.Is(err, ringfence.ErrConflict) || !ordered && !strings.Contains(err.Error(), "discard") {
			t.Errorf("ordered: %t: redrive: %v; expected ErrConflict and what to do", ordered, err)
		}
		var d delivered
		subscribe(t, rf, "billing", d.handler(func(*ringfence.Message) error { return nil }))
		if ordered {
			eventually(t, "the answer", func() bool {
				list, err := rf.Admin().ListDeadLetters(ctx, "billing", nil)
				return err == nil && len(list) == 2 && strings.Contains(list[0].Answer, "its copy can't be read")
			})
		}
		if _, err := rf.Admin().DiscardDeadLetters(ctx, "billing", nil); err != nil {
			t.Errorf("ordered: %t: discard: %v", ordered, err)
		}
		eventually(t, "what waited behind it", func() bool {
			list, err := rf.Admin().ListDeadLetters(ctx, "billing", nil)
			return err == nil && len(list) == 0 && len(d.of("k0")) == 1
		})
		if got := d.of("k0"); got[0] != "2" {
			t.Errorf("ordered: %t: delivered %v", ordered, got)
		}
		history, err := rf.Admin().ListDeadLetters(ctx, "billing", &admin.DeadLetterOptions{Decided: true})
		must(t, err)
		for _, l := range history {
			if l.Lost == "" || l.KeyText() != "k0" || l.DecidedBy == "" || l.Status != api.Discarded && l.Status != api.Redriven {
				t.Errorf("ordered: %t: decided is %+v", ordered, l)
			}
		}
		if want := 1 + map[bool]int{true: 1}[ordered]; len(history) != want {
			t.Errorf("ordered: %t: %d decisions; expected %d", ordered, len(history), want)
		}
	}
}

// strangers appends to an internal topic what none of ours has written there.
func strangers(t *testing.T, topic *commitlog.Topic, set string) (n int) {
	t.Helper()
	header := func(b []byte) []commitlog.Header { return []commitlog.Header{{Name: "ringfence-parked", Value: b}} }
	fence := core.Encode(&core.Record{Set: "another2", Kind: core.Fence, By: core.Tenure{Epoch: 1 << 50, Run: 1}, Seq: 1}, nil)
	own := core.Encode(&core.Record{Set: set, Kind: core.Park, By: core.Tenure{Epoch: 1 << 50, Run: 1}, Seq: 1}, nil)
	all := []commitlog.Record{
		{Key: []byte("k0"), Value: []byte("of a user")},
		{Headers: header(fence)},               // of another subscription
		{Headers: header([]byte{99, 1, 2, 3})}, // of a format that nobody knows
		{Headers: header([]byte{1, 200})},      // of a kind that nobody knows
		{Headers: header(nil)},                 // empty
		{Headers: header(own[:len(own)-1])},    // cut
		{Headers: header(append(own, 0))},      // too long
	}
	for i := range all {
		_, err := topic.Append(t.Context(), 0, all[i:i+1], nil)
		must(t, err)
	}
	return len(all)
}

func TestWhatOthersWriteIntoTheTopicsOfASubscriptionCountsForNothing(t *testing.T) {
	t.Parallel()
	s, _ := parked(t)
	ctx := t.Context()
	var said testlog.Buffer
	rf := s.openAs(t, process{logger: said.Logger()})
	info, err := rf.Admin().GetSubscription(ctx, "billing")
	must(t, err)
	journal := raw(t, s, rf, info.Set().Journal)
	before, err := journal.Bounds(ctx, 0)
	must(t, err)
	n := strangers(t, journal, info.Set().ID)
	strangers(t, raw(t, s, rf, info.Set().DeadTopic), info.Set().ID)

	list, err := rf.Admin().ListDeadLetters(ctx, "billing", nil)
	if err != nil || len(list) != 2 || list[0].KeyText() != "k0" || list[0].Value != "1" {
		t.Errorf("the list is %+v, %v", list, err)
	}
	named := fmt.Sprintf("records=%d first=%d", n, before.Next)
	if text := said.String(); !strings.Contains(text, named) || !strings.Contains(text, info.Set().Journal) {
		t.Errorf("people were told %q; expected %q and the topic", text, named)
	}
	if why, err := rf.Admin().ExplainKey(ctx, "billing", []byte("k0")); err != nil || len(why.Blocked) != 1 || why.Blocked[0].Followers+1 != 2 {
		t.Errorf("why: %+v, %v", why, err)
	}
	// An owner goes past them, also while it runs.
	var d delivered
	subscribe(t, rf, "billing", d.handler(func(*ringfence.Message) error { return nil }))
	_, err = rf.Admin().RedriveDeadLetters(ctx, "billing", nil)
	must(t, err)
	eventually(t, "what was parked", func() bool { return len(d.of("k0")) == 2 })
	strangers(t, journal, info.Set().ID)
	produce(t, rf, "orders", 3, 3, 1)
	eventually(t, "what came later", func() bool { return len(d.of("k0")) == 5 })
	if text := said.String(); !strings.Contains(text, "so_many=1 ") || !strings.Contains(text, "so_many=8 ") || strings.Contains(text, "so_many=3 ") {
		t.Errorf("people were told %q; expected the first, and the eighth", text)
	}
}

// A newer version may write what this one does not know: it says so in the definition, and then this one
// has to go.
func TestAMemberEndsWhenANewerVersionHasChangedTheDefinition(t *testing.T) {
	t.Parallel()
	s, rf := parked(t)
	ctx := t.Context()
	info, err := rf.Admin().GetSubscription(ctx, "billing")
	must(t, err)
	over := make(chan error, 1)
	got := newRecorder()
	go func() { over <- rf.Subscribe(ctx, "billing", got.handle, nil) }()
	_, err = rf.Admin().DiscardDeadLetters(ctx, "billing", nil)
	must(t, err)
	got.waitFor(t, 1)
	forge(t, s, "subscriptions/billing", `{"format":99,"name":"billing","topic":[7]}`) // its group tells the topic
	select {
	case err := <-over:
		if !errors.Is(err, ringfence.ErrCorrupt) || !strings.Contains(err.Error(), "upgrade") {
			t.Errorf("it ended with %v; expected ErrCorrupt and what to do", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on")
	}
	if err := rf.Admin().DeleteGroup(ctx, info.Group(), nil); !errors.Is(err, ringfence.ErrConflict) || !strings.Contains(err.Error(), "upgrade") || strings.Contains(err.Error(), "--force") {
		t.Errorf("its group is not deleted with %v; expected that it says to upgrade, and nothing of a deletion", err)
	}
	for _, force := range []bool{false, true} {
		err := rf.Admin().DeleteTopic(ctx, "orders", &admin.DeleteTopicOptions{Force: force})
		if !errors.Is(err, ringfence.ErrConflict) || !strings.Contains(err.Error(), "upgrade") || strings.Contains(err.Error(), "--force") {
			t.Errorf("its topic is not deleted with %v; expected that it says to upgrade, and not how to go on without it", err)
		}
	}
	reg := s.reg.Open()
	defer func() { must(t, reg.Close()) }()
	g, err := protocol.NewGroup(reg.Registry, info.Group())
	must(t, err)
	if _, err := g.Meta(ctx); err != nil {
		t.Errorf("its group: %v", err)
	}
}
