package consumer

import (
	"context"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/registry"
)

// A unit whose topic is at rest may still finish what it has parked: its journal is needed from a later
// place then, which has to be stored, or the journal is kept for ever.
func TestAQuietUnitTellsWhereItsJournalIsNeededFrom(t *testing.T) {
	t.Parallel()
	log := memlog.New()
	defer log.Close()
	if err := log.CreateTopic(t.Context(), commitlog.TopicConfig{Name: "t", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	topic, err := log.Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	defer topic.Close()
	engine, err := dispatch.New(dispatch.Config{
		Name: "0", Inputs: []dispatch.Input{{Source: dispatch.Partition(topic, 0)}},
		Handler: func(context.Context, *dispatch.Record) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	from := int64(7)
	p := &progressOf{engine: engine, start: []registry.Position{{Next: 3}}, journal: func(at []registry.Position) int64 {
		if len(at) != 1 || at[0].Next != 3 {
			t.Errorf("it was asked for %+v", at)
		}
		return from
	}}
	for _, c := range []struct{ from, told int64 }{{7, 7}, {7, 0}, {9, 9}, {9, 0}} {
		from = c.from
		got := p.now()
		if got.From != c.told || (len(got.Positions) > 0) != (c.told > 0) {
			t.Errorf("needed from %d: told %+v", c.from, got)
		}
	}
}
