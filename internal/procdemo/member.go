package procdemo

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
	commitlogdriver "github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/history"
	"github.com/ringfence/ringfence/registry"
	registrydriver "github.com/ringfence/ringfence/registry/driver"
)

// MemberConfig is what one consumer of the demo is told.
type MemberConfig struct {
	Name    string
	Topic   string
	Group   string
	TTL     time.Duration // of its session: how long it may be stopped until it is dead
	Work    time.Duration // that one record takes
	Logger  *slog.Logger
	Tell    func(history.Event) // gets the history, event by event, before the member goes on
	Log     *commitlog.Log
	Store   *registry.Registry
	Pass    func()                            // waits while the member is frozen; nil: never
	OnReady func(haunt func(context.Context)) // called before it starts to consume
}

// RunMember consumes until ctx ends, and tells the history all that it does.
func RunMember(ctx context.Context, c MemberConfig) error {
	g, err := c.Store.Group(c.Group)
	if err != nil {
		return err
	}
	if c.Pass == nil {
		c.Pass = func() {}
	}
	o := newObserver(c.Store, g, c.Name, c.Tell, c.Pass)
	rf, err := ringfence.Open(ctx, ringfence.Config{
		Log: observed + ":", Registry: observed + ":", Backends: []ringfence.Backend{observedBackend(c.Log, o)}, Logger: c.Logger,
	})
	if err != nil {
		return err
	}
	if c.OnReady != nil {
		c.OnReady(o.haunt)
	}
	m := member{MemberConfig: c, observer: o}
	err = rf.Consume(ctx, c.Topic, c.Group, m.handle, &ringfence.ConsumeOptions{
		Member: c.Name, SessionTTL: c.TTL, Concurrency: 4, CommitInterval: 20 * time.Millisecond, DrainTimeout: 5 * time.Second,
	})
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
}

// handle processes one record: it takes a moment, and the history is told before and after.
func (m *member) handle(ctx context.Context, msg *ringfence.Message) error {
	e := history.Event{
		Kind: history.Started, Member: m.Name, Incarnation: m.observer.at(msg.Partition, msg.Epoch),
		Unit: msg.Partition, Epoch: msg.Epoch, Storage: msg.Storage, Partition: msg.Partition, Offset: msg.Offset,
		Key: history.Key(msg.Key), Value: fingerprint(msg.Key, msg.Value),
	}
	m.Tell(e)
	timer := time.NewTimer(m.Work)
	defer timer.Stop()
	e.Kind = history.Finished
	var err error
	select {
	case <-timer.C:
	case <-ctx.Done():
		e.Kind, err = history.Failed, context.Cause(ctx)
	}
	m.Pass()
	m.Tell(e)
	return err
}

// fingerprint tells one record's content from another's.
func fingerprint(key, value []byte) uint64 {
	d := xxhash.New()
	_, _ = d.Write(key) // never fails
	_, _ = d.Write([]byte{0})
	_, _ = d.Write(value)
	return d.Sum64()
}
