package back

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
)

// It is not the registry that went back, but the log: the error has the places, and nothing is passed over, also when the
// log has grown since.
func TestALogThatIsOlderThanItsRegistryIsTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		grown int
		names []string
	}{"Shorter": {0, []string{"offset 10", "offset 20"}}, "Grown": {15, []string{"offset 19"}}} {
		t.Run("Group"+name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pasts()["file"], "", false)
			w.topic(ringfence.TopicConfig{Partitions: 1})
			w.logGoesBack(c.grown, func() { w.eat("g", ringfence.Earliest, len(w.acked)-10) })
			m := w.consume(w.rf(), "g", ringfence.Earliest)
			w.refused(w.ends(m), ringfence.ErrCorrupt, c.names...)
			g, err := w.rf().Admin().DescribeGroup(w.Context(), "g")
			must(t, err)
			if at := g.Units[0].Positions[0]; len(m.got) > 0 || !strings.Contains(at.Damaged, "the log went back") {
				t.Errorf("it got %v, and its place is %+v", m.got, at)
			}
			_, err = w.rf().Admin().SeekGroup(w.Context(), "g", ringfence.SeekOffset(10), nil)
			must(t, err)
			w.eat("g", ringfence.Earliest, 11)
			w.judge(0)
		})
		t.Run("Subscription"+name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pasts()["file"], "", false)
			w.topic(ringfence.TopicConfig{Partitions: 1})
			w.ensure(ringfence.Earliest)
			w.logGoesBack(c.grown, func() {
				m := w.subscribe(nil)
				w.await(len(w.acked)-10, m)
				must(t, m.end())
			})
			m := w.subscribe(nil)
			w.refused(w.ends(m), ringfence.ErrCorrupt, c.names...)
			if len(m.got) > 0 {
				t.Errorf("it got %v", m.got)
			}
		})
	}
}

// logGoesBack has ten records done, and another ten, puts back the log as it was between, and lets it grow.
func (w *world) logGoesBack(grown int, done func()) {
	w.Helper()
	dir, kept := strings.TrimPrefix(w.config.Log, "file://"), filepath.Join(w.TempDir(), "kept")
	w.put(10)
	done()
	w.close()
	replace(w.T, dir, kept)
	w.put(10)
	done()
	w.close()
	replace(w.T, kept, dir)
	w.acked = w.acked[:10]
	w.put(grown)
}

// ends is what a member ends with by itself.
func (w *world) ends(m *member) error {
	w.Helper()
	select {
	case err := <-m.done:
		return err
	case <-time.After(late):
		w.Fatal("the member goes on")
		return nil
	}
}
