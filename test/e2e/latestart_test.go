package e2e_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/registry"
	registrydriver "github.com/ringfence/ringfence/registry/driver"
)

// tardy is a registry that does not answer the first write of a checkpoint, and gets to see it when
// the test lets it.
type tardy struct {
	registrydriver.Registry
	mu   sync.Mutex
	late []registry.Txn
}

func (d *tardy) Apply(ctx context.Context, txns []registry.Txn) ([]registry.Result, error) {
	d.mu.Lock()
	hold := d.late == nil && txns[0].Quiet && strings.Contains(txns[0].Puts[0].Key, "checkpoints")
	if hold {
		d.late = txns
	}
	d.mu.Unlock()
	if hold {
		return []registry.Result{{Err: registry.ErrUnknown}}, nil
	}
	return d.Registry.Apply(ctx, txns)
}

func (d *tardy) arrive(t *testing.T) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.late == nil {
		t.Fatal("no start was stored")
	}
	_, err := d.Registry.Apply(t.Context(), d.late)
	must(t, err)
}

func TestAStartThatArrivesLateUndoesNothing(t *testing.T) {
	t.Parallel()
	reg, s := &tardy{}, newStores()
	rf := s.openAs(t, process{registry: func(d registrydriver.Registry) registrydriver.Registry {
		reg.Registry = d
		return reg
	}})
	must(t, rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 1}))
	produce(t, rf, "orders", 0, 10, 1)
	got := newRecorder()
	c := consume(t, rf, "orders", "g", got.handle, ringfence.ConsumeOptions{From: ringfence.Latest, CommitInterval: time.Millisecond})
	at := func() int64 {
		info, err := rf.Admin().DescribeGroup(t.Context(), "g")
		if err != nil || len(info.Units) == 0 || len(info.Units[0].Positions) == 0 {
			return -1
		}
		return info.Units[0].Positions[0].Checkpoint
	}
	eventually(t, "a start to be stored", func() bool { return at() == 10 })
	produce(t, rf, "orders", 10, 5, 1)
	got.waitFor(t, 5)
	eventually(t, "the five to be committed", func() bool { return at() == 15 })
	reg.arrive(t)
	if now := at(); now != 15 {
		t.Errorf("the group had committed 15, and is at %d after its start arrived", now)
	}
	c.leave(t)
}
