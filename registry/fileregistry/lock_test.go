package fileregistry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
	"github.com/ringfence/ringfence/registry"
)

// kernel is the lock as the kernel has it: whose it is, 0 for nobody's.
type kernel struct{ owner int }

// side is one process's open file.
type side struct {
	k  *kernel
	me int
}

func (s *side) TryLock(bool) (bool, error) {
	if s.k.owner == 0 || s.k.owner == s.me {
		s.k.owner = s.me
	}
	return s.k.owner == s.me, nil
}

func (s *side) Unlock() error {
	s.k.owner = 0
	return nil
}

// TestALockThatNobodyWantsIsNeverKept plays three processes through every order of what can happen
// to them, a kill between any two steps among it, and looks after each step.
func TestALockThatNobodyWantsIsNeverKept(t *testing.T) {
	t.Parallel()
	const processes, steps = 3, 5
	moves := []string{"wants", "gives up", "is done", "is killed"}
	seen := 0
	var explore func(path []int)
	explore = func(path []int) {
		if !playLock(t, path, len(moves)) {
			return
		}
		seen++
		for m := range processes * len(moves) {
			if len(path) < steps && (len(path) > 0 || m < len(moves)) { // by symmetry, the first begins
				explore(append(path[:len(path):len(path)], m))
			}
		}
	}
	explore(nil)
	t.Logf("%d histories", seen)
	if seen < 500 {
		t.Errorf("only %d histories were played", seen)
	}
}

// playLock is false when the last move of the path changes nothing, or is not possible.
func playLock(t *testing.T, path []int, moves int) (moved bool) {
	k := &kernel{}
	holder := word{Uint64: new(atomic.Uint64)}
	var all []*locker
	for i := range 3 {
		all = append(all, &locker{f: &side{k: k, me: i + 1}, holder: holder, pid: i + 1, log: slog.New(slog.DiscardHandler), patience: lockPatience})
	}
	dead := make([]bool, len(all))
	moved = true
	now := time.Unix(0, 0)
	for _, step := range path {
		i, l := step/moves, all[step/moves]
		before := fmt.Sprint(l.phase, k.owner, dead)
		if dead[i] {
			return false
		}
		switch step % moves {
		case 0:
			if _, err := l.try(now); err != nil {
				t.Fatal(err)
			}
		case 1:
			l.giveUp()
			l.release() // as the core does at the end of each turn
		case 2:
			l.release()
		case 3:
			dead[i] = true
			if k.owner == i+1 {
				k.owner = 0 // the kernel's part
			}
		}
		moved = before != fmt.Sprint(l.phase, k.owner, dead)
		for j, l := range all {
			switch {
			case !dead[j] && (l.phase == held) != (k.owner == j+1):
				t.Fatalf("after %v process %d is in phase %d, and the kernel's lock is that of %d", path, j+1, l.phase, k.owner)
			case !dead[j] && l.phase == idle && k.owner == j+1:
				t.Fatalf("after %v process %d keeps a lock that it does not want", path, j+1)
			}
		}
		if named := int(holder.Load()); named != 0 && named != k.owner && !dead[named-1] {
			t.Fatalf("after %v the lock is said to be that of %d, which lives and does not have it", path, named)
		}
	}
	return moved
}

// hold takes the lock as a process would that was stopped with it, and says so.
func hold(t *testing.T, s *store, pid int) (release func()) {
	t.Helper()
	f, err := s.dir.OpenFile(controlName, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for tries := 0; ; tries++ {
		ok, err := f.TryLock(true)
		if err != nil || tries == 1000 {
			t.Fatalf("the lock can't be had (%v)", err)
		}
		if ok {
			break
		}
		<-tick.C
	}
	s.ctl.holder.Store(uint64(pid))
	return func() { // as its end does
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// inBubble plays a store in memory on a clock of the test's own.
func inBubble(t *testing.T, play func(t *testing.T, s *store, r *registry.Registry)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := open(t.Context(), Config{FS: vfs.NewMem(1)})
		if err != nil {
			t.Fatal(err)
		}
		r := registry.New(s)
		defer r.Close()
		play(t, s, r)
	})
}

var aPut = registry.Txn{Puts: []registry.Put{{Key: "k", Value: []byte("v")}}}

func TestAWriterThatGaveUpLeavesTheLockToOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, s *store, r *registry.Registry) {
		release := hold(t, s, 4711)
		start := time.Now()
		_, err := r.Txn(t.Context(), aPut)
		if !errors.Is(err, fault.Unavailable) || errors.Is(err, fault.Unknown) || !strings.Contains(err.Error(), "process 4711 holds it now") {
			t.Fatalf("a transaction that waited for nothing: %v", err)
		}
		if took := time.Since(start); took < lockPatience || took > lockPatience+lockNotice {
			t.Errorf("it failed after %s", took)
		}
		release()
		synctest.Wait()
		hold(t, s, 4712)() // nobody else has it, and nobody gets it later
		if _, err := r.Txn(t.Context(), aPut); err != nil {
			t.Fatal(err)
		}
		if pid := s.ctl.holder.Load(); pid != 0 {
			t.Errorf("process %d is said to hold a lock that is free", pid)
		}
	})
}

func TestWhoGivesUpWhileTheLockIsTakenHasDoneNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, s *store, r *registry.Registry) {
		release := hold(t, s, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := r.Txn(ctx, aPut)
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, fault.Unknown) {
			t.Errorf("a transaction that was withdrawn before it was begun: %v; its fate is known", err)
		}
		release()
		if _, err := r.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "other"}}}); err != nil {
			t.Fatal(err)
		}
		if got := content(t, r); got != "other=" {
			t.Errorf("the registry holds %q", got)
		}
	})
}

// The caller gives up between the core's last look at it and the lock.
func TestATransactionThatIsWithdrawnWhileTheLockIsAskedForIsNotDone(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var armed atomic.Bool
	returned := make(chan struct{})
	s, err := open(t.Context(), Config{FS: vfs.Inject(vfs.NewMem(1), func(op *vfs.Op) error {
		if op.Kind == vfs.OpLock && strings.HasSuffix(op.Name, "/"+controlName) && armed.Swap(false) {
			cancel()
			<-returned
		}
		return nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	r := registry.New(s)
	defer r.Close()
	armed.Store(true)
	_, err = r.Txn(ctx, aPut)
	close(returned)
	if !errors.Is(err, context.Canceled) || errors.Is(err, fault.Unknown) {
		t.Errorf("a transaction that was withdrawn before it was begun: %v; its fate is known", err)
	}
	if _, err := r.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "other"}}}); err != nil {
		t.Fatal(err)
	}
	if got := content(t, r); got != "other=" {
		t.Errorf("the registry holds %q", got)
	}
}

func TestReadsDoNotQueueBehindWritesThatWait(t *testing.T) {
	inBubble(t, func(t *testing.T, s *store, r *registry.Registry) {
		if _, err := r.Txn(t.Context(), aPut); err != nil {
			t.Fatal(err)
		}
		release := hold(t, s, 1)
		fates := make(chan error, 10)
		for range cap(fates) {
			go func() {
				_, err := r.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "late"}}})
				fates <- err
			}()
		}
		synctest.Wait()
		start := time.Now()
		if got := content(t, r); got != "k=v" {
			t.Errorf("it reads %q", got)
		}
		if _, err := r.Watch(t.Context(), ""); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("reading took %s while writes waited", took)
		}
		release()
		for range cap(fates) {
			if err := <-fates; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestClosingDoesNotWaitForALock(t *testing.T) {
	inBubble(t, func(t *testing.T, s *store, r *registry.Registry) {
		defer hold(t, s, 1)()
		fate := make(chan error, 1)
		go func() {
			_, err := r.Txn(t.Context(), aPut)
			fate <- err
		}()
		synctest.Wait()
		start := time.Now()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if err := <-fate; !errors.Is(err, fault.Closed) || time.Since(start) > 0 {
			t.Errorf("what waited for the lock ended after %s with %v", time.Since(start), err)
		}
	})
}
