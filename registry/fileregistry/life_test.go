package fileregistry

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/hook"
	"github.com/ringfence/ringfence/internal/vfs"
	"github.com/ringfence/ringfence/registry"
)

func TestOpeningEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem(1)
		mustOpenFS(t, mem).Close()
		gate, err := mem.OpenFile(dirName+"/"+openLock, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := gate.TryLock(true); !ok || err != nil {
			t.Fatal(ok, err)
		}
		sign(gate, 4711)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		_, err = Open(ctx, Config{FS: mem})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "process 4711 is opening the registry") {
			t.Errorf("opening beside a process that is stopped while it opens: %v", err)
		}
		if took := time.Since(start); took > 3*time.Second+lockEvery {
			t.Errorf("it took %s", took)
		}
		gate.Close()
		if _, err = Open(ctx, Config{FS: mem}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("opening when it is over already: %v", err)
		}
		mustOpenFS(t, mem)
	})
}

// Whoever has the registry open has recovered it, or believes somebody who lives.
func TestOpeningNeedsNotTheWriteLock(t *testing.T) {
	inBubble(t, func(t *testing.T, s *store, r *registry.Registry) {
		if _, err := r.Txn(t.Context(), aPut); err != nil {
			t.Fatal(err)
		}
		defer hold(t, s, 1)()
		start := time.Now()
		joined, err := Open(t.Context(), Config{FS: s.fs})
		if err != nil {
			t.Fatal(err)
		}
		defer joined.Close()
		if got := content(t, registry.New(mustStore(t, s.fs))); got != "k=v" || time.Since(start) > 0 {
			t.Errorf("beside a stopped writer, %s later, it reads %q", time.Since(start), got)
		}
	})
}

func mustStore(t *testing.T, fsys vfs.FS) *store {
	t.Helper()
	s, err := open(new(hook.Gate).With(t.Context()), Config{FS: fsys, space: tiny})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// page reads the control file, or makes it what it was.
func page(t *testing.T, fsys vfs.FS, old []byte) []byte {
	t.Helper()
	f, err := fsys.OpenFile(dirName+"/"+controlName, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if old != nil {
		if _, err := f.WriteAt(old, 0); err != nil {
			t.Fatal(err)
		}
		return nil
	}
	b := make([]byte, controlSize)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// A command that only reads must not cost a new journal each time.
func TestWhoOnlyReadsWritesNothing(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	r := mustOpenFS(t, mem)
	for i := range 5 {
		if _, err := r.Txn(t.Context(), step(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	r.Close()
	var wrote []string
	look := func(op *vfs.Op) error {
		if op.Kind == vfs.OpSync || op.Kind == vfs.OpWrite && strings.Contains(op.Name, "journal") {
			wrote = append(wrote, fmt.Sprint(op.Kind, " ", op.Name, " at ", op.Offset))
		}
		return nil
	}
	for range 3 {
		reader := mustOpenFS(t, vfs.Inject(mem, look))
		if got := content(t, reader); got != model(5) {
			t.Fatalf("it reads %s", got)
		}
		reader.Close()
	}
	if len(wrote) > 0 {
		t.Errorf("three that only read did %v", wrote)
	}
}

// Pieces of what was lost may lie behind the end of what was recovered.
func TestNothingIsAppendedBehindARecoveredEnd(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	s := mustStore(t, mem)
	r := registry.New(s)
	for i := range 3 {
		if _, err := r.Txn(t.Context(), step(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	gen, nonce := s.j.hdr.gen, s.j.hdr.nonce
	s.Close()
	again := mustStore(t, mem)
	if got := content(t, registry.New(again)); got != model(3) || again.ctl.gen.Load() != gen {
		t.Fatalf("in generation %d it reads %s", again.ctl.gen.Load(), got)
	}
	if _, err := registry.New(again).Txn(t.Context(), step(4)); err != nil {
		t.Fatal(err)
	}
	if now := again.ctl.gen.Load(); now != gen+1 || again.j.hdr.nonce == nonce {
		t.Errorf("the first write after a recovery went to generation %d, the recovered one is %d", now, gen)
	}
}

// TestADirectoryThatWasReplacedIsLeftAlone: the forgotten process says what happened, at once and
// for ever, and the new registry never sees anything of it.
func TestADirectoryThatWasReplacedIsLeftAlone(t *testing.T) {
	t.Parallel()
	both := map[string]func(t *testing.T, fsys vfs.FS){
		"removed": func(t *testing.T, fsys vfs.FS) { must(t, fsys.RemoveAll(dirName)) },
		"moved aside": func(t *testing.T, fsys vfs.FS) {
			must(t, os.Rename(fsys.Path(dirName), filepath.Join(t.TempDir(), "aside")))
		},
		"moved aside with the data directory": func(t *testing.T, fsys vfs.FS) {
			must(t, os.Rename(fsys.Path("."), fsys.Path(".")+".aside"))
		},
	}
	for name, lose := range both {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			forgotten, err := open(t.Context(), Config{Dir: dir, space: tiny})
			must(t, err)
			defer forgotten.Close()
			r := registry.New(forgotten)
			x, err := r.OpenSession(t.Context(), 8*time.Second) // no slow machine ends it by itself
			must(t, err)
			_, err = r.Txn(t.Context(), step(1))
			must(t, err)
			lose(t, forgotten.fs)

			anew, err := open(t.Context(), Config{Dir: dir, space: tiny})
			must(t, err)
			defer anew.Close()
			for i := range 8 { // through generations
				_, err := registry.New(anew).Txn(t.Context(), step(i+1))
				must(t, err)
			}
			select { // by itself: nobody has to ask
			case <-x.Done():
			case <-time.After(20 * time.Second):
				t.Fatal("a session in a registry that is gone is still believed")
			}
			for i := range 50 {
				_, err := r.Txn(t.Context(), step(i))
				wantGone(t, err)
				_, err = r.List(t.Context(), "")
				wantGone(t, err)
				_, err = r.OpenSession(t.Context(), time.Second)
				wantGone(t, err)
			}
			if got := content(t, registry.New(anew)); got != model(8) {
				t.Errorf("the new registry holds %s", got)
			}
			joined := mustStore(t, anew.fs)
			if got := content(t, registry.New(joined)); got != model(8) {
				t.Errorf("opened again it holds %s", got)
			}
		})
	}
}

func wantGone(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, fault.Closed) || !strings.Contains(err.Error(), "was removed or replaced") {
		t.Fatalf("error %v, expected that the registry was removed or replaced", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Processes come and go all the time: there is no order of openings and closings in which one
// recovers what another one is using, or believes what nobody vouches for.
func TestOpeningAndClosingAtOnceLosesNothing(t *testing.T) {
	t.Parallel()
	const processes, rounds = 6, 15
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range processes {
		wg.Go(func() {
			for range rounds {
				r, err := Open(t.Context(), Config{Dir: dir, NoSync: true, space: tiny})
				if err == nil {
					err = errors.Join(playCount(t.Context(), r, "n", 1, false), r.Close())
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := value(t, openDir(t, dir), "n"); got != strconv.Itoa(processes*rounds) {
		t.Errorf("%s of %d increments are there", got, processes*rounds)
	}
}

// Without syncs nothing tells what was durable, and all of it is in the page cache.
func TestWithoutSyncAKillLosesNothing(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	for n := range 60 {
		p := mem.Process()
		r, err := Open(t.Context(), Config{FS: p, NoSync: true, space: tiny})
		must(t, err)
		if got := content(t, r); got != model(n) {
			t.Fatalf("after %d kills: %s", n, got)
		}
		_, err = r.Txn(t.Context(), step(n+1))
		must(t, err)
		p.Kill()
		r.Close()
	}
}

// What lies in the control file when nobody lives may be anything.
func TestAPageOfGarbageIsNoHint(t *testing.T) {
	t.Parallel()
	const steps = 12
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 1))
		mem := vfs.NewMem(seed)
		r := mustOpenFS(t, mem)
		for i := range steps {
			_, err := r.Txn(t.Context(), step(i+1))
			must(t, err)
		}
		r.Close()
		b := page(t, mem, nil)
		for at := 8 * (rng.IntN(2)); at < slotBase; at += 8 { // with the magic number, and without
			if rng.IntN(3) > 0 {
				binary.LittleEndian.PutUint64(b[at:], rng.Uint64()>>rng.IntN(64))
			}
		}
		page(t, mem, b)
		again := mustOpenFS(t, mem)
		if got := content(t, again); got != model(steps) {
			t.Fatalf("seed %d: %s", seed, got)
		}
		_, err := again.Txn(t.Context(), step(steps+1))
		must(t, err)
		again.Close()
		if got := content(t, mustOpenFS(t, mem.Crash())); got != model(steps+1) {
			t.Fatalf("seed %d, after a write and a power loss: %s", seed, got)
		}
	}
}
