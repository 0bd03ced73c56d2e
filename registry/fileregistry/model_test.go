package fileregistry

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/internal/vfs"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// TestItBehavesAsTheRegistryInMemory drives random calls through three handles, with generations
// that are full all the time and power losses in between, and compares every answer with
// memregistry's.
func TestItBehavesAsTheRegistryInMemory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := &twins{rt: rt, t: t, fs: vfs.NewMem(rapid.Uint64().Draw(rt, "seed")), mem: memregistry.New(),
			versions: map[string][2][]registry.Version{}}
		defer w.mem.Close()
		w.start()
		for range rapid.IntRange(1, 40).Draw(rt, "calls") {
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0:
				w.stop()
				if rapid.Bool().Draw(rt, "power loss") {
					w.fs = w.fs.Crash()
				}
				w.start()
			case 1, 2:
				w.list(rapid.SampledFrom([]string{"", "a", "a/", "b/1"}).Draw(rt, "prefix"))
			default:
				w.apply()
			}
		}
		w.list("")
		w.stop()
	})
}

type twins struct {
	rt       *rapid.T
	t        *testing.T
	fs       *vfs.Mem
	mem      *registry.Registry
	files    []*registry.Registry
	versions map[string][2][]registry.Version // by key: of file and memory, side by side
}

func (w *twins) start() {
	for range 3 {
		r, err := openFS(w.t, w.fs.Process())
		if err != nil {
			w.rt.Fatal(err)
		}
		w.files = append(w.files, r)
	}
}

func (w *twins) stop() {
	for _, r := range w.files {
		r.Close()
	}
	w.files = nil
}

func (w *twins) any() *registry.Registry {
	return w.files[rapid.IntRange(0, len(w.files)-1).Draw(w.rt, "process")]
}

var modelKeys = []string{"a", "a/1", "a/2", "b/1", "b/2", "c"}

// apply draws transactions for both; their checks name versions by when they were given out.
func (w *twins) apply() {
	var file, mem []registry.Txn
	for range rapid.IntRange(1, 4).Draw(w.rt, "txns") {
		var f, m registry.Txn
		f.Quiet = rapid.Bool().Draw(w.rt, "quiet")
		for _, k := range rapid.SliceOfNDistinct(rapid.SampledFrom(modelKeys), 0, 2, rapid.ID).Draw(w.rt, "checks") {
			given := w.versions[k]
			at := rapid.IntRange(max(-1, len(given[0])-2), len(given[0])-1).Draw(w.rt, "version")
			fc, mc := registry.Check{Key: k}, registry.Check{Key: k}
			if at >= 0 {
				fc.Version, mc.Version = given[0][at], given[1][at]
			}
			f.Checks, m.Checks = append(f.Checks, fc), append(m.Checks, mc)
		}
		for i, k := range rapid.SliceOfNDistinct(rapid.SampledFrom(modelKeys), 1, 4, rapid.ID).Draw(w.rt, "writes") {
			if i%3 == 2 {
				f.Deletes = append(f.Deletes, k)
				continue
			}
			f.Puts = append(f.Puts, registry.Put{Key: k, Value: rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(w.rt, "value")})
		}
		m.Puts, m.Deletes = f.Puts, f.Deletes
		file, mem = append(file, f), append(mem, m)
	}
	got, err := w.any().Apply(w.t.Context(), file)
	if err != nil {
		w.rt.Fatal(err)
	}
	want, err := w.mem.Apply(w.t.Context(), mem)
	if err != nil {
		w.rt.Fatal(err)
	}
	for i := range want {
		if (got[i].Err == nil) != (want[i].Err == nil) || got[i].Failed != want[i].Failed ||
			errors.Is(got[i].Err, registry.ErrConflict) != errors.Is(want[i].Err, registry.ErrConflict) {
			w.rt.Fatalf("transaction %d: %+v, expected %+v", i, got[i], want[i])
		}
		for j := range want[i].Versions {
			k := file[i].Puts[j].Key
			v := w.versions[k]
			v[0], v[1] = append(v[0], got[i].Versions[j]), append(v[1], want[i].Versions[j])
			w.versions[k] = v
		}
	}
}

func (w *twins) list(prefix string) {
	got, err := w.any().List(w.t.Context(), prefix)
	if err != nil {
		w.rt.Fatal(err)
	}
	want, err := w.mem.List(w.t.Context(), prefix)
	if err != nil {
		w.rt.Fatal(err)
	}
	line := func(s registry.Snapshot) (out string) {
		for _, e := range s.Entries {
			out += fmt.Sprintf("%s=%x ", e.Key, e.Value)
		}
		return out
	}
	if line(got) != line(want) {
		w.rt.Fatalf("list of %q: %s, expected %s", prefix, line(got), line(want))
	}
}
