package e2e_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	registrydriver "github.com/ringfence/ringfence/registry/driver"
)

// What a process finds that stood still (SIGSTOP) in the middle of a step, while a topic ended and the next one of
// its name began: each test says before which write.

// standing is a registry whose process stands still once, as it is about to write.
type standing struct {
	registrydriver.Registry
	before func(registrydriver.Put) bool // which write
	once   sync.Once
	during func()
	after  func()          // is called when it is written
	enter  bool            // it stands still as it opens its session
	deafTo string          // the prefix of which it hears nothing
	until  <-chan struct{} // this is closed
	dies   bool            // before it removes the definition of a topic
}

func (s *standing) OpenSession(ctx context.Context, ttl time.Duration) (registrydriver.Session, error) {
	if s.enter {
		s.once.Do(s.during)
	}
	return s.Registry.OpenSession(ctx, ttl)
}

func (s *standing) Apply(ctx context.Context, txns []registrydriver.Txn) ([]registrydriver.Result, error) {
	if s.dies && slices.ContainsFunc(txns, func(t registrydriver.Txn) bool { return slices.Contains(t.Deletes, "topics/orders") }) {
		return nil, registrydriver.ErrUnavailable
	}
	if s.before == nil || !slices.ContainsFunc(txns, func(t registrydriver.Txn) bool { return slices.ContainsFunc(t.Puts, s.before) }) {
		return s.Registry.Apply(ctx, txns)
	}
	s.once.Do(s.during)
	res, err := s.Registry.Apply(context.WithoutCancel(ctx), txns)
	if s.after != nil {
		s.after()
	}
	return res, err
}

func (s *standing) Watch(ctx context.Context, prefix string) (<-chan struct{}, error) {
	if s.until != nil && strings.HasPrefix(prefix, s.deafTo) {
		select {
		case <-s.until:
		case <-ctx.Done():
		}
	}
	return s.Registry.Watch(ctx, prefix)
}

// still opens the stores in a process that stands still as it is about to write that.
func (s *stores) still(t *testing.T, before func(registrydriver.Put) bool, during func()) *ringfence.Client {
	t.Helper()
	return s.standing(t, &standing{before: before, during: during})
}

func (s *stores) standing(t *testing.T, reg *standing) *ringfence.Client {
	t.Helper()
	return s.openAs(t, process{registry: reg.over})
}

func (s *standing) over(d registrydriver.Registry) registrydriver.Registry {
	s.Registry = d
	return s
}

// marksDeleted says whether a write says that the topic is being deleted.
func marksDeleted(p registrydriver.Put) bool {
	return p.Key == "topics/orders" && strings.Contains(string(p.Value), `"state":"deleting"`)
}

// founds says whether a write makes a group.
func founds(p registrydriver.Put) bool { return p.Key == "groups/ledger/meta" }

// consumeAll is a member of the group until it got so many records.
func consumeAll(t *testing.T, rf *ringfence.Client, n int) *recorder {
	t.Helper()
	r := newRecorder()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- rf.Consume(ctx, "orders", "ledger", r.handle, nil) }() // received below
	r.waitFor(t, n)
	stop()
	must(t, <-ended)
	return r
}

// A group that came, and got ahead, while a deletion of its topic stood still would take its progress for one in the
// next topic of the name: records there would be skipped.
func TestAGroupThatComesWhileItsTopicIsDeletedHasNoProgressInTheNext(t *testing.T) {
	t.Parallel()
	s := newStores()
	rf := s.open(t)
	shape := ringfence.TopicConfig{Partitions: 2}
	must(t, rf.EnsureTopic(t.Context(), "orders", shape))
	produce(t, rf, "orders", 0, 20, 5)
	deleter := s.still(t, marksDeleted, func() { consumeAll(t, rf, 20) })
	must(t, deleter.Admin().DeleteTopic(t.Context(), "orders", &admin.DeleteTopicOptions{Force: true}))
	groups, err := rf.Admin().ListGroups(t.Context())
	must(t, err)
	if len(groups) > 0 {
		t.Errorf("of the topic %+v is left", groups)
	}
	must(t, rf.EnsureTopic(t.Context(), "orders", shape))
	produce(t, rf, "orders", 0, 30, 5)
	consumeAll(t, rf, 30)
}

// Nobody asked for the end of what came meanwhile: without force, and while a member lives, the topic stays.
func TestADeletionThatFindsNewUsersOfItsTopicTakesNothing(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"a group", "a member", "a subscription"} {
		s := newStores()
		rf := s.open(t)
		must(t, rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 2}))
		produce(t, rf, "orders", 0, 20, 5)
		ctx, stop := context.WithCancel(t.Context())
		ended, r := make(chan error, 1), newRecorder()
		ended <- nil
		deleter := s.still(t, marksDeleted, func() {
			switch what {
			case "a group":
				consumeAll(t, rf, 20)
			case "a member":
				<-ended
				go func() { ended <- rf.Consume(ctx, "orders", "ledger", r.handle, nil) }() // received below
				r.waitFor(t, 20)
			default:
				_, err := rf.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{Topic: "orders"})
				must(t, err)
			}
		})
		err := deleter.Admin().DeleteTopic(t.Context(), "orders", &admin.DeleteTopicOptions{Force: what != "a group"})
		if !errors.Is(err, ringfence.ErrConflict) {
			t.Errorf("%s: the deletion ended with %v", what, err)
		}
		info, err := s.open(t).Admin().DescribeTopic(t.Context(), "orders")
		must(t, err)
		if next := info.Storage[0].Partitions[0].Next + info.Storage[0].Partitions[1].Next; next != 20 {
			t.Errorf("%s: %d records are there", what, next)
		}
		stop()
		must(t, <-ended)
	}
}

// Who makes the topic again meanwhile finishes the deletion: then it can't be taken back, or there would be a topic
// without its records.
func TestADeletionThatSomebodyElseFinishesIsNotTakenBack(t *testing.T) {
	t.Parallel()
	s := newStores()
	rf := s.open(t)
	shape := ringfence.TopicConfig{Partitions: 2}
	must(t, rf.EnsureTopic(t.Context(), "orders", shape))
	produce(t, rf, "orders", 0, 20, 5)
	came := false
	takesBack := func(p registrydriver.Put) bool {
		if marksDeleted(p) && !came {
			came = true
			consumeAll(t, rf, 20)
		}
		return came && p.Key == "topics/orders" && !marksDeleted(p)
	}
	deleter := s.still(t, takesBack, func() {
		if err := s.standing(t, &standing{dies: true}).EnsureTopic(t.Context(), "orders", shape); !errors.Is(err, ringfence.ErrUnavailable) {
			t.Errorf("who finishes it and dies ended with %v", err)
		}
	})
	if err := deleter.Admin().DeleteTopic(t.Context(), "orders", nil); !errors.Is(err, ringfence.ErrConflict) {
		t.Errorf("it ended with %v", err)
	}
	must(t, rf.EnsureTopic(t.Context(), "orders", shape))
	again := s.open(t)
	produce(t, again, "orders", 0, 30, 5)
	consumeAll(t, again, 30)
}

// The process that deletes dies when it has said so. Who makes the next topic of the name ends the groups of the last.
func TestTheNextTopicHasNoGroupsOfADeletionThatWasCutShort(t *testing.T) {
	t.Parallel()
	s := newStores()
	rf := s.open(t)
	must(t, rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 2}))
	produce(t, rf, "orders", 0, 20, 5)
	ctx, die := context.WithCancel(t.Context())
	defer die()
	deleter := s.standing(t, &standing{before: marksDeleted, during: func() { consumeAll(t, rf, 20) }, after: die})
	if err := deleter.Admin().DeleteTopic(ctx, "orders", &admin.DeleteTopicOptions{Force: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	must(t, rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 2}))
	produce(t, rf, "orders", 0, 30, 5)
	consumeAll(t, rf, 30)
}

// A member that stood still as it was about to found its group knows another topic: of other partitions, the first of
// which are retired. The next one's group has those of the next one, and consumes all of it.
func TestAMemberOfAnEarlierTopicFoundsNoGroupOfTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStores()
		rf := s.open(t)
		must(t, rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 2}))
		_, err := rf.Admin().AddStorage(t.Context(), "orders", 4)
		must(t, err)
		_, err = rf.Admin().SwitchProduce(t.Context(), "orders")
		must(t, err)
		retired, err := rf.Admin().RetireStorage(t.Context(), "orders", nil)
		must(t, err)
		if len(retired.Retired) != 1 {
			t.Fatalf("%+v", retired)
		}
		member := s.still(t, founds, func() {
			must(t, rf.Admin().DeleteTopic(t.Context(), "orders", nil))
			must(t, rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 2}))
			produce(t, rf, "orders", 0, 20, 5)
		})
		old := newRecorder()
		if err := member.Consume(t.Context(), "orders", "ledger", old.handle, nil); !errors.Is(err, ringfence.ErrNotFound) {
			t.Errorf("it ended with %v", err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		r := newRecorder()
		must(t, rf.Consume(ctx, "orders", "ledger", r.handle, nil))
		if n := r.count(); n != 20 {
			t.Errorf("the group of the next topic got %d of 20 records", n)
		}
		g, err := rf.Admin().DescribeGroup(t.Context(), "ledger")
		must(t, err)
		if len(g.Units) != 2 {
			t.Errorf("it has %d units", len(g.Units))
		}
	})
}

// The same where the next topic has a group already, and nothing is heard of it for a while: that does not grow to what
// the earlier topic had, nor pass what was finished there.
func TestAMemberOfAnEarlierTopicChangesNoGroupOfTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStores()
		rf := s.open(t)
		must(t, rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 2}))
		produce(t, rf, "orders", 0, 10, 5)
		_, err := rf.Admin().AddStorage(t.Context(), "orders", 4)
		must(t, err)
		_, err = rf.Admin().SwitchProduce(t.Context(), "orders")
		must(t, err)
		heard := make(chan struct{})
		time.AfterFunc(3*time.Second, func() { close(heard) })
		member := s.standing(t, &standing{before: founds, enter: true, deafTo: "topics/", until: heard, during: func() {
			must(t, rf.Admin().DeleteTopic(t.Context(), "orders", nil))
			must(t, rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 2}))
			produce(t, rf, "orders", 0, 20, 5)
			consumeAll(t, rf, 20)
			produce(t, rf, "orders", 20, 20, 5) // the first partitions are longer than those of the earlier topic were
		}})
		old := newRecorder()
		if err := member.Consume(t.Context(), "orders", "ledger", old.handle, nil); !errors.Is(err, ringfence.ErrNotFound) {
			t.Errorf("it ended with %v", err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		r := newRecorder()
		must(t, rf.Consume(ctx, "orders", "ledger", r.handle, nil))
		if n := r.count(); n != 20 || old.count() > 0 {
			t.Errorf("the group of the next topic got %d of 20 records, and the member of the earlier one %d", n, old.count())
		}
		g, err := rf.Admin().DescribeGroup(t.Context(), "ledger")
		must(t, err)
		if len(g.Units) != 2 {
			t.Errorf("it has %d units", len(g.Units))
		}
	})
}

// Who stood still as he was about to change a subscription, or to pause a group, does nothing to the next of its name.
func TestAnOrderForOneLifeIsNotCarriedOutInTheNext(t *testing.T) {
	t.Parallel()
	subscription := func(p registrydriver.Put) bool { return p.Key == "subscriptions/billing" }
	for what, c := range map[string]struct {
		before func(registrydriver.Put) bool
		order  func(*ringfence.Client) error
	}{
		"a limit": {subscription, func(rf *ringfence.Client) error {
			_, err := limit(t, rf, "billing", api.Limits{Rate: 7})
			return err
		}},
		"a pause": {subscription, func(rf *ringfence.Client) error {
			_, err := rf.Admin().PauseSubscription(t.Context(), "billing", nil)
			return err
		}},
		"other shards": {subscription, func(rf *ringfence.Client) error {
			_, err := rf.Admin().ReshardSubscription(t.Context(), "billing", 1, nil)
			return err
		}},
		"a paused group": {func(p registrydriver.Put) bool { return p.Key == "groups/ledger/control" }, func(rf *ringfence.Client) error {
			return rf.Admin().PauseGroup(t.Context(), "ledger", nil)
		}},
	} {
		s := newStores()
		rf := s.open(t)
		must(t, rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 2}))
		produce(t, rf, "orders", 0, 10, 5)
		begin := func() {
			_, err := rf.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{Topic: "orders"})
			must(t, err)
			consumeAll(t, rf, 10)
		}
		begin()
		slow := s.still(t, c.before, func() {
			must(t, rf.Admin().DeleteSubscription(t.Context(), "billing", nil))
			must(t, rf.Admin().DeleteGroup(t.Context(), "ledger", nil))
			begin()
		})
		if err := c.order(slow); !errors.Is(err, ringfence.ErrNotFound) {
			t.Errorf("%s: it ended with %v", what, err)
		}
		d, err := rf.Admin().GetSubscription(t.Context(), "billing")
		must(t, err)
		g, err := rf.Admin().DescribeGroup(t.Context(), "ledger")
		must(t, err)
		if d.Limits != nil || d.Paused != nil || d.Changing() || g.Paused {
			t.Errorf("%s: there is %+v, and the group is paused: %t", what, d, g.Paused)
		}
	}
}
