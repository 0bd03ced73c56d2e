package back

import (
	"path/filepath"
	"testing"

	"github.com/ringfence/ringfence"
)

// It is not the registry that went back, but the log: the error has both numbers, and nothing is passed over.
func TestALogThatIsOlderThanItsRegistryIsTold(t *testing.T) {
	t.Parallel()
	dir, kept := filepath.Join(t.TempDir(), "log"), filepath.Join(t.TempDir(), "kept")
	w := newWorld(t, pasts()["file"], "file://"+dir, false)
	w.topic(ringfence.TopicConfig{Partitions: 1})
	w.put(10)
	w.eat("g", ringfence.Earliest, 0)
	w.close()
	replace(t, dir, kept)
	w.put(10)
	w.eat("g", ringfence.Earliest, 10)
	w.close()
	replace(t, kept, dir)
	w.acked = w.acked[:10]
	m := w.consume(w.rf(), "g", ringfence.Earliest)
	w.refused(<-m.done, ringfence.ErrCorrupt, "offset 10", "offset 20")
	if len(m.got) > 0 {
		t.Errorf("it got %v", m.got)
	}
}
