package fileregistry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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

// TestFailingOperationsAreHonest has operations fail at random: what was acked stays, what
// certainly failed never shows, and when the disk is well again everything goes on.
func TestFailingOperationsAreHonest(t *testing.T) {
	t.Parallel()
	for seed := range uint64(150) {
		failing(t, seed)
	}
}

func failing(t *testing.T, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 7))
	var mu sync.Mutex
	sick := false
	mem := vfs.NewMem(seed)
	hook := func(op *vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if !sick || op.Kind == vfs.OpUnlock || op.Kind == vfs.OpClose || rng.IntN(4) != 0 {
			return nil
		}
		if op.Kind == vfs.OpWrite {
			op.Short = rng.IntN(op.Length + 1)
		}
		return []error{syscall.EIO, syscall.ENOSPC}[rng.IntN(2)]
	}
	set := func(on bool) { mu.Lock(); sick = on; mu.Unlock() }
	r := mustOpenFS(t, vfs.Inject(mem, hook))
	fate := map[string]error{}
	for i := range 40 {
		set(i%10 >= 3 && i%10 < 8)
		key := fmt.Sprintf("f/%03d", i)
		_, err := r.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: key, Value: []byte(strings.Repeat("y", 30))}}})
		if err != nil && !errors.Is(err, fault.Unknown) && !errors.Is(err, fault.Unavailable) {
			t.Fatalf("seed %d: a failing disk is %v", seed, err)
		}
		fate[key] = err
	}
	set(false)
	if _, err := r.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "well"}}}); err != nil {
		t.Fatalf("seed %d: after the disk is well again: %v", seed, err)
	}
	compare(t, fmt.Sprintf("seed %d, live", seed), r, fate)
	r.Close()
	again, err := openFS(t, mem.Crash())
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	compare(t, fmt.Sprintf("seed %d, after a power loss", seed), again, fate)
	again.Close()
}

func compare(t *testing.T, when string, r *registry.Registry, fate map[string]error) {
	t.Helper()
	snap, err := r.List(context.Background(), "f/")
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, e := range snap.Entries {
		have[e.Key] = true
	}
	for key, err := range fate {
		switch {
		case err == nil && !have[key]:
			t.Fatalf("%s: %s was acked and is gone", when, key)
		case err != nil && !errors.Is(err, fault.Unknown) && have[key]:
			t.Fatalf("%s: %s failed (%v) and is there", when, key, err)
		}
	}
}

// TestAProcessKilledAtEveryOperationHarmsNoOther kills one of two processes before each of its
// operations, and has the other go on.
func TestAProcessKilledAtEveryOperationHarmsNoOther(t *testing.T) {
	t.Parallel()
	const steps = 26 // more than fit into one generation
	for at := int64(1); ; at++ {
		mem := vfs.NewMem(uint64(at))
		other := mustOpenFS(t, mem)
		victimFS := mem.Process()
		var count atomic.Int64
		hook := func(op *vfs.Op) error {
			if op.Kind.Changes() && count.Add(1) == at {
				victimFS.Kill()
			}
			return nil
		}
		acked, attempted := 0, 0
		victim, err := openFS(t, vfs.Inject(victimFS, hook))
		if err == nil {
			for attempted < steps {
				attempted++
				if _, err := victim.Txn(t.Context(), step(attempted)); err != nil {
					break
				}
				acked++
			}
			victim.Close()
		}
		got, n := content(t, other), -1
		for i := acked; i <= attempted; i++ {
			if got == model(i) {
				n = i
			}
		}
		if n < 0 {
			t.Fatalf("killed before operation %d: %d acked, %d attempted, the other one reads %s", at, acked, attempted, got)
		}
		// First something small, which needs no new generation where the victim did.
		if _, err := other.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "a", Value: []byte("s")}}}); err != nil {
			t.Fatalf("killed before operation %d: %v", at, err)
		}
		for range 8 {
			small, err := openFS(t, mem.Crash())
			if err != nil {
				t.Fatalf("killed before operation %d: after a power loss: %v", at, err)
			}
			if got := value(t, small, "a"); got != "s" {
				t.Fatalf("killed before operation %d: a power loss brought %q back", at, got)
			}
			small.Close()
		}
		for i := range steps { // through the next generation
			n++
			if _, err := other.Txn(t.Context(), step(n)); err != nil {
				t.Fatalf("killed before operation %d: step %d of the other: %v", at, i, err)
			}
		}
		other.Close()
		again, err := openFS(t, mem.Crash())
		if err != nil {
			t.Fatalf("killed before operation %d: after a power loss: %v", at, err)
		}
		if got := content(t, again); got != model(n) {
			t.Fatalf("killed before operation %d: after a power loss: %s, expected %s", at, got, model(n))
		}
		again.Close()
		if acked == steps {
			t.Logf("killed before each of %d operations", at-1)
			return
		}
	}
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
