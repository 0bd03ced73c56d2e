package e2e_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/commitlog/driver"
	registrydriver "github.com/ringfence/ringfence/registry/driver"
)

// holders are the groups that hold something of a topic, in stores that several processes open.
type holders struct {
	*stores
	mu     sync.Mutex
	held   map[string]int64
	during func() // is called once, before the next hold is stored; nil: nothing is
}

type heldLog struct {
	driver.Log
	of *holders
}

type heldTopic struct {
	driver.Topic
	of *holders
}

func newHolders() *holders { return &holders{stores: newStores(), held: map[string]int64{}} }

// openAs opens the stores, and notes what is held there.
func (h *holders) openAs(t *testing.T, p process) *ringfence.Client {
	t.Helper()
	p.log = func(d driver.Log) driver.Log { return heldLog{d, h} }
	return h.stores.openAs(t, p)
}

func (l heldLog) OpenTopic(ctx context.Context, name string) (driver.Topic, error) {
	t, err := l.Log.OpenTopic(ctx, name)
	if err != nil {
		return nil, err
	}
	return heldTopic{t, l.of}, nil
}

func (t heldTopic) Hold(ctx context.Context, name string, offsets []int64) error {
	t.of.mu.Lock()
	during := t.of.during
	t.of.during = nil
	t.of.mu.Unlock()
	if during != nil {
		during()
	}
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	if t.of.held[name] = offsets[0]; offsets[0] < 0 {
		delete(t.of.held, name)
	}
	return t.Topic.Hold(ctx, name, offsets)
}

func (h *holders) all() map[string]int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.held)
}

// beforeNext has something happen before the next hold is stored.
func (h *holders) beforeNext(during func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.during = during
}

var limitedTopic = ringfence.TopicConfig{Partitions: 1, RetentionBytes: 1 << 20}

// A member that stands still as it joins makes the group anew of a subscription that was deleted meanwhile. Neither
// the group stays, nor what it held: nobody would ever let the topic drop a record again.
func TestAMemberOfADeletedSubscriptionHoldsNothing(t *testing.T) {
	t.Parallel()
	h := newHolders()
	boss := h.openAs(t, process{})
	must(t, boss.EnsureTopic(t.Context(), "orders", limitedTopic))
	info, err := boss.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{Topic: "orders"})
	must(t, err)
	wrote := make(chan struct{})
	slow := &standing{
		before: func(p registrydriver.Put) bool { return strings.Contains(p.Key, info.Group()) },
		during: func() {
			if err := boss.Admin().DeleteSubscription(t.Context(), "billing", &admin.DeleteSubscriptionOptions{Force: true}); err != nil {
				t.Error(err)
			}
		},
		after: sync.OnceFunc(func() { close(wrote) }), deafTo: "subscriptions/", until: wrote,
	}
	member := h.openAs(t, process{registry: slow.over})
	err = member.Subscribe(t.Context(), "billing", func(context.Context, *ringfence.Message) error { return nil }, nil)
	if !errors.Is(err, ringfence.ErrNotFound) {
		t.Errorf("it ended with %v", err)
	}
	groups, err := boss.Admin().ListGroups(t.Context())
	must(t, err)
	if len(groups) > 0 {
		t.Errorf("there is %+v", groups)
	}
	if held := h.all(); len(held) > 0 {
		t.Errorf("of the topic %v is held", held)
	}
}

// Nobody lives in a group whose last member is about to store what it holds for the last time: so it can be deleted.
func TestAGroupThatIsDeletedAsItsMemberEndsHoldsNothing(t *testing.T) {
	t.Parallel()
	h := newHolders()
	boss, member := h.openAs(t, process{}), h.openAs(t, process{})
	must(t, boss.EnsureTopic(t.Context(), "orders", limitedTopic))
	produce(t, boss, "orders", 0, 1, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err := member.Consume(ctx, "orders", "ledger", func(context.Context, *ringfence.Message) error {
		h.beforeNext(func() {
			if err := boss.Admin().DeleteGroup(t.Context(), "ledger", nil); err != nil {
				t.Error(err)
			}
		})
		stop()
		return nil
	}, nil)
	must(t, err)
	if held := h.all(); len(held) > 0 {
		t.Errorf("of the topic %v is held", held)
	}
}

// A deletion stands still as it is about to release what the group held. Meanwhile the group is made anew, gets ahead
// by some records and has no members again: retention keeps what that needs.
func TestADeletionReleasesNothingOfTheNextGroup(t *testing.T) {
	t.Parallel()
	h := newHolders()
	boss, deleter := h.openAs(t, process{}), h.openAs(t, process{})
	must(t, boss.EnsureTopic(t.Context(), "orders", limitedTopic))
	produce(t, boss, "orders", 0, 10, 1)
	some := func(n int) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		must(t, boss.Consume(ctx, "orders", "ledger", func(context.Context, *ringfence.Message) error {
			if n--; n == 0 {
				stop()
			}
			if n < 0 {
				return errors.New("enough")
			}
			return nil
		}, &ringfence.ConsumeOptions{Concurrency: 1}))
	}
	some(10)
	h.beforeNext(func() { some(3) })
	must(t, deleter.Admin().DeleteGroup(t.Context(), "ledger", nil))
	if held := h.all(); held["ledger"] != 3 {
		t.Errorf("of the topic %v is held", held)
	}
	must(t, deleter.Admin().DeleteGroup(t.Context(), "ledger", nil))
	if held := h.all(); len(held) > 0 {
		t.Errorf("without a group %v is held", held)
	}
}

// stalledMaker is the log of a process that stands still as it is about to make the topic for dead letters of a
// shard set.
type stalledMaker struct {
	driver.Log
	once   sync.Once
	during func()
}

func (l *stalledMaker) CreateTopic(ctx context.Context, c driver.TopicConfig) error {
	if strings.Contains(c.Name, ".dead") {
		l.once.Do(l.during)
	}
	return l.Log.CreateTopic(ctx, c)
}

func TestATurnOfADeletedSubscriptionLeavesNothing(t *testing.T) {
	t.Parallel()
	s, boss := newTopic(t, 2)
	_, err := boss.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{Topic: "orders"})
	must(t, err)
	slow := s.openAs(t, process{log: func(d driver.Log) driver.Log {
		return &stalledMaker{Log: d, during: func() {
			if err := boss.Admin().DeleteSubscription(t.Context(), "billing", nil); err != nil {
				t.Error(err)
			}
		}}
	}})
	if _, err = slow.Admin().ReshardSubscription(t.Context(), "billing", 1, nil); !errors.Is(err, ringfence.ErrNotFound) {
		t.Errorf("the turn ended with %v", err)
	}
	if have := s.of(t, "billing"); len(have) > 0 {
		t.Errorf("there is %q", have)
	}
}

// The hold comes first: what is dropped between the seek and a later hold is what the group was sent
// to. And what was dropped before the hold is not where it is sent.
func TestSeekHoldsBeforeItMoves(t *testing.T) {
	t.Parallel()
	h := newHolders()
	reg := h.reg.Open()
	rf := h.openAs(t, process{handle: reg})
	must(t, rf.EnsureTopic(t.Context(), "orders", limitedTopic))
	produce(t, rf, "orders", 0, 10, 1)
	consumeAll(t, rf, 10)
	if at := h.all()["ledger"]; at != 10 {
		t.Fatalf("the group holds what lies from %d on; expected 10", at)
	}
	h.beforeNext(func() { must(t, raw(t, h.stores, rf, "orders").Trim(t.Context(), 0, 4)) })
	reg.OnApply(func(keys []string) error {
		for _, k := range keys {
			if at := h.all()["ledger"]; strings.Contains(k, "/owner") && at > 4 {
				t.Errorf("%s is written while only what lies from %d on is held", k, at)
			}
		}
		return nil
	})
	to, err := rf.Admin().SeekGroup(t.Context(), "ledger", ringfence.SeekEarliest, nil)
	reg.OnApply(nil)
	if at := h.all()["ledger"]; err != nil || to.Positions[0].Checkpoint != 4 || at != 4 {
		t.Errorf("sent to %+v, %v, while what lies from %d on is held; expected 4, the first that is left", to, err, at)
	}
}
