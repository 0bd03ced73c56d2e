package fileregistry

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/internal/testdisk"
	"github.com/ringfence/ringfence/registry"
)

// TestAFileSystemThatWasMountedAgainLosesNothingAcked is the case that no boot id tells: the page
// that processes map is back at what was written of it some time before, and the host has not been
// down.
func TestAFileSystemThatWasMountedAgainLosesNothingAcked(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, d *testdisk.Disk){
		"after an error": func(t *testing.T, d *testdisk.Disk) { d.Break(t) },
		"after a cut":    func(t *testing.T, d *testdisk.Disk) { d.Cut(t) },
	} {
		for when, alive := range map[string]bool{"that a process lived to see": true, "that nobody saw": false} {
			t.Run(name+" "+when, func(t *testing.T) {
				t.Parallel()
				d := testdisk.Mount(t, "ext4", 64, "errors=remount-ro")
				for round := range 3 {
					last := mountAgain(t, d, round, alive, end)
					checkCounter(t, d.Dir, last)
				}
			})
		}
	}
}

// mountAgain has a process count on the disk, ends the mount, and mounts it again. It returns what
// was acked.
func mountAgain(t *testing.T, d *testdisk.Disk, round int, alive bool, end func(t *testing.T, d *testdisk.Disk)) (last int) {
	t.Helper()
	a := spawn(t, d.Dir, "forever:x")
	count := func(n int) {
		for range n {
			last, _ = strconv.Atoi(a.expect("acked"))
		}
	}
	count(10 + round)
	d.Sync(t) // the page as it is now is what the disk will show
	count(40)
	if alive {
		end(t, d)
	}
	a.signal(syscall.SIGKILL)
	for a.out.Scan() {
		if rest, ok := strings.CutPrefix(a.out.Text(), "acked "); ok {
			last, _ = strconv.Atoi(rest)
		}
	}
	_ = a.cmd.Wait()
	if !alive {
		end(t, d)
	}
	d.Unmount(t)
	d.Check(t)
	d.Remount(t)
	return last
}

// checkCounter finds what was acked, and goes on with it.
func checkCounter(t *testing.T, dir string, last int) {
	t.Helper()
	r, err := Open(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, _ := strconv.Atoi(value(t, r, "own/x")); got != last && got != last+1 {
		t.Fatalf("%d were acked, the registry has %d", last, got)
	}
	if _, err := r.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "after"}}}); err != nil {
		t.Fatal(err)
	}
}

// A snapshot of a disk that is in use has the page as it was on its blocks.
func TestASnapshotOfTheDiskHoldsWhatWasAcked(t *testing.T) {
	t.Parallel()
	d := testdisk.Mount(t, "ext4", 64)
	a := spawn(t, d.Dir, "forever:x")
	for range 30 {
		a.expect("acked")
	}
	least, _ := strconv.Atoi(a.expect("acked"))
	snap := d.Snapshot(t)
	most, _ := strconv.Atoi(a.expect("acked"))
	r := openDir(t, snap.Dir)
	if got, _ := strconv.Atoi(value(t, r, "own/x")); got < least {
		t.Errorf("%d were acked before the snapshot (%d soon after), which has %d", least, most, got)
	}
	r.Close()
	a.signal(syscall.SIGKILL)
	_ = a.cmd.Wait()
}
