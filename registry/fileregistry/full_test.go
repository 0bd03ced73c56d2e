package fileregistry

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testdisk"
	"github.com/ringfence/ringfence/internal/vfs"
	"github.com/ringfence/ringfence/registry"
)

func TestAFullDiskRefusesCleanlyAndHeals(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	r := mustOpenFS(t, mem)
	if _, err := r.Txn(t.Context(), step(1)); err != nil {
		t.Fatal(err)
	}
	mem.SetCapacity(1)
	large := registry.Txn{Puts: []registry.Put{{Key: "large", Value: make([]byte, 100_000)}}}
	if _, err := r.Txn(t.Context(), large); !errors.Is(err, fault.Unavailable) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("error %v, expected no space, and unavailable", err)
	}
	for i := 2; i < 60; i++ { // through several generations: room that is there is used again
		_, err := r.Txn(t.Context(), step(i))
		if err != nil && !errors.Is(err, fault.Unavailable) {
			t.Fatal(err)
		}
	}
	if value(t, r, "large") != "" {
		t.Fatal("what failed is there")
	}
	mem.SetCapacity(0)
	if _, err := r.Txn(t.Context(), large); err != nil {
		t.Fatalf("with room again: %v", err)
	}
}

// Heartbeats are stores into mapped memory: a page without a block would be a SIGBUS.
func TestTheControlFileIsWrittenInFullBeforeItIsMapped(t *testing.T) {
	t.Parallel()
	written, synced, mapped := int64(0), false, false
	r, err := Open(t.Context(), Config{FS: vfs.Inject(vfs.NewMem(1), func(op *vfs.Op) error {
		if !strings.HasSuffix(op.Name, "/control") || mapped {
			return nil
		}
		switch op.Kind {
		case vfs.OpWrite:
			if op.Offset == written {
				written += int64(op.Length)
			}
		case vfs.OpSync:
			synced = written == controlSize
		case vfs.OpMap:
			mapped = true
			if !synced {
				t.Errorf("mapped with %d of %d bytes written, synced: %v", written, controlSize, synced)
			}
		}
		return nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if !mapped {
		t.Error("the control file was not mapped at all")
	}
}

func TestOpenOnAFullDiskSaysSoAndWorksLater(t *testing.T) {
	t.Parallel()
	full := errors.New("")
	for n := range 200 {
		mem, writes := vfs.NewMem(1), 0
		fsys := vfs.Inject(mem, func(op *vfs.Op) error {
			if op.Kind == vfs.OpWrite || op.Kind == vfs.OpTruncate {
				if writes++; writes > n {
					return syscall.ENOSPC
				}
			}
			return nil
		})
		r, err := Open(t.Context(), Config{FS: fsys, space: tiny})
		if err == nil {
			r.Close()
			if n < 3 {
				t.Fatalf("it opened with %d writes", n)
			}
			return
		}
		if full = err; !errors.Is(full, fault.Unavailable) || !strings.Contains(full.Error(), "no space is left") {
			t.Fatalf("with room for %d writes: %v; expected unavailable, no space is left", n, err)
		}
		if r, err = Open(t.Context(), Config{FS: mem, space: tiny}); err != nil {
			t.Fatalf("with room again, after %d writes: %v", n, err)
		}
		r.Close()
	}
	t.Fatalf("it never opened: %v", full)
}

// As it happened: sessions were opened on a disk that others had filled.
func TestSessionsLiveOnADiskThatIsFull(t *testing.T) {
	t.Parallel()
	disk, ok := testdisk.Small(t, "4m")
	if !ok {
		t.Log("this user may not mount a file system; the tests above play it")
		return
	}
	dir := disk.Dir
	s, err := open(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	r := registry.New(s)
	defer r.Close()
	if info, err := os.Stat(filepath.Join(dir, dirName, "wake")); err != nil || info.Sys().(*syscall.Stat_t).Blocks == 0 {
		t.Errorf("wake-ups have no block to write to: %v", err)
	}
	free := disk.Fill(t)
	for i := range slotCount {
		s.ctl.slot(i).Add(0) // a store to every page
	}
	x, err := r.OpenSession(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	put := registry.Txn{Puts: []registry.Put{{Key: "k", Value: []byte("here"), Session: x.ID()}}}
	if _, err := r.Txn(t.Context(), put); err != nil {
		t.Fatal(err)
	}
	joined, err := open(t.Context(), Config{Dir: dir}) // another process, on the full disk
	if err != nil {
		t.Fatal(err)
	}
	defer joined.Close()
	if got := value(t, registry.New(joined), "k"); got != "here" {
		t.Fatalf("the other process reads %q", got)
	}
	large := registry.Txn{Puts: []registry.Put{{Key: "large", Value: make([]byte, 900_000)}}}
	for err = error(nil); err == nil; {
		_, err = r.Txn(t.Context(), large) // until the journal would have to grow
	}
	if !errors.Is(err, fault.Unavailable) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("error %v, expected unavailable for want of space", err)
	}
	free()
	if _, err := r.Txn(t.Context(), put); err != nil {
		t.Fatalf("with room again: %v", err)
	}
}
