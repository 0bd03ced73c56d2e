package fileregistry

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
	"github.com/ringfence/ringfence/registry"
)

const tiny = 2048 // room for frames, so that a few transactions need a new generation

func openFS(t testing.TB, fsys vfs.FS) (*registry.Registry, error) {
	return Open(t.Context(), Config{FS: fsys, space: tiny})
}

func mustOpenFS(t testing.TB, fsys vfs.FS) *registry.Registry {
	t.Helper()
	r, err := openFS(t, fsys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// content is the store as one line for comparison.
func content(t testing.TB, r *registry.Registry) string {
	t.Helper()
	snap, err := r.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range snap.Entries {
		lines = append(lines, e.Key+"="+string(e.Value))
	}
	return strings.Join(lines, " ")
}

// step is transaction i of the workload: two keys that change together, one that is new, and
// one that goes.
func step(i int) registry.Txn {
	n := []byte(fmt.Sprint(i))
	return registry.Txn{
		Puts:    []registry.Put{{Key: "a", Value: n}, {Key: "b", Value: n}, {Key: fmt.Sprintf("n/%03d", i), Value: []byte(strings.Repeat("x", 40))}},
		Deletes: []string{fmt.Sprintf("n/%03d", i-3)},
		Quiet:   i%2 == 0,
	}
}

// model is the content after the first n steps.
func model(n int) string {
	m := map[string]string{}
	for i := 1; i <= n; i++ {
		t := step(i)
		for _, p := range t.Puts {
			m[p.Key] = string(p.Value)
		}
		for _, k := range t.Deletes {
			delete(m, k)
		}
	}
	var lines []string
	for k, v := range m {
		lines = append(lines, k+"="+v)
	}
	sort.Strings(lines)
	return strings.Join(lines, " ")
}

// TestAPowerLossAtEveryOperationKeepsWhatWasAcked crashes the machine before every operation
// that changes the disk, several times each: what survives differs. Every other one is a file system
// that had an error and was mounted again within one boot.
func TestAPowerLossAtEveryOperationKeepsWhatWasAcked(t *testing.T) {
	t.Parallel()
	const steps = 40
	type crash struct {
		at               string
		fs               *vfs.Mem
		acked, attempted int
	}
	var acked, attempted atomic.Int64
	var mu sync.Mutex
	var crashes []crash
	versions := map[registry.Version]bool{} // given out before the crash, also by what is lost
	mem := vfs.NewMem(1)
	hook := func(op *vfs.Op) error {
		if !op.Kind.Changes() {
			return nil
		}
		for kind, crashed := range []func() *vfs.Mem{mem.Crash, mem.CrashSameBoot, mem.Crash, mem.CrashSameBoot} {
			c := crash{at: fmt.Sprintf("%s of %s at %d, kind %d", op.Kind, op.Name, op.Offset, kind%2), acked: int(acked.Load())}
			c.fs = crashed()
			c.attempted = int(attempted.Load())
			mu.Lock()
			crashes = append(crashes, c)
			mu.Unlock()
		}
		return nil
	}
	r := mustOpenFS(t, vfs.Inject(mem, hook))
	for i := 1; i <= steps; i++ {
		attempted.Store(int64(i))
		given, err := r.Txn(t.Context(), step(i))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range given {
			versions[v] = true
		}
		acked.Store(int64(i))
	}
	r.Close()
	if len(crashes) < 3*steps {
		t.Fatalf("only %d crashes: the workload does not reach the disk", len(crashes))
	}
	for _, c := range crashes {
		again, err := openFS(t, c.fs)
		if err != nil {
			t.Fatalf("crash before %s, %d acked: %v", c.at, c.acked, err)
		}
		got, ok := content(t, again), -1
		for n := c.acked; n <= c.attempted; n++ {
			if got == model(n) {
				ok = n
			}
		}
		if ok < 0 {
			t.Fatalf("crash before %s: %d acked, %d attempted, but it holds %s", c.at, c.acked, c.attempted, got)
		}
		given, err := again.Txn(t.Context(), step(ok+1))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range given {
			if versions[v] {
				t.Fatalf("crash before %s: version %q was given out twice", c.at, v)
			}
		}
		again.Close()
		last, err := openFS(t, c.fs.CrashSameBoot())
		if err != nil {
			t.Fatalf("second crash, after one before %s: %v", c.at, err)
		}
		if got := content(t, last); got != model(ok+1) {
			t.Fatalf("second crash, after one before %s: %s, expected %s", c.at, got, model(ok+1))
		}
		last.Close()
	}
	t.Logf("%d crashes", len(crashes))
}

// TestWithoutSyncAPowerLossLeavesAPrefix: less is promised, but never a damaged store.
func TestWithoutSyncAPowerLossLeavesAPrefix(t *testing.T) {
	t.Parallel()
	const steps = 40
	mem := vfs.NewMem(3)
	r, err := Open(t.Context(), Config{FS: mem, NoSync: true, space: tiny})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i := 1; i <= steps; i++ {
		if _, err := r.Txn(t.Context(), step(i)); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			again, err := openFS(t, mem.Crash())
			if err != nil {
				t.Fatalf("after step %d: %v", i, err)
			}
			got, ok := content(t, again), false
			for n := range i + 1 {
				ok = ok || got == model(n)
			}
			if !ok {
				t.Fatalf("after step %d: it holds %s", i, got)
			}
			again.Close()
		}
	}
}

func TestNoSessionSurvivesAReboot(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(4)
	r := mustOpenFS(t, mem)
	x, err := r.OpenSession(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	txn := registry.Txn{Puts: []registry.Put{{Key: "bound", Session: x.ID()}, {Key: "free"}}}
	if _, err := r.Txn(t.Context(), txn); err != nil {
		t.Fatal(err)
	}
	again := mustOpenFS(t, mem.Crash())
	if got := content(t, again); got != "free=" {
		t.Fatalf("after the reboot it holds %q", got)
	}
	if _, err := again.Txn(t.Context(), txn); !errors.Is(err, fault.Fenced) {
		t.Fatalf("a session of the last boot: %v, expected fenced", err)
	}
}
