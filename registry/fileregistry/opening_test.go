package fileregistry

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
	"github.com/ringfence/ringfence/registry"
)

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
