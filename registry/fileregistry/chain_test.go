package fileregistry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
	"github.com/ringfence/ringfence/registry"
)

// An owner's commit is a compare-and-set on the version that it read. chain is what several processes
// did so: who replaced which version, by which, and what they were told.
type chain struct {
	mu       sync.Mutex
	next     map[registry.Version]int      // the number that replaced it, of acked ones
	given    map[registry.Version]struct{} // all that were given out
	numbers  map[int]bool                  // that were acked
	last     int                           // the highest of them
	attempts int
	acked    int
	broken   error
}

func (c *chain) say(from, to registry.Version, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acked++
	if have, ok := c.next[from]; ok && from != "" {
		c.broken = errors.Join(c.broken, fmt.Errorf("version %q was replaced by %d and by %d, both acked", from, have, n))
	}
	if _, ok := c.given[to]; ok {
		c.broken = errors.Join(c.broken, fmt.Errorf("version %q was given out twice", to))
	}
	if c.numbers[n] {
		c.broken = errors.Join(c.broken, fmt.Errorf("%d was acked twice: the first one was lost", n))
	}
	c.next[from], c.given[to], c.numbers[n] = n, struct{}{}, true
	c.last = max(c.last, n)
}

// advance reads the counter and replaces it by the next number.
func (c *chain) advance(ctx context.Context, r *registry.Registry) error {
	c.mu.Lock()
	least := c.last
	c.mu.Unlock()
	e, err := r.Get(ctx, "counter")
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return err
	}
	n, _ := strconv.Atoi(string(e.Value))
	c.mu.Lock()
	if n < least {
		c.broken = errors.Join(c.broken, fmt.Errorf("%d was acked, and %d read after it", least, n))
	}
	c.attempts++
	c.mu.Unlock()
	given, err := r.Txn(ctx, registry.Txn{
		Checks: []registry.Check{{Key: "counter", Version: e.Version}},
		Puts:   []registry.Put{{Key: "counter", Value: strconv.AppendInt(nil, int64(n+1), 10)}},
	})
	if err == nil {
		c.say(e.Version, given[0], n+1)
	}
	return err
}

// sickness makes operations fail at random while it is on.
type sickness struct {
	mu  sync.Mutex
	rng *rand.Rand
	one int // of so many operations that change something; 0: none
}

func (s *sickness) set(one int) { s.mu.Lock(); s.one = one; s.mu.Unlock() }

func (s *sickness) hook(op *vfs.Op) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.one == 0 || op.Kind == vfs.OpUnlock || op.Kind == vfs.OpClose || s.rng.IntN(s.one) != 0 {
		return nil
	}
	if op.Kind == vfs.OpWrite {
		op.Short = s.rng.IntN(op.Length + 1)
	}
	return []error{syscall.EIO, syscall.ENOSPC}[s.rng.IntN(2)]
}

// One machine lives through processes that come, write together and are killed, disks that fail and
// fill, power losses and file systems that are mounted again. Whatever the order of these: no two
// commits replace one version, no version comes again, and what was acked is there.
func TestNoTwoCommitsReplaceOneVersionWhateverFails(t *testing.T) {
	t.Parallel()
	acked, attempts := 0, 0
	for seed := range uint64(60) {
		c := &chain{next: map[registry.Version]int{}, given: map[registry.Version]struct{}{}, numbers: map[int]bool{}}
		machine(t, seed, c)
		if t.Failed() {
			return
		}
		acked, attempts = acked+c.acked, attempts+c.attempts
	}
	t.Logf("%d of %d commits were acked", acked, attempts)
	if acked < 1000 || attempts < acked+100 {
		t.Errorf("%d of %d commits were acked: too few, or nothing failed", acked, attempts)
	}
}

func machine(t *testing.T, seed uint64, c *chain) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 11))
	sick := &sickness{rng: rand.New(rand.NewPCG(seed, 12))}
	mem := vfs.NewMem(seed)
	for life := range 12 {
		sick.set([]int{0, 0, 40, 6}[rng.IntN(4)])
		mem.SetCapacity([]int64{0, 0, 1}[rng.IntN(3)])
		var procs []*vfs.Mem
		var stores []*store
		for range 1 + rng.IntN(2) {
			p := mem.Process()
			s, err := open(t.Context(), Config{FS: vfs.Inject(p, sick.hook), space: 3 * pageSize})
			if err != nil {
				if !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("seed %d, life %d: %v", seed, life, err)
				}
				if errors.Is(err, fault.Corrupt) {
					t.Fatalf("seed %d, life %d: a disk that fails is called corrupt: %v", seed, life, err)
				}
				continue
			}
			procs, stores = append(procs, p), append(stores, s)
		}
		var wg sync.WaitGroup
		for i, s := range stores {
			dies := rng.IntN(60)
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				for n := range 40 {
					if n == dies {
						procs[i].Kill()
					}
					if err := c.advance(ctx, registry.New(s)); errors.Is(err, fault.Corrupt) {
						c.mu.Lock()
						c.broken = errors.Join(c.broken, err)
						c.mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		for i, s := range stores {
			if rng.IntN(3) > 0 {
				procs[i].Kill()
			}
			s.Close()
		}
		switch rng.IntN(4) {
		case 0:
			mem = mem.Crash()
		case 1:
			mem = mem.CrashSameBoot()
		}
		if c.broken != nil {
			t.Fatalf("seed %d, life %d: %v", seed, life, c.broken)
		}
	}
	mem.SetCapacity(0)
	s := mustStore(t, mem)
	if got, _ := strconv.Atoi(value(t, registry.New(s), "counter")); got < c.last {
		t.Fatalf("seed %d: %d were acked, it holds %d", seed, c.last, got)
	}
	s.Close()
}

// A disk that fails once while the registry is opened has not damaged it: the error says so, and the
// next opening finds everything.
func TestAnOperationThatFailsAtOpeningIsNoDamage(t *testing.T) {
	t.Parallel()
	const steps = 12
	for _, left := range []string{"closed", "killed", "power loss"} {
		for at := 1; ; at++ {
			mem := vfs.NewMem(uint64(at))
			p := mem.Process()
			s := mustStore(t, p)
			opened(t, s, time.Minute)
			for i := 1; i <= steps; i++ {
				if _, err := registry.New(s).Txn(t.Context(), step(i)); err != nil {
					t.Fatal(err)
				}
			}
			if left != "closed" {
				p.Kill()
			}
			s.Close()
			if left == "power loss" {
				mem = mem.Crash()
			}
			var count atomic.Int64
			sick := vfs.Inject(mem.Process(), func(op *vfs.Op) error {
				if count.Add(1) == int64(at) {
					return syscall.EIO
				}
				return nil
			})
			hurt, err := open(t.Context(), Config{FS: sick, space: tiny})
			if err == nil {
				hurt.Close()
			} else if !errors.Is(err, syscall.EIO) || errors.Is(err, fault.Corrupt) {
				t.Fatalf("%s, operation %d fails: %v", left, at, err)
			}
			again := mustStore(t, mem)
			if got := content(t, registry.New(again)); got != model(steps) {
				t.Fatalf("%s, operation %d failed: it holds %s", left, at, got)
			}
			again.Close()
			if count.Load() < int64(at) {
				break
			}
		}
	}
}
