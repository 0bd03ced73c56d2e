package mirror_test

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/group/protocol/protocoltest"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/topic"
)

// After a cut-over within one registry the checkpoints are places in the new log. Whoever still has
// the old one is told so, and reads and deletes nothing.
func TestTheOldLogIsNotTakenForTheNewOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.share()
	w.produce(0, 20)
	follows := make(chan error, 1)
	begun := make(chan struct{}, 8)
	go func() {
		follows <- w.source.Follow(t.Context(), slog.New(slog.DiscardHandler), func() { begun <- struct{}{} })
	}()
	<-begun
	_, err := w.mirror(false).CutOver(t.Context())
	w.must(err)
	if err := <-follows; !errors.Is(err, fault.Conflict) {
		t.Errorf("a consumer that runs at the old log is told: %v", err)
	}
	_, err = topic.NewCatalog(w.from.Log, w.from.Registry, "").Open(t.Context(), name)
	if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "moved to another log") {
		t.Errorf("the topic is opened at the old log: %v", err)
	}
	if err := w.late(); !errors.Is(err, fault.Sealed) {
		t.Errorf("a producer at the old log: %v", err)
	}
	there, err := topic.NewCatalog(w.to.Log, w.to.Registry, "").Open(t.Context(), name)
	w.must(err)
	w.must(there.Close())
	w.wantSame(0)
}

// member makes somebody a member of a group.
func (w *world) member(g *protocol.Group) registry.Session {
	w.Helper()
	s, err := w.from.Registry.OpenSession(w.Context(), 1e9)
	w.must(err)
	_, err = protocoltest.Join(w.Context(), g, s, protocol.Member{ID: "m1", Incarnation: "i"})
	w.must(err)
	return s
}

// A consumer that is started while the last records are copied has its group moved under it neither
// then nor, when it had opened the topic before the definition was changed, afterwards.
func TestACutOverSeesConsumersThatAreStartedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"/copies/", "topics/", "checkpoints/"} {
		t.Run(strings.Trim(when, "/"), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			hooked := w.home.Open()
			w.from.Registry = hooked.Registry
			w.share()
			w.produce(0, 50)
			g, err := protocol.NewGroup(w.from.Registry, "billing")
			w.must(err)
			_, err = g.EnsureMeta(t.Context(), protocol.Meta{Topic: name, Units: 1, Assignor: "sticky"})
			w.must(err)
			source := w.contents(w.from, 0)[0]
			at := protocol.Position{Next: source[30].Offset}
			w.must(g.Seek(t.Context(), 0, protocol.Checkpoint{Positions: []protocol.Position{at}}, "test"))
			var s registry.Session
			hooked.OnApply(func(keys []string) error {
				if s == nil && strings.Contains(strings.Join(keys, " "), when) {
					hooked.OnApply(nil)
					s = w.member(g)
				}
				return nil
			})
			if _, err := w.mirror(false).CutOver(t.Context()); !errors.Is(err, fault.Conflict) || s == nil {
				t.Fatalf("a cut-over during which a consumer was started: %v", err)
			}
			if when == "checkpoints/" { // it had opened the topic before, and stores a place at the source
				w.must(g.Seek(t.Context(), 0, protocol.Checkpoint{Positions: []protocol.Position{{Next: source[5].Offset}}}, "test"))
			}
			w.must(s.Close(t.Context()))
			_, err = w.mirror(false).CutOver(t.Context())
			w.must(err)
			u, err := g.Unit(t.Context(), 0)
			w.must(err)
			if got, want := unfinished(w.contents(w.to, 0)[0], u.Checkpoint.Positions[0]), unfinished(source, at); !slices.Equal(got, want) {
				t.Errorf("left to do: %v; want %v", got, want)
			}
		})
	}
}
