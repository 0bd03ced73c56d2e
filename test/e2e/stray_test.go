package e2e_test

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/memlog"
	registrypkg "github.com/ringfence/ringfence/registry"
	registrydriver "github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// stalled is a registry whose process stands still as it is about to write about a group for the first time.
type stalled struct {
	registrydriver.Registry
	group  string
	once   sync.Once
	during func()
	wrote  chan struct{} // closed when it has
}

// Watch tells of definitions only then.
func (s *stalled) Watch(ctx context.Context, prefix string) (<-chan struct{}, error) {
	if strings.HasPrefix(prefix, "subscriptions/") {
		select {
		case <-s.wrote:
		case <-ctx.Done():
		}
	}
	return s.Registry.Watch(ctx, prefix)
}

func (s *stalled) Apply(ctx context.Context, txns []registrydriver.Txn) ([]registrydriver.Result, error) {
	if !slices.ContainsFunc(txns, func(txn registrydriver.Txn) bool {
		return slices.ContainsFunc(txn.Puts, func(p registrydriver.Put) bool { return strings.Contains(p.Key, s.group) })
	}) {
		return s.Registry.Apply(ctx, txns)
	}
	s.once.Do(s.during)
	out, err := s.Registry.Apply(context.WithoutCancel(ctx), txns)
	select {
	case <-s.wrote:
	default:
		close(s.wrote) // writes of a group come one after the other
	}
	return out, err
}

// holders are the groups that hold something of a topic.
type holders struct {
	driver.Log
	mu     sync.Mutex
	held   map[string]int64
	during func() // is called once, before the next hold is stored; nil: nothing is
}

type holdersTopic struct {
	driver.Topic
	of *holders
}

func (l *holders) OpenTopic(ctx context.Context, name string) (driver.Topic, error) {
	t, err := l.Log.OpenTopic(ctx, name)
	if err != nil {
		return nil, err
	}
	return holdersTopic{t, l}, nil
}

func (t holdersTopic) Hold(ctx context.Context, name string, offsets []int64) error {
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

func (l *holders) all() map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.held)
}

// heldStores are stores of which is known what is held.
func heldStores() (*holders, func(*testing.T, func(registrydriver.Registry) registrydriver.Registry) *ringfence.Client) {
	log, reg := &holders{Log: memlog.NewStore(nil).Driver(), held: map[string]int64{}}, memregistry.NewStore()
	return log, func(t *testing.T, wrap func(registrydriver.Registry) registrydriver.Registry) *ringfence.Client {
		t.Helper()
		rf, err := ringfence.Open(t.Context(), ringfence.Config{Log: "held:", Registry: "held:", Backends: []ringfence.Backend{{
			Scheme: "held",
			OpenLog: func(context.Context, *url.URL, driver.Options) (*commitlog.Log, error) {
				return commitlog.New(log), nil
			},
			OpenRegistry: func(context.Context, *url.URL, registrydriver.Options) (*registrypkg.Registry, error) {
				if wrap == nil {
					return reg.Open().Registry, nil
				}
				return registrypkg.New(wrap(reg.Open().Registry)), nil
			},
		}}})
		must(t, err)
		t.Cleanup(func() { must(t, rf.Close()) })
		return rf
	}
}

// A member that stands still as it joins makes the group anew of a subscription that was deleted meanwhile. Neither
// the group stays, nor what it held: nobody would ever let the topic drop a record again.
func TestAMemberOfADeletedSubscriptionHoldsNothing(t *testing.T) {
	t.Parallel()
	log, open := heldStores()
	boss := open(t, nil)
	must(t, boss.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 1, RetentionBytes: 1 << 20}))
	info, err := boss.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{Topic: "orders"})
	must(t, err)
	member := open(t, func(d registrydriver.Registry) registrydriver.Registry {
		return &stalled{Registry: d, wrote: make(chan struct{}), group: info.Group(), during: func() {
			if err := boss.Admin().DeleteSubscription(t.Context(), "billing", &admin.DeleteSubscriptionOptions{Force: true}); err != nil {
				t.Error(err)
			}
		}}
	})
	err = member.Subscribe(t.Context(), "billing", func(context.Context, *ringfence.Message) error { return nil }, nil)
	if !errors.Is(err, ringfence.ErrNotFound) {
		t.Errorf("it ended with %v", err)
	}
	groups, err := boss.Admin().ListGroups(t.Context())
	must(t, err)
	if len(groups) > 0 {
		t.Errorf("there is %+v", groups)
	}
	if held := log.all(); len(held) > 0 {
		t.Errorf("of the topic %v is held", held)
	}
}

// Nobody lives in a group whose last member is about to store what it holds for the last time: so it can be deleted.
func TestAGroupThatIsDeletedAsItsMemberEndsHoldsNothing(t *testing.T) {
	t.Parallel()
	log, open := heldStores()
	boss, member := open(t, nil), open(t, nil)
	must(t, boss.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 1, RetentionBytes: 1 << 20}))
	produce(t, boss, "orders", 0, 1, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err := member.Consume(ctx, "orders", "ledger", func(context.Context, *ringfence.Message) error {
		log.mu.Lock()
		defer log.mu.Unlock()
		log.during = func() {
			if err := boss.Admin().DeleteGroup(t.Context(), "ledger", nil); err != nil {
				t.Error(err)
			}
		}
		stop()
		return nil
	}, nil)
	must(t, err)
	if held := log.all(); len(held) > 0 {
		t.Errorf("of the topic %v is held", held)
	}
}

// A deletion stands still as it is about to release what the group held. Meanwhile the group is made anew, gets ahead
// by some records and has no members again: retention keeps what that needs.
func TestADeletionReleasesNothingOfTheNextGroup(t *testing.T) {
	t.Parallel()
	log, open := heldStores()
	boss, deleter := open(t, nil), open(t, nil)
	must(t, boss.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 1, RetentionBytes: 1 << 20}))
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
	log.mu.Lock()
	log.during = func() { some(3) }
	log.mu.Unlock()
	must(t, deleter.Admin().DeleteGroup(t.Context(), "ledger", nil))
	if held := log.all(); held["ledger"] != 3 {
		t.Errorf("of the topic %v is held", held)
	}
	must(t, deleter.Admin().DeleteGroup(t.Context(), "ledger", nil))
	if held := log.all(); len(held) > 0 {
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
	log := &stalledMaker{Log: s.log.Driver(), during: func() {
		if err := boss.Admin().DeleteSubscription(t.Context(), "billing", nil); err != nil {
			t.Error(err)
		}
	}}
	slow, err := ringfence.Open(t.Context(), ringfence.Config{Log: "slow:", Registry: "slow:", Backends: []ringfence.Backend{{
		Scheme: "slow",
		OpenLog: func(context.Context, *url.URL, driver.Options) (*commitlog.Log, error) {
			return commitlog.New(log), nil
		},
		OpenRegistry: func(context.Context, *url.URL, registrydriver.Options) (*registrypkg.Registry, error) {
			return s.reg.Open().Registry, nil
		},
	}}})
	must(t, err)
	defer func() { must(t, slow.Close()) }()
	if _, err = slow.Admin().ReshardSubscription(t.Context(), "billing", 1, nil); !errors.Is(err, ringfence.ErrNotFound) {
		t.Errorf("the turn ended with %v", err)
	}
	if have := s.of(t, "billing"); len(have) > 0 {
		t.Errorf("there is %q", have)
	}
}
