package fileregistry

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/internal/hook"
	"github.com/ringfence/ringfence/internal/vfs"
	"github.com/ringfence/ringfence/registry"
)

const (
	killSteps = 10 // of the victim, which rotates the journal several times
	boundKey  = "s/bound"
)

// victim is a process that is killed before its n-th store to a shared word or change of a file,
// whichever goroutine makes it.
type victim struct {
	fs               *vfs.Mem
	at               int64
	space            int64 // room for frames; 0: tiny
	count            atomic.Int64
	acked, attempted int
	versions         []registry.Version
}

func (v *victim) before() {
	if v.count.Add(1) == v.at {
		v.fs.Kill()
	}
}

func (v *victim) killed() bool { return v.count.Load() >= v.at }

// live is the whole life of the process, or what it gets to of it, beginning after step from.
func (v *victim) live(ctx context.Context, from int) {
	v.acked, v.attempted = from, from
	fsys := vfs.Inject(v.fs, func(op *vfs.Op) error {
		if op.Kind.Changes() || op.Kind == vfs.OpUnlock {
			v.before()
		}
		return nil
	})
	s, err := open(hook.Access{BeforeStore: v.before}.With(ctx), Config{FS: fsys, space: max(v.space, tiny)})
	if err != nil {
		return
	}
	defer s.Close()
	r := registry.New(s)
	x, err := r.OpenSession(ctx, shortTTL)
	if err != nil {
		return
	}
	bound := registry.Txn{Puts: []registry.Put{{Key: boundKey, Value: make([]byte, 500), Session: x.ID()}}}
	for i := 1; i <= killSteps; i++ {
		v.attempted++
		given, err := r.Txn(ctx, step(v.attempted))
		if err != nil || v.killed() {
			return
		}
		v.acked++
		v.versions = append(v.versions, given...)
		switch {
		case i == killSteps/2: // ends one session while another is alive
			y, err := r.OpenSession(ctx, shortTTL)
			if err != nil || x.Close(ctx) != nil {
				return
			}
			bound.Puts[0].Session = y.ID()
		case i%3 == 0:
			time.Sleep(shortTTL / beatsPerTTL) // a round of its keeper
		}
		if _, err := r.Txn(ctx, bound); err != nil {
			return
		}
	}
}

// free is the content without what is bound to sessions.
func free(t *testing.T, r *registry.Registry) string {
	t.Helper()
	var kept []string
	for _, part := range strings.Split(content(t, r), " ") {
		if !strings.HasPrefix(part, boundKey) && part != "" {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, " ")
}

// check looks at what v left behind, through r, and returns the step that it had come to.
func (v *victim) check(t *testing.T, who string, r *registry.Registry) int {
	t.Helper()
	got := free(t, r)
	for n := v.acked; n <= v.attempted; n++ {
		if got == model(n) {
			return n
		}
	}
	t.Fatalf("killed before store %d: %d acked, %d attempted, %s reads %s", v.at, v.acked, v.attempted, who, got)
	return 0
}

// goesOn writes, and finds no version that was given out before.
func (v *victim) goesOn(t *testing.T, r *registry.Registry, n int) {
	t.Helper()
	start := time.Now()
	given, err := r.Txn(t.Context(), step(n+1))
	if err != nil {
		t.Fatalf("killed before store %d: the next process: %v", v.at, err)
	}
	if took := time.Since(start); took > lockNotice {
		t.Fatalf("killed before store %d: the next process waited %s", v.at, took)
	}
	v.acked, v.attempted = n+1, n+1
	for _, a := range given {
		for _, b := range v.versions {
			if a == b {
				t.Fatalf("killed before store %d: version %q was given out again", v.at, a)
			}
		}
	}
}

// atEveryStore kills a process before each of its stores, in parallel.
func atEveryStore(t *testing.T, play func(t *testing.T, v *victim, mem *vfs.Mem)) {
	t.Parallel()
	var next, most atomic.Int64
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for most.Load() == 0 && !t.Failed() {
				at := next.Add(1)
				t.Run(fmt.Sprint(at), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						mem := vfs.NewMem(uint64(at))
						v := &victim{fs: mem.Process(), at: at}
						play(t, v, mem)
						if !v.killed() {
							most.Store(at)
						}
					})
				})
			}
		})
	}
	wg.Wait()
	t.Logf("killed before each of %d stores", most.Load()-1)
	if most.Load() < 100 {
		t.Errorf("%d stores are too few for what was played", most.Load())
	}
}

// A process is killed between any two stores, beside one that lives: it goes on at once, with all
// that was acked, and ends the dead one's sessions.
func TestAKillBetweenAnyTwoStoresHarmsNoLivingProcess(t *testing.T) {
	atEveryStore(t, func(t *testing.T, v *victim, mem *vfs.Mem) {
		other := mustStore(t, mem)
		r := registry.New(other)
		if v.at%2 == 0 { // with a session of its own, or none
			opened(t, other, time.Minute)
		}
		v.live(t.Context(), 0)
		n := v.check(t, "the living", r)
		v.goesOn(t, r, n)
		time.Sleep(3 * shortTTL)
		if left, mine := sessionsOf(t, other), int(1-v.at%2); left != mine {
			t.Fatalf("killed before store %d: %d sessions are left, expected %d", v.at, left, mine)
		}
		if got := content(t, r); strings.Contains(got, boundKey) {
			t.Fatalf("killed before store %d: the entry of a dead session is there: %s", v.at, got)
		}
		other.Close()
		v.check(t, "after a crash", registry.New(mustStore(t, mem.Crash())))
	})
}

// Nobody lives when a process is killed, and it had recovered what another one left: its successor
// has to recover as well, and has no page to believe.
func TestAKillBetweenAnyTwoStoresIsRecoveredFrom(t *testing.T) {
	atEveryStore(t, func(t *testing.T, v *victim, mem *vfs.Mem) {
		first := &victim{fs: mem.Process(), at: 60 + v.at%40}
		first.live(t.Context(), 0)
		first.fs.Kill()
		v.versions = first.versions
		from := first.acked
		if first.attempted > from { // it may have done one more
			from = first.check(t, "the next", registry.New(mustStore(t, machineOf(t, filesOf(t, mem)))))
		}
		v.live(t.Context(), from)
		if v.at%3 == 0 {
			mem = mem.CrashSameBoot()
			if v.acked == from { // what nobody was told of may be lost
				v.acked = first.acked
			}
		}
		next := mustStore(t, mem.Process())
		r := registry.New(next)
		n := v.check(t, "the next", r)
		if left := sessionsOf(t, next); left != 0 {
			t.Fatalf("killed before store %d: %d sessions outlived all processes", v.at, left)
		}
		v.goesOn(t, r, n)
		next.Close()
		v.check(t, "after a crash", registry.New(mustStore(t, mem.CrashSameBoot())))
	})
}

// The first process on a directory is killed while it makes the registry.
func TestAKillBetweenAnyTwoStoresOfTheFirstProcess(t *testing.T) {
	atEveryStore(t, func(t *testing.T, v *victim, mem *vfs.Mem) {
		v.live(t.Context(), 0)
		next := mustStore(t, mem.Process())
		n := v.check(t, "the next", registry.New(next))
		v.goesOn(t, registry.New(next), n)
		next.Close()
		for range 3 {
			v.check(t, "after a power loss", registry.New(mustStore(t, mem.Crash())))
		}
	})
}
