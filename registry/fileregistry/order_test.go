package fileregistry

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
	"github.com/ringfence/ringfence/registry"
)

// A header puts a generation in force, also when a power loss lets nothing but the header reach the
// disk. So the snapshot is on the disk before the header is written.
func TestASnapshotIsDurableBeforeItsHeader(t *testing.T) {
	t.Parallel()
	const steps, losses = 72, 24
	var acked, attempted atomic.Int64
	mem := vfs.NewMem(1)
	headers := 0
	hook := func(op *vfs.Op) error {
		switch inJournal := strings.Contains(op.Name, "journal-"); {
		case !inJournal || op.Kind != vfs.OpSync && op.Kind != vfs.OpWrite:
		case op.Kind == vfs.OpWrite && op.Offset == 0 && len(op.Data) == pageSize:
			headers++
		case op.Kind == vfs.OpSync && headers > 0:
			for range losses {
				again, err := openFS(t, mem.Crash())
				if err != nil {
					t.Errorf("power loss after header %d, %d acked: %v", headers, acked.Load(), err)
					return nil
				}
				got, ok := content(t, again), false
				for n := acked.Load(); n <= attempted.Load(); n++ {
					ok = ok || got == model(int(n))
				}
				if again.Close(); !ok {
					t.Errorf("power loss after header %d, %d acked, %d attempted: it holds %s", headers, acked.Load(), attempted.Load(), got)
				}
			}
		}
		return nil
	}
	r := mustOpenFS(t, vfs.Inject(mem, hook))
	for i := 1; i <= steps; i++ {
		attempted.Store(int64(i))
		if _, err := r.Txn(t.Context(), step(i)); err != nil {
			t.Fatal(err)
		}
		acked.Store(int64(i))
	}
	if headers < 4 {
		t.Errorf("%d headers were written: the workload begins no generations", headers)
	}
}

// Who did not run for its TTL may be taken for dead by others at any moment. Its own writes are refused
// from then on, before anybody has said so: the keeper may not have had its turn since.
func TestAWriteBehindTheDeadlineIsFencedBeforeAnybodyLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := mustStore(t, vfs.NewMem(1))
		x := opened(t, s, time.Second)
		s.gate.Shut()
		time.Sleep(2 * time.Second)
		put := registry.Txn{Puts: []registry.Put{{Key: "k", Session: x.ID()}}}
		if _, err := registry.New(s).Txn(t.Context(), put); !errors.Is(err, fault.Fenced) {
			t.Errorf("a write a second behind the deadline: %v; expected to be fenced", err)
		}
		if w := x.slot.Load(); w&dead != 0 {
			t.Errorf("the word is %x: somebody looked, and the test shows nothing", w)
		}
	})
}

// Nobody is told of what a power loss may take back, also who only reads, while another process has
// written it and still syncs.
func TestAReadingShowsWhatIsDurable(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		mem := vfs.NewMem(seed)
		var armed atomic.Bool
		syncs, goOn := make(chan struct{}, 8), make(chan struct{})
		a := mustOpenFS(t, vfs.Inject(mem.Process(), func(op *vfs.Op) error {
			if op.Kind == vfs.OpSync && armed.Load() {
				syncs <- struct{}{}
				<-goOn
			}
			return nil
		}))
		b := mustOpenFS(t, mem.Process())
		armed.Store(true)
		done := make(chan error, 1)
		go func() {
			_, err := a.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "k", Value: []byte("v")}}})
			done <- err
		}()
		<-syncs
		if got := content(t, b); got != "k=v" {
			t.Errorf("seed %d: it reads %q", seed, got)
		}
		for range 8 {
			if got := content(t, mustOpenFS(t, mem.Crash())); got != "k=v" {
				t.Errorf("seed %d: k was shown; after a power loss there is %q", seed, got)
			}
		}
		close(goOn)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
