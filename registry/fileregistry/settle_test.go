package fileregistry

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/vfs"
	"github.com/ringfence/ringfence/registry"
)

// headers has sync stand before the syncs of a journal whose header was written since it is armed.
func headers(fsys vfs.FS, armed *bool, sync func() error) vfs.FS {
	fresh := false
	return vfs.Inject(fsys, func(op *vfs.Op) error {
		switch {
		case !strings.Contains(op.Name, "journal-") || !*armed:
		case op.Kind == vfs.OpWrite && op.Offset == 0 && op.Length == pageSize:
			fresh = true
		case op.Kind == vfs.OpSync && fresh:
			return sync()
		}
		return nil
	})
}

// writeUntil writes steps until one fails, and returns how many were acked.
func writeUntil(t *testing.T, r *registry.Registry, armed *bool) int {
	t.Helper()
	for i := 1; i < 100; i++ {
		*armed = i > 10 // several generations later
		if _, err := r.Txn(t.Context(), step(i)); err != nil {
			return i - 1
		}
	}
	t.Fatal("nothing failed")
	return 0
}

// goesOn writes one step more, loses the power in front of each operation, and wants everything there.
func goesOn(t *testing.T, when string, mem *vfs.Mem, acked int, between func(fsys vfs.FS) vfs.FS, opened func()) {
	t.Helper()
	var crashes []*vfs.Mem
	r, err := openFS(t, between(vfs.Inject(mem, func(op *vfs.Op) error {
		if op.Kind.Changes() {
			crashes = append(crashes, mem.Crash(), mem.Crash())
		}
		return nil
	})))
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	opened()
	if _, err := r.Txn(t.Context(), step(acked+1)); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	r.Close()
	for i, c := range crashes {
		again, err := openFS(t, c)
		if err != nil {
			t.Fatalf("%s, power loss %d: %v", when, i, err)
		}
		if got := content(t, again); got != model(acked) && got != model(acked+1) {
			t.Fatalf("%s, power loss %d: %s", when, i, got)
		}
		again.Close()
	}
}

// The header of a generation was in memory only when its process was killed, and the disk, which
// copies on write, has no room to write it again. When there is some, it is written before the
// generation before it, which is all that the disk has, is overwritten.
func TestARecoveryThatWaitedForRoomOverwritesNothingThatItNeeds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		mem := vfs.NewMem(seed)
		p, armed := mem.Process(), false
		r := mustOpenFS(t, headers(p, &armed, func() error { p.Kill(); return nil }))
		acked := writeUntil(t, r, &armed)
		r.Close()
		room := false
		goesOn(t, fmt.Sprintf("seed %d", seed), mem, acked, func(fsys vfs.FS) vfs.FS {
			return vfs.Inject(fsys, func(op *vfs.Op) error {
				if op.Kind == vfs.OpWrite && !room {
					return syscall.ENOSPC
				}
				return nil
			})
		}, func() { room = true })
	}
}

// A header whose sync failed was taken back, which failed as well: the disk has it, and memory has not.
// Whoever comes later takes it back before it writes another snapshot behind it.
func TestAHeaderThatOnlyTheDiskHasIsTakenBack(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		mem := vfs.NewMem(seed)
		p, armed := mem.Process(), false
		r := mustOpenFS(t, headers(p, &armed, func() error { return syscall.EIO }))
		if _, err := r.OpenSession(t.Context(), time.Hour); err != nil { // its end makes the next snapshot another one
			t.Fatal(err)
		}
		acked := writeUntil(t, r, &armed)
		if _, err := r.Txn(t.Context(), step(acked+1)); err == nil {
			t.Fatal("the generation could not be taken back, and another write succeeds")
		}
		p.Kill()
		r.Close()
		goesOn(t, fmt.Sprintf("seed %d", seed), mem, acked, func(fsys vfs.FS) vfs.FS { return fsys }, func() {})
	}
}

// A first process could write a piece of the format, and a power loss left it in a file of full size.
func TestAPieceOfTheFormatIsNoDamage(t *testing.T) {
	t.Parallel()
	for n := range len(formatText) {
		mem := vfs.NewMem(1)
		must(t, mem.MkdirAll(dirName, 0o700))
		f, err := mem.OpenFile(dirName+"/FORMAT", os.O_RDWR|os.O_CREATE, 0o600)
		must(t, err)
		b := make([]byte, len(formatText))
		copy(b, formatText[:n])
		_, err = f.WriteAt(b, 0)
		must(t, errors.Join(err, f.Close()))
		r, err := openFS(t, mem)
		if err != nil {
			t.Fatalf("%d bytes of it: %v", n, err)
		}
		r.Close()
	}
}
