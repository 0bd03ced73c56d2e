package fileregistry

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/hook"
	"github.com/ringfence/ringfence/internal/testlog"
	"github.com/ringfence/ringfence/internal/vfs"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

// toldAndKilled makes a process that is told of a failed sync of the journal when armed is set, and
// killed before the n-th store to a shared word that it makes then.
func toldAndKilled(t *testing.T, mem *vfs.Mem, n int64) (r *registry.Registry, armed *atomic.Bool) {
	t.Helper()
	p := mem.Process()
	armed = new(atomic.Bool)
	var told atomic.Bool
	var stores atomic.Int64
	fsys := vfs.Inject(p, func(op *vfs.Op) error {
		if op.Kind == vfs.OpSync && strings.Contains(op.Name, "journal-") && armed.Load() && told.CompareAndSwap(false, true) {
			return syscall.EIO
		}
		return nil
	})
	killed := hook.Access{BeforeStore: func() {
		if told.Load() && stores.Add(1) == n {
			p.Kill()
		}
	}}
	s, err := open(killed.With(t.Context()), Config{FS: fsys, space: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return registry.New(s), armed
}

// roomy opens a store whose generations have room for all that a test writes.
func roomy(t *testing.T, fsys vfs.FS) *registry.Registry {
	t.Helper()
	s, err := open(t.Context(), Config{FS: fsys, space: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return registry.New(s)
}

// blocks is a transaction that takes several blocks, so that none of what others write shares all of
// them.
func blocks(key string) registry.Txn {
	return registry.Txn{Puts: []registry.Put{{Key: key, Value: []byte(strings.Repeat(key, 3*pageSize))}}}
}

// The kernel told one process that what it had synced is lost, and that process is gone. Others have
// not synced yet, or come later. What they ack behind the lost frame is kept, and what they were
// shown of it.
func TestAFailedSyncThatOnlyADeadProcessWasToldOf(t *testing.T) {
	t.Parallel()
	for _, later := range []bool{false, true} {
		for seed := range uint64(20) {
			mem := vfs.NewMem(seed)
			survivor := roomy(t, mem.Process()) // it lives all along, and so the page is believed
			a, armed := toldAndKilled(t, mem, 1+int64(seed%3))
			if _, err := a.Txn(t.Context(), blocks("1")); err != nil {
				t.Fatal(err)
			}
			armed.Store(true)
			if _, err := a.Txn(t.Context(), blocks("2")); err == nil {
				t.Fatal("whoever wrote it was killed, and it is acked")
			}
			if later {
				survivor = roomy(t, mem.Process())
			}
			shown := content(t, survivor)
			if _, err := survivor.Txn(t.Context(), blocks("3")); err != nil {
				t.Fatal(err)
			}
			want := content(t, survivor)
			if !strings.HasPrefix(want, shown) || len(shown) < 6*pageSize {
				t.Fatalf("seed %d: %d bytes were shown, then %d", seed, len(shown), len(want))
			}
			for kind, crashed := range []*vfs.Mem{mem.Crash(), mem.CrashSameBoot()} {
				r, err := open(t.Context(), Config{FS: crashed})
				if err != nil {
					t.Fatalf("seed %d, later %v, crash %d: %v", seed, later, kind, err)
				}
				if got := content(t, registry.New(r)); got != want {
					t.Fatalf("seed %d, later %v, crash %d: %d bytes are left of %d", seed, later, kind, len(got), len(want))
				}
				r.Close()
			}
		}
	}
}

// Many processes, of which one is killed in its sync: those who come after it write the journal
// anew once, not each of them.
func TestTheMarkOfADeadSyncIsTakenAwayOnce(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	first := mustStore(t, mem.Process())
	a, armed := toldAndKilled(t, mem, 1)
	armed.Store(true)
	if _, err := a.Txn(t.Context(), step(1)); err == nil {
		t.Fatal("the disk failed, and it is acked")
	}
	before := first.ctl.gen.Load()
	for i := range 5 {
		r := registry.New(mustStore(t, mem.Process()))
		if _, err := r.Txn(t.Context(), step(i+2)); err != nil {
			t.Fatal(err)
		}
	}
	if n := first.ctl.gen.Load() - before; n != 1 {
		t.Errorf("%d generations were begun for one sync that was killed", n)
	}
	for i := range first.ctl.syncs {
		if n := first.ctl.syncs[i].Load(); n != 0 {
			t.Errorf("%d marks are left on file %d", n, i)
		}
	}
}

// Who is stopped in a sync holds nobody up.
func TestAProcessThatIsStoppedInASyncHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	goOn, stopped := make(chan struct{}), make(chan struct{})
	var armed atomic.Bool
	fsys := vfs.Inject(mem.Process(), func(op *vfs.Op) error {
		if op.Kind == vfs.OpSync && armed.CompareAndSwap(true, false) {
			close(stopped)
			<-goOn
		}
		return nil
	})
	a := mustStore(t, fsys)
	armed.Store(true)
	wrote := make(chan error, 1)
	go func() { _, err := registry.New(a).Txn(t.Context(), step(1)); wrote <- err }()
	<-stopped
	var log testlog.Buffer
	second, err := open(t.Context(), Config{FS: mem.Process(), Options: driver.Options{Logger: log.Logger()}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = registry.New(second).Txn(t.Context(), step(2))
	if err = errors.Join(err, second.Close()); err != nil {
		t.Errorf("beside a process that is stopped in a sync: %v", err)
	}
	// Nothing has failed: a disk that is busy for a moment looks the same.
	if said := log.String(); strings.Contains(said, "level=ERROR") || strings.Count(said, "written anew") != 1 {
		t.Errorf("the log says %q; expected once why the journal is written anew, and no failure", said)
	}
	close(goOn)
	if err := <-wrote; err != nil {
		t.Errorf("when it goes on: %v", err)
	}
	if n := a.ctl.syncs[0].Load() + a.ctl.syncs[1].Load(); n != 0 {
		t.Errorf("%d marks are left", n)
	}
}

// Who was stopped for long says of an earlier generation that it failed: a later one that failed
// stays sealed.
func TestASealIsNotTakenBack(t *testing.T) {
	t.Parallel()
	s := mustStore(t, vfs.NewMem(1))
	gen := s.ctl.gen.Load()
	s.ctl.seal(gen)
	s.ctl.seal(gen - 1)
	if got := s.ctl.sealed.Load(); got != gen {
		t.Errorf("generation %d is sealed, expected %d", got, gen)
	}
	if _, err := registry.New(s).Txn(t.Context(), step(1)); err != nil {
		t.Fatal(err)
	}
	if s.ctl.gen.Load() == gen {
		t.Error("it goes on in the generation that failed")
	}
}

// Where a disk copies on write, a full one has no room for any write at all, not even one in place.
func TestARegistryOpensOnADiskWithoutAnyRoom(t *testing.T) {
	t.Parallel()
	for name, noPage := range map[string]bool{"without a page": true, "with its page": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { opensWithoutRoom(t, noPage) })
		})
	}
}

func opensWithoutRoom(t *testing.T, noPage bool) {
	t.Helper()
	mem := vfs.NewMem(1)
	p := mem.Process()
	r, err := openFS(t, p)
	if err != nil {
		t.Fatal(err)
	}
	x, err := r.OpenSession(t.Context(), shortTTL)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[registry.Version]bool{}
	for i := 1; i <= 12; i++ {
		given, err := r.Txn(t.Context(), step(i))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range given {
			seen[v] = true
		}
	}
	bound := registry.Txn{Puts: []registry.Put{{Key: boundKey, Session: x.ID()}}}
	if _, err := r.Txn(t.Context(), bound); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	r.Close()
	if noPage {
		mem = machineOf(t, with(filesOf(t, mem), "control", make([]byte, controlSize)))
	}
	var room atomic.Bool
	full := vfs.Inject(mem, func(op *vfs.Op) error {
		if op.Kind == vfs.OpWrite && !room.Load() {
			return syscall.ENOSPC
		}
		return nil
	})
	again, err := openFS(t, full)
	if err != nil {
		t.Fatalf("opened on a full disk: %v", err)
	}
	switch _, err := again.List(t.Context(), ""); {
	case !noPage && err != nil:
		t.Errorf("what the page proves to be durable: %v", err)
	case noPage && (!errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "free some")):
		t.Errorf("what nobody knows to be durable was read: %v", err)
	}
	if _, err := again.Txn(t.Context(), step(13)); !errors.Is(err, fault.Unavailable) {
		t.Errorf("written on a full disk: %v", err)
	}
	room.Store(true)
	given, err := again.Txn(t.Context(), step(13))
	if err != nil {
		t.Fatalf("with room again: %v", err)
	}
	for _, v := range given {
		if seen[v] {
			t.Errorf("version %q was given out again", v)
		}
	}
	time.Sleep(2 * shortTTL)
	if got := content(t, again); got != model(13) {
		t.Errorf("it holds %s; expected all but what the dead's session held", got)
	}
	again.Close()
}
