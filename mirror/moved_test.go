package mirror_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/mirror"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/topic"
)

const elsewhere = "kafka://k1:9092"

// Whoever does anything with a topic that was moved is told where it went, and can't open it again.
func TestASourceThatWasMovedSaysWhereItWent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.to.Name = elsewhere
	w.produce(0, 10)
	follows := make(chan error, 1)
	begun := make(chan struct{}, 8)
	go func() { // received below
		follows <- w.source.Follow(t.Context(), slog.New(slog.DiscardHandler), func() { begun <- struct{}{} })
	}()
	<-begun
	_, err := w.mirror(false).CutOver(t.Context())
	w.must(err)
	c := topic.NewCatalog(w.from.Log, w.from.Registry, "")
	third := w.to
	third.Name = "pulsar://p:6650"
	for what, do := range map[string]func() error{
		"add-storage": func() error { _, err := c.AddStorage(t.Context(), name, 2); return err },
		"switch":      func() error { _, err := c.Switch(t.Context(), name); return err },
		"ensure":      func() error { return c.Create(t.Context(), name, topic.Config{Partitions: 1}) },
		"resume":      func() error { return c.Resume(t.Context(), name, "") },
		"produce":     w.late,
		"consumer":    func() error { return <-follows },
		"abandon":     func() error { return mirror.Abandon(t.Context(), w.from, name, elsewhere) },
		"mirror": func() error {
			m, err := mirror.New(mirror.Config{From: w.from, To: third, Topic: name, Once: true})
			w.must(err)
			return m.Run(t.Context())
		},
	} {
		if err := do(); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "moved to "+elsewhere) {
			t.Errorf("%s: %v; expected a conflict and where the topic is", what, err)
		}
	}
	doc, err := c.Get(t.Context(), name)
	if err != nil || doc.Moved == nil || !doc.Moved.Done || len(doc.Storage) != 1 {
		t.Errorf("the definition at the source: %+v, %v", doc, err)
	}
	there, err := topic.NewCatalog(w.to.Log, w.to.Registry, "").Get(t.Context(), name)
	if err != nil || there.Moved != nil {
		t.Errorf("the definition at the target: %+v, %v", there, err)
	}
	w.must(c.Delete(t.Context(), name, ""))
}

// A move that was begun and fails closes the source, until somebody takes it back.
func TestAMoveThatWasBegunCanBeTakenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.to.Name = elsewhere
	w.produce(0, 10)
	w.must(w.mirror(true).Run(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	from := w.from
	w.from.Log = commitlog.New(sealHook{w.origin.Driver(), nil, func(driver.Topic) error { cancel(); return nil }})
	if _, err := w.mirror(false).CutOver(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("the cut-over that is killed: %v", err)
	}
	w.must(w.from.Log.Close())
	w.from = from
	c := topic.NewCatalog(w.from.Log, w.from.Registry, "")
	if _, err := c.AddStorage(t.Context(), name, 2); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "is being moved to "+elsewhere) {
		t.Errorf("add-storage: %v; expected a conflict and where the topic goes", err)
	}
	w.must(mirror.Abandon(t.Context(), w.from, name, elsewhere))
	_, err := c.AddStorage(t.Context(), name, 2) // the one before is sealed: producers go on here
	w.must(err)
	w.produce(20, 5)
}

// A cut-over is killed at each of its steps, and consumers go on at the target before it is run again:
// their progress stays.
func TestACutOverThatIsRunAgainTakesNoProgressBack(t *testing.T) {
	t.Parallel()
	for stop := 0; ; stop++ {
		w := newWorld(t, 1)
		w.produce(0, 50)
		g, err := protocol.NewGroup(w.from.Registry, "billing")
		w.must(err)
		_, err = g.EnsureMeta(t.Context(), protocol.Meta{Topic: name, Units: 1, Assignor: "sticky"})
		w.must(err)
		w.must(g.Seek(t.Context(), 0, protocol.Checkpoint{Positions: []protocol.Position{{Next: 0}}}, "test"))
		store := memregistry.NewStore()
		hooked := store.Open()
		w.must(w.to.Registry.Close())
		w.to.Registry = hooked.Registry
		var writes atomic.Int64
		hooked.OnApply(func([]string) error {
			if writes.Add(1) > int64(stop) {
				return fault.Closed
			}
			return nil
		})
		_, err = w.mirror(false).CutOver(t.Context())
		hooked.OnApply(nil)
		there, missing := protocol.NewGroup(w.to.Registry, "billing")
		w.must(missing)
		u, missing := there.Unit(t.Context(), 0)
		moved := missing == nil && u.Checkpoint != nil
		if moved { // consumers there have processed some
			w.must(there.Seek(t.Context(), 0, protocol.Checkpoint{Positions: []protocol.Position{{Next: 40}}}, "consumed"))
		}
		_, again := w.mirror(false).CutOver(t.Context())
		w.must(again)
		u, again = there.Unit(t.Context(), 0)
		w.must(again)
		if at := u.Checkpoint.Positions[0].Next; moved && at != 40 || !moved && at != 0 {
			t.Errorf("killed after %d writes (progress was there: %v): the group stands at %d", stop, moved, at)
		}
		if err == nil {
			return
		}
	}
}
