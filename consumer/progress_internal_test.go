package consumer

import (
	"context"
	"runtime"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group/protocol"
)

// A unit whose topic is at rest may still finish what it has parked: its journal is needed from a later
// place then, which has to be stored, or the journal is kept for ever.
func TestAQuietUnitTellsWhereItsJournalIsNeededFrom(t *testing.T) {
	t.Parallel()
	engine := anEngine(t)
	from := int64(7)
	p := &progressOf{engine: engine, start: []protocol.Position{{Next: 3}}, journal: func(at []protocol.Position) int64 {
		if len(at) != 1 || at[0].Next != 3 {
			t.Errorf("it was asked for %+v", at)
		}
		return from
	}, deliveries: func() *protocol.Deliveries { return nil }}
	for _, c := range []struct{ from, told int64 }{{7, 7}, {7, 0}, {9, 9}, {9, 0}} {
		from = c.from
		got := p.now()
		if got.From != c.told || (len(got.Positions) > 0) != (c.told > 0) {
			t.Errorf("needed from %d: told %+v", c.from, got)
		}
	}
}

// anEngine is one of a partition without a record, which does not run.
func anEngine(t *testing.T) *dispatch.Engine {
	t.Helper()
	log := memlog.New()
	t.Cleanup(func() { _ = log.Close() })
	if err := log.CreateTopic(t.Context(), commitlog.TopicConfig{Name: "t", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	topic, err := log.Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = topic.Close() })
	engine, err := dispatch.New(dispatch.Config{
		Name: "0", Inputs: []dispatch.Input{{Source: dispatch.Partition(topic, 0)}},
		Handler: func(context.Context, *dispatch.Record) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// People hear what there is to tell though nothing was finished yet, once.
func TestAUnitThatHasFinishedNothingTellsPeople(t *testing.T) {
	t.Parallel()
	engine := anEngine(t)
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- engine.Run(ctx) }()
	for len(engine.Progress().Positions) == 0 { // it has to find out where the partition begins
		runtime.Gosched()
	}
	stop()
	<-over
	first, second := &protocol.Deliveries{At: 1}, &protocol.Deliveries{At: 2}
	now := (*protocol.Deliveries)(nil)
	p := &progressOf{engine: engine, journal: func([]protocol.Position) int64 { return 0 }, deliveries: func() *protocol.Deliveries { return now }}
	p.version.Store(engine.Version())
	for i, c := range []struct{ now, told *protocol.Deliveries }{{nil, nil}, {first, first}, {first, nil}, {second, second}, {second, nil}} {
		now = c.now
		if got := p.now(); got.Deliveries != c.told || (len(got.Positions) == 1) != (c.told != nil) {
			t.Errorf("step %d: told %+v", i, got)
		}
	}
	now = nil
	if got := p.now(); got.Deliveries != nil || len(got.Positions) != 1 {
		t.Errorf("that there is nothing more to tell is not told: %+v", got)
	}
}
