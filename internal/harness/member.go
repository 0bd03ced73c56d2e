package harness

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
	commitlogdriver "github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/history"
	"github.com/ringfence/ringfence/registry"
	registrydriver "github.com/ringfence/ringfence/registry/driver"
)

// MemberConfig is the configuration of one consumer.
type MemberConfig struct {
	Name   string
	Topic  string
	Group  string
	TTL    time.Duration // of its session: how long it may be stopped until it is dead
	Work   time.Duration // that one record takes
	Logger *slog.Logger
	Tell   func(history.Event) // gets the history, event by event, before the member goes on
	// The stores, as a client has them open, and the namespace that it has them open in.
	Log       *commitlog.Log
	Store     *registry.Registry
	Namespace string
	// Sequence is the number of a record among those of its key, when its producer gave it one; nil: it did not.
	Sequence func(*ringfence.Message) int64
	Pass     func()                            // waits while the member is frozen; nil: never
	OnReady  func(haunt func(context.Context)) // called before it starts to consume
}

// RunMember consumes until ctx ends (nil), and tells the history all that it does.
func RunMember(ctx context.Context, c MemberConfig) error {
	g, err := protocol.NewGroup(c.Store, c.Group)
	if err != nil {
		return err
	}
	if c.Pass == nil {
		c.Pass = func() {}
	}
	o := newObserver(c.Store, g, c.Name, c.Tell, c.Pass)
	rf, err := ringfence.Open(ctx, ringfence.Config{
		Log: observed + ":", Registry: observed + ":", Namespace: c.Namespace, Backends: []ringfence.Backend{observedBackend(c.Log, o)}, Logger: c.Logger,
	})
	if err != nil {
		return err
	}
	if c.OnReady != nil {
		c.OnReady(o.haunt)
	}
	m := member{MemberConfig: c, observer: o, units: units{rf: rf, topic: c.Topic}}
	err = rf.Consume(ctx, c.Topic, c.Group, m.handle, &ringfence.ConsumeOptions{
		Member: c.Name, SessionTTL: c.TTL, Concurrency: 4, CommitInterval: 20 * time.Millisecond, DrainTimeout: 5 * time.Second,
	})
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // it was told to end before it had begun to consume
	}
	return errors.Join(err, rf.Close())
}

// observed is the scheme of a log and a registry that are open already.
const observed = "observed"

func observedBackend(log *commitlog.Log, o *observer) ringfence.Backend {
	return ringfence.Backend{
		Scheme: observed,
		OpenLog: func(context.Context, *url.URL, commitlogdriver.Options) (*commitlog.Log, error) {
			return log, nil
		},
		OpenRegistry: func(context.Context, *url.URL, registrydriver.Options) (*registry.Registry, error) {
			return registry.New(o), nil
		},
	}
}

type member struct {
	MemberConfig
	observer *observer
	units    units
}

// handle processes one record: it takes a moment, and the history has it before and after.
func (m *member) handle(ctx context.Context, msg *ringfence.Message) error {
	unit, err := m.units.of(ctx, msg.Storage, msg.Partition)
	if err != nil {
		return err
	}
	e := history.Event{
		Kind: history.Started, Member: m.Name, Incarnation: m.observer.at(unit, msg.Epoch),
		Unit: unit, Epoch: msg.Epoch, Storage: msg.Storage, Partition: msg.Partition, Offset: msg.Offset,
		Key: history.Key(msg.Key), Value: Fingerprint(msg.Key, msg.Value), Token: msg.Token(),
	}
	if m.Sequence != nil {
		e.Sequence = m.Sequence(msg)
	}
	m.Tell(e)
	timer := time.NewTimer(m.Work)
	defer timer.Stop()
	e.Kind = history.Finished
	select {
	case <-timer.C:
	case <-ctx.Done():
		e.Kind, err = history.Failed, context.Cause(ctx)
	}
	m.Pass()
	m.Tell(e)
	return err
}

// Fingerprint tells one record's content from another's.
func Fingerprint(key, value []byte) uint64 {
	d := xxhash.New()
	_, _ = d.Write(key) // never fails
	_, _ = d.Write([]byte{0})
	_, _ = d.Write(value)
	return d.Sum64()
}

// units numbers the partitions of all storage topics of a topic, as its groups do.
type units struct {
	rf    *ringfence.Client
	topic string

	mu     sync.Mutex
	before []int // partitions before those of each storage topic; looked up again when it has grown
}

func (u *units) of(ctx context.Context, storage, partition int) (int, error) {
	if storage == 0 {
		return partition, nil
	}
	u.mu.Lock()
	known := u.before
	u.mu.Unlock()
	if storage >= len(known) {
		info, err := u.rf.Admin().DescribeTopic(ctx, u.topic)
		if err != nil {
			return 0, err
		}
		known = make([]int, len(info.Storage))
		for i := range len(known) - 1 {
			known[i+1] = known[i] + info.Storage[i].Size
		}
		if storage >= len(known) {
			return 0, fmt.Errorf("topic %q has no storage topic %d: %w", u.topic, storage, fault.NotFound)
		}
		u.mu.Lock()
		u.before = known
		u.mu.Unlock()
	}
	return known[storage] + partition, nil
}
