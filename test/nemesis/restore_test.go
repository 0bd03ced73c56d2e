package nemesis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/fault"
)

// A store that goes back, as one does that is restored from a backup, has forgotten owners whose
// epochs receivers have seen. Those who own the partitions next get higher ones all the same.
func TestNoEpochIsGivenAgainByAStoreThatWasRestored(t *testing.T) {
	t.Parallel()
	for _, s := range allStores(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := &world{t: t, store: s, dir: t.TempDir()}
			url := s.url(t, w)
			if s.prepare != nil {
				s.prepare(t, url)
			}
			r := &receivers{t: t, spec: spec{Dir: filepath.Join(w.dir, "data"), Registry: url}, owners: map[string]string{}, last: map[int]int64{}}
			r.deliver("a")
			restore := save(t, w)
			r.deliver("b")
			r.deliver("c")
			restore()
			r.deliver("d")
			r.deliver("e")
		})
	}
}

// receivers are what handlers write to: they have seen all epochs.
type receivers struct {
	t      *testing.T
	spec   spec
	mu     sync.Mutex
	owners map[string]string // by partition and epoch
	last   map[int]int64     // by partition
}

// deliver has a member process a record of each partition.
func (r *receivers) deliver(member string) {
	r.t.Helper()
	client, err := r.spec.open(r.t.Context(), scenes[0], nil)
	must(r.t, err)
	defer func() {
		if err := client.Close(); err != nil {
			r.t.Error(err)
		}
	}()
	must(r.t, client.EnsureTopic(r.t.Context(), topic, ringfence.TopicConfig{Partitions: partitions}))
	for i := range keyCount {
		_, err := client.Produce(r.t.Context(), topic, ringfence.Message{Key: fmt.Append(nil, i)})
		must(r.t, err)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), healing)
	defer cancel()
	met := map[int]bool{}
	err = client.Consume(ctx, topic, scenes[0].group, func(_ context.Context, m *ringfence.Message) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !met[m.Partition] {
			r.began(m.Partition, m.Epoch, member)
		}
		if met[m.Partition] = true; len(met) == partitions {
			cancel()
		}
		return nil
	}, &ringfence.ConsumeOptions{Member: member, SessionTTL: ttl})
	// A busy machine may not let it leave in order: its units are free when its session ends.
	if err != nil && !errors.Is(err, fault.Unavailable) || len(met) < partitions {
		r.t.Fatalf("%s left with %v, having met the partitions %v of %d", member, err, met, partitions)
	}
}

func (r *receivers) began(partition int, epoch int64, member string) {
	at := fmt.Sprintf("partition %d, epoch %d", partition, epoch)
	if had, ok := r.owners[at]; ok {
		r.t.Errorf("%s was given to %s, and then to %s", at, had, member)
	}
	if epoch <= r.last[partition] {
		r.t.Errorf("%s was given to %s after epoch %d", at, member, r.last[partition])
	}
	r.owners[at], r.last[partition] = member, epoch
}

// save keeps the store as it is, and returns what brings that back. Nobody has it open.
func save(t *testing.T, w *world) (restore func()) {
	t.Helper()
	if w.server != nil {
		back := w.server.Save()
		return func() {
			back()
			if w.store.prepare != nil {
				w.store.prepare(t, w.server.URL())
			}
		}
	}
	// The registry of a directory is a folder in it; that of a file is in files beside the log.
	data, kept := filepath.Join(w.dir, "data", "registry"), filepath.Join(t.TempDir(), "kept")
	if w.store.file {
		data = w.dir
	}
	copyAll := func(from, to string) {
		t.Helper()
		entries, err := os.ReadDir(from)
		w.must(err)
		w.must(os.MkdirAll(to, 0o700))
		for _, e := range entries {
			if e.Type().IsRegular() {
				raw, err := os.ReadFile(filepath.Join(from, e.Name()))
				w.must(err)
				w.must(os.WriteFile(filepath.Join(to, e.Name()), raw, 0o600))
			}
		}
	}
	copyAll(data, kept)
	return func() {
		entries, err := os.ReadDir(data)
		w.must(err)
		for _, e := range entries {
			if e.Type().IsRegular() {
				w.must(os.Remove(filepath.Join(data, e.Name())))
			}
		}
		copyAll(kept, data)
	}
}
