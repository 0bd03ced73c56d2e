package e2e_test

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
	registrydriver "github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// holdLog is a log whose retention drops as much as it may just before a hold is stored.
type holdLog struct {
	driver.Log

	mu    sync.Mutex
	held  int64 // partition 0, by whoever asked last
	trims int64 // what partition 0 loses before the next hold; 0: nothing
}

type holdTopic struct {
	driver.Topic
	log *holdLog
}

func (l *holdLog) OpenTopic(ctx context.Context, name string) (driver.Topic, error) {
	t, err := l.Log.OpenTopic(ctx, name)
	if err != nil {
		return nil, err
	}
	return holdTopic{t, l}, nil
}

func (t holdTopic) Hold(ctx context.Context, name string, offsets []int64) error {
	l := t.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.trims > 0 {
		if err := t.Trim(ctx, 0, l.trims); err != nil {
			return err
		}
		l.trims = 0
	}
	l.held = offsets[0]
	return t.Topic.Hold(ctx, name, offsets)
}

func (l *holdLog) at() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// heldGroup is a group that has processed the ten records of its topic, and holds what comes.
func heldGroup(t *testing.T) (*holdLog, *memregistry.Handle, *ringfence.Client) {
	t.Helper()
	log := &holdLog{Log: memlog.NewStore(nil).Driver()}
	h := memregistry.NewStore().Open()
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Log: "held:", Registry: "held:", Backends: []ringfence.Backend{{
		Scheme: "held",
		OpenLog: func(context.Context, *url.URL, driver.Options) (*commitlog.Log, error) {
			return commitlog.New(log), nil
		},
		OpenRegistry: func(context.Context, *url.URL, registrydriver.Options) (*registry.Registry, error) {
			return h.Registry, nil
		},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rf.Close() })
	if err := rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 1, RetentionBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	got := newRecorder()
	produce(t, rf, "orders", 0, 10, 1)
	c := consume(t, rf, "orders", "g", got.handle, ringfence.ConsumeOptions{})
	got.waitFor(t, 10)
	c.leave(t)
	if at := log.at(); at != 10 {
		t.Fatalf("the group holds what lies from %d on; expected 10", at)
	}
	return log, h, rf
}

// The hold comes first: what is dropped between the seek and a later hold is what the group was sent
// to. And what was dropped before the hold is not where it is sent.
func TestASeekHoldsBeforeItMoves(t *testing.T) {
	t.Parallel()
	log, h, rf := heldGroup(t)
	log.trims = 4
	h.OnApply(func(keys []string) error {
		for _, k := range keys {
			if strings.Contains(k, "/owner") && log.at() > 4 {
				t.Errorf("%s is written while only what lies from %d on is held", k, log.at())
			}
		}
		return nil
	})
	to, err := rf.Admin().SeekGroup(t.Context(), "g", ringfence.SeekEarliest, nil)
	h.OnApply(nil)
	if err != nil || to.Positions[0].Checkpoint != 4 || log.at() != 4 {
		t.Errorf("sent to %+v, %v, while what lies from %d on is held; expected 4, the first that is left", to, err, log.at())
	}
}

// Nobody knows what a group needs of a partition whose checkpoint can't be read: it is where it is sent.
func TestASeekOfWhatCannotBeReadHoldsBeforeItMoves(t *testing.T) {
	t.Parallel()
	log, h, rf := heldGroup(t)
	g, err := protocol.NewGroup(h.Registry, "g")
	if err != nil {
		t.Fatal(err)
	}
	e, err := h.Get(t.Context(), g.CheckpointKey(0))
	if err == nil {
		_, err = h.Txn(t.Context(), registry.Txn{Checks: []registry.Check{{Key: e.Key, Version: e.Version}}, Puts: []registry.Put{{Key: e.Key, Value: []byte("{")}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	h.OnApply(func(keys []string) error {
		for _, k := range keys {
			if strings.Contains(k, "/owner") && log.at() != 6 {
				t.Errorf("%s is written while what lies from %d on is held; expected 6", k, log.at())
			}
		}
		return nil
	})
	to, err := rf.Admin().SeekGroup(t.Context(), "g", ringfence.SeekOffset(6), nil)
	h.OnApply(nil)
	if err != nil || to.Positions[0].Checkpoint != 6 || log.at() != 6 {
		t.Errorf("sent to %+v, %v, while what lies from %d on is held", to, err, log.at())
	}
}
