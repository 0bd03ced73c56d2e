package consumer

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// lazyLog is a log of one topic whose readers see what is not durable.
type lazyLog struct {
	driver.Log
	topic *lazyTopic
}

func (l lazyLog) OpenTopic(context.Context, string) (driver.Topic, error) { return l.topic, nil }

type lazyTopic struct {
	driver.Topic
	doubt  atomic.Uint64
	settle func() error
}

func (*lazyTopic) Config() driver.TopicConfig { return driver.TopicConfig{Name: "t", Partitions: 1} }

func (*lazyTopic) Unsettled() bool { return true }

func (t *lazyTopic) Doubt() uint64 { return t.doubt.Load() }

func (t *lazyTopic) Settle(context.Context) error { return t.settle() }

// unitOn is the settling of a unit that reads a topic.
func unitOn(t *testing.T, on *lazyTopic) *settling {
	t.Helper()
	topic, err := commitlog.New(lazyLog{topic: on}).Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	s := &settling{topics: []*commitlog.Topic{topic}, doubts: []uint64{topic.Doubt()}, advanced: func() {}, log: slog.New(slog.DiscardHandler), wake: make(chan struct{}, 1)}
	return s
}

func upTo(next int64) group.Progress {
	return group.Progress{Positions: []registry.Position{{Next: next}}}
}

// Progress is told once what is below it is durable, and what comes meanwhile waits for the next sync.
func TestProgressWaitsForTheSyncOfItsRecords(t *testing.T) {
	t.Parallel()
	on := &lazyTopic{}
	s := unitOn(t, on)
	if p := s.pass(upTo(5)); p.Positions != nil {
		t.Fatalf("told before any sync: %+v", p)
	}
	on.settle = func() error {
		s.pass(upTo(7)) // while the disk is at work
		return nil
	}
	if err := s.sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p := s.pass(group.Progress{}); len(p.Positions) != 1 || p.Positions[0].Next != 5 {
		t.Errorf("told %+v after a sync that began at 5", p)
	}
	on.settle = func() error { return errors.New("disk error") }
	if s.sync(t.Context()) == nil || s.pass(group.Progress{}).Positions != nil {
		t.Error("told after a sync that failed")
	}
	on.settle = func() error { return nil }
	if s.last(t.Context(), group.Progress{}); s.pass(group.Progress{}).Positions == nil {
		t.Error("what waited is not told at the end")
	}
}

// Other records may have got the offsets of those that were taken back, so nothing that the unit has
// counted is stored, and it begins again at its checkpoint.
func TestAUnitThatReadWhatWasTakenBackTellsNothing(t *testing.T) {
	t.Parallel()
	on := &lazyTopic{settle: func() error { return nil }}
	s := unitOn(t, on)
	lost := make(chan error, 1)
	s.lost = func(err error) { lost <- err }
	s.pass(upTo(5))
	on.doubt.Store(1)
	s.run(t.Context(), nil)
	if err := <-lost; !errors.Is(err, fault.Unknown) {
		t.Errorf("lost with %v", err)
	}
	s.last(t.Context(), upTo(6))
	if p := s.pass(group.Progress{}); p.Positions != nil {
		t.Errorf("told %+v", p)
	}
}
