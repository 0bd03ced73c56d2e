package fileregistry

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testdisk"
)

// On a disk that copies on write, a heartbeat may need a block too, and a store can't say that there
// is none.
func TestAFullDiskThatCopiesOnWriteEndsNoProcess(t *testing.T) {
	t.Parallel()
	disk := testdisk.Mount(t, "btrfs", 128)
	r, err := Open(t.Context(), Config{Dir: filepath.Join(disk.Dir, "data")})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Txn(t.Context(), step(1)); err != nil {
		t.Fatal(err)
	}
	free := disk.Fill(t)
	last := 1
	for i := 2; i < 200; i++ {
		switch _, err := r.Txn(t.Context(), step(i)); {
		case err == nil:
			last = i
		case !errors.Is(err, fault.Unavailable) && !errors.Is(err, fault.Unknown):
			t.Fatalf("step %d on a full disk: %v", i, err)
		}
		if i%20 == 0 {
			disk.Sync(t)
		}
	}
	free()
	if _, err := r.Txn(t.Context(), step(200)); err != nil {
		t.Errorf("with room again, after step %d: %v", last, err)
	}
}

// Nobody lives, and the disk has no room for the generation that a recovery begins.
func TestARegistryOpensOnAFullDiskThatCopiesOnWrite(t *testing.T) {
	t.Parallel()
	disk := testdisk.Mount(t, "btrfs", 128)
	dir := filepath.Join(disk.Dir, "data")
	r, err := Open(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= 10; i++ {
		if _, err := r.Txn(t.Context(), step(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	free := disk.Fill(t)
	disk.Sync(t)
	again, err := Open(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatalf("on a full disk: %v", err)
	}
	defer again.Close()
	switch _, err := again.Txn(t.Context(), step(11)); {
	case err == nil:
		t.Log("the disk had room all the same")
	case !errors.Is(err, fault.Unavailable):
		t.Errorf("written on a full disk: %v", err)
	}
	free()
	if _, err := again.Txn(t.Context(), step(11)); err != nil {
		t.Fatalf("with room again: %v", err)
	}
	if got := content(t, again); got != model(11) {
		t.Errorf("it holds %s", got)
	}
}
