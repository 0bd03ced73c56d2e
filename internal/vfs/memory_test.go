//go:build linux

package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence/internal/fault"
)

// onMemory is a directory whose shared pages lie in a memory of the test's own.
func onMemory(t *testing.T) *OS {
	t.Helper()
	dir, err := os.MkdirTemp(memoryDir, "ringfence-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return another(t, t.TempDir(), dir)
}

// another is what a further process opens.
func another(t *testing.T, dir, memory string) *OS {
	t.Helper()
	o, err := OpenOS(dir)
	if err != nil {
		t.Fatal(err)
	}
	o.pages = pages{dir: memory, anywhere: true}
	t.Cleanup(func() { o.Close() })
	return o
}

func mapFile(t *testing.T, o *OS, size int64, writable bool) (Mapping, error) {
	t.Helper()
	f, err := o.OpenFile("page", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if have, err := f.Size(); err != nil || have < size {
		if err := errors.Join(err, f.Truncate(size)); err != nil {
			t.Fatal(err)
		}
	}
	return f.Map(size, writable)
}

func mustMap(t *testing.T, o *OS, size int64, writable bool) Mapping {
	t.Helper()
	m, err := mapFile(t, o, size, writable)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func files(t *testing.T, dir string) int {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestPageInMemoryIsSharedUntilTheLastClose(t *testing.T) {
	t.Parallel()
	o := onMemory(t)
	a := mustMap(t, o, 8192, true)
	b := mustMap(t, another(t, o.dir, o.pages.dir), 4096, true)
	larger := mustMap(t, o, 16384, true)
	copy(a.Bytes()[100:], "from a")
	copy(b.Bytes()[200:], "from b")
	reader := mustMap(t, o, 8192, false)
	for name, m := range map[string]Mapping{"a": a, "b": b, "a larger one": larger, "one to read": reader} {
		if got := string(m.Bytes()[100:106]) + string(m.Bytes()[200:206]); got != "from afrom b" {
			t.Errorf("%s shows %q", name, got)
		}
	}
	for _, m := range []Mapping{a, b, larger} {
		if n := files(t, o.pages.dir); n != 1 {
			t.Errorf("%d files in memory while somebody has the page", n)
		}
		if err := errors.Join(m.Close(), m.Close()); err != nil {
			t.Error(err)
		}
	}
	if n := files(t, o.pages.dir); n != 0 {
		t.Errorf("%d files in memory when nobody has the page", n)
	}
}

func TestPageInMemoryBeginsAsZeros(t *testing.T) {
	t.Parallel()
	o := onMemory(t)
	m, err := mapFile(t, o, 4096, true)
	if err != nil {
		t.Fatal(err)
	}
	copy(m.Bytes(), "of a killed process")
	killed := m.(*memoryMapping)
	if err := errors.Join(killed.m.disk.Close(), killed.Mapping.Close()); err != nil { // the kernel does no more
		t.Fatal(err)
	}
	if n := files(t, o.pages.dir); n != 1 {
		t.Fatalf("%d files in memory after a kill", n)
	}
	next := mustMap(t, o, 4096, true)
	if got := strings.TrimRight(string(next.Bytes()), "\x00"); got != "" {
		t.Errorf("it begins with %q", got)
	}
	if n := files(t, o.pages.dir); n != 1 {
		t.Errorf("%d files in memory; expected that of the killed process to be gone", n)
	}
}

// The numbers of two files may begin alike. Who removes what the dead left of the one leaves the
// other's alone.
func TestSweepLeavesPagesOfOtherFiles(t *testing.T) {
	t.Parallel()
	o := onMemory(t)
	m := mustMap(t, o, 4096, true).(*memoryMapping).m
	others := []string{strings.TrimSuffix(m.id, "-") + "0-1", "x" + m.id + "1", strings.ToUpper(m.id) + "1"}
	for _, name := range others {
		if err := os.WriteFile(filepath.Join(o.pages.dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m.sweep()
	if n := files(t, o.pages.dir); n != len(others) {
		t.Errorf("%d files are left in memory; expected the %d of other files on the disk", n, len(others))
	}
}

// A store into a page can't fail: all of its memory is there before anybody has it.
func TestPageInMemoryHasItsBlocks(t *testing.T) {
	t.Parallel()
	o := onMemory(t)
	for _, size := range []int64{1 << 20, 3 << 20} { // the second one grows
		mustMap(t, o, size, true)
		list, err := filepath.Glob(filepath.Join(o.pages.dir, "*"))
		if err != nil || len(list) != 1 {
			t.Fatalf("%q, %v; expected one file in memory", list, err)
		}
		var st unix.Stat_t
		if err := unix.Stat(list[0], &st); err != nil {
			t.Fatal(err)
		}
		if st.Blocks*512 < size {
			t.Errorf("%d bytes are there for a page of %d", st.Blocks*512, size)
		}
	}
}

// Who looks which file in memory is the one is alone: of two at once, both might make one.
func TestOneAtATimeLooksWhereAPageIs(t *testing.T) {
	t.Parallel()
	o := onMemory(t)
	one, other := mustMap(t, o, 4096, true).(*memoryMapping).m, mustMap(t, o, 4096, true).(*memoryMapping).m
	if err := one.enter(0); err != nil {
		t.Fatal(err)
	}
	for name, kind := range map[string]int16{"alone": unix.F_WRLCK, "beside others": unix.F_RDLCK} {
		if err := other.lock(kind, gateByte); !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
			t.Errorf("another one gets in to look %s: %v", name, err)
		}
	}
	if err := one.lock(unix.F_UNLCK, gateByte); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(other.enter(0), other.lock(unix.F_UNLCK, gateByte)); err != nil {
		t.Errorf("when it is left nobody gets in: %v", err)
	}
}

// Two containers may share a directory and not the memory of the host.
func TestMapRefusesAPageInAnotherMemory(t *testing.T) {
	t.Parallel()
	o := onMemory(t)
	mustMap(t, o, 4096, true)
	elsewhere := onMemory(t).pages.dir
	for _, writable := range []bool{true, false} {
		_, err := mapFile(t, another(t, o.dir, elsewhere), 4096, writable)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "container") {
			t.Errorf("mapped to write %v: %v; expected to be refused with the reason", writable, err)
		}
	}
	if n := files(t, elsewhere); n != 0 {
		t.Errorf("%d files in the other memory", n)
	}
}

func TestMapRefusesAMemoryDirOnDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var o *OS
	if kind, err := onMemory(t).Kind("."); err != nil || kind.Type == "tmpfs" {
		t.Logf("temporary files lie in memory here (%v): nothing else to try", err)
		o = another(t, dir, filepath.Join(dir, "missing"))
	} else {
		o = another(t, dir, t.TempDir())
	}
	if _, err := mapFile(t, o, 4096, true); err == nil || !strings.Contains(err.Error(), "tmpfs") && !strings.Contains(err.Error(), "copies on write") {
		t.Errorf("it is mapped all the same: %v", err)
	}
}

// A process that is stopped while it looks holds up no other one that lets go of the page.
func TestCloseDoesNotWaitForAStoppedLooker(t *testing.T) {
	t.Parallel()
	o := onMemory(t)
	stopped, leaves := mustMap(t, o, 4096, true).(*memoryMapping).m, mustMap(t, o, 4096, true)
	if err := stopped.enter(0); err != nil {
		t.Fatal(err)
	}
	if err := leaves.Close(); err != nil {
		t.Errorf("let go of while another one looks: %v", err)
	}
	var looks sync.WaitGroup
	looks.Go(func() {
		time.Sleep(5 * gateNap) // the other process waits meanwhile
		_ = stopped.lock(unix.F_UNLCK, gateByte)
	})
	mustMap(t, o, 4096, true)
	looks.Wait()
}

// A system that cleans up after a login removes what lies in memory, and then anybody can take the name.
func TestMapRefusesAPageOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Log("only the mode is tried: the owner can't be changed")
	}
	o := onMemory(t)
	mustMap(t, o, 8192, true)
	list, err := os.ReadDir(o.pages.dir)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	path := filepath.Join(o.pages.dir, list[0].Name())
	plant := func(mode os.FileMode, uid int) {
		if err := errors.Join(os.Remove(path), os.WriteFile(path, make([]byte, 8192), mode), os.Chmod(path, mode), os.Chown(path, uid, -1)); err != nil {
			t.Fatal(err)
		}
		for _, writable := range []bool{true, false} {
			if m, err := mapFile(t, another(t, o.dir, o.pages.dir), 8192, writable); !errors.Is(err, fault.Invalid) {
				t.Errorf("mode %o, owner %d, to write %t: %v; expected it to be refused", mode, uid, writable, err)
				if m != nil {
					_ = m.Close()
				}
			}
		}
	}
	plant(0o666, -1)
	if os.Geteuid() == 0 {
		plant(0o600, 65534)
	}
}
