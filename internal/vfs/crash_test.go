package vfs_test

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/internal/vfs"
)

func TestWhatWasSyncedSurvivesEveryCrash(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		mem := vfs.NewMem(rapid.Uint64().Draw(t, "seed"))
		must(t, mem.MkdirAll("d", 0o700))
		must(t, mem.SyncDir("."))
		f := create(t, mem, "d/f")
		must(t, mem.SyncDir("d"))
		live := []byte{}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			off := rapid.IntRange(0, 12000).Draw(t, "off")
			p := bytes.Repeat([]byte{byte(rapid.IntRange(1, 255).Draw(t, "byte"))}, rapid.IntRange(1, 6000).Draw(t, "size"))
			switch rapid.SampledFrom([]string{"write", "store", "sync"}).Draw(t, "op") {
			case "write":
				write(t, f, int64(off), p)
				live = overwrite(live, off, p)
			case "store":
				if len(live) > off {
					m, err := f.Map(int64(len(live)), true)
					must(t, err)
					n := copy(m.Bytes()[off:], p)
					must(t, m.Close())
					live = overwrite(live, off, p[:n])
				}
			case "sync":
				must(t, f.SyncData())
			}
		}
		must(t, f.SyncData())
		synced := bytes.Clone(live)
		next := mem
		for range 3 {
			next = next.Crash()
			if got := content(t, next, "d/f"); !bytes.Equal(got, synced) {
				t.Fatalf("after the crash: %d bytes that differ from the %d synced", len(got), len(synced))
			}
		}
	})
}

func overwrite(b []byte, off int, p []byte) []byte {
	if n := off + len(p); n > len(b) {
		b = append(b, make([]byte, n-len(b))...)
	}
	copy(b[off:], p)
	return b
}

// Each sector after a crash is one that was there before: old, new or in between; nothing else.
func TestMemCrashKeepsAnySubsetOfUnsyncedSectors(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(7)
	f := create(t, mem, "f")
	must(t, mem.SyncDir("."))
	write(t, f, 0, bytes.Repeat([]byte{'o'}, 4*4096))
	must(t, f.SyncData())
	write(t, f, 0, bytes.Repeat([]byte{'m'}, 4*4096))
	write(t, f, 0, bytes.Repeat([]byte{'n'}, 4*4096))
	var lost, kept, between, tornBlock, reordered bool
	for range 400 {
		got := content(t, mem.Crash(), "f")
		if len(got) != 4*4096 {
			t.Fatalf("size %d", len(got))
		}
		for s := 0; s < len(got); s += 512 {
			sector := got[s : s+512]
			if !bytes.Equal(sector, bytes.Repeat(sector[:1], 512)) || !bytes.Contains([]byte("omn"), sector[:1]) {
				t.Fatalf("sector %d is %q", s/512, sector)
			}
			between = between || sector[0] == 'm'
			tornBlock = tornBlock || s%4096 != 0 && got[s-512] != sector[0]
		}
		lost = lost || !bytes.Contains(got, []byte("n"))
		kept = kept || bytes.Count(got, []byte("n")) == len(got)
		reordered = reordered || got[0] != 'n' && got[len(got)-1] == 'n'
	}
	if !lost || !kept || !between || !tornBlock || !reordered {
		t.Errorf("in 400 crashes: all lost %v, all kept %v, an older write kept %v, a torn block %v, reordered %v", lost, kept, between, tornBlock, reordered)
	}
}

func TestUnsyncedSizeMayBeLost(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(3)
	f := create(t, mem, "f")
	must(t, mem.SyncDir("."))
	write(t, f, 0, make([]byte, 100))
	must(t, f.SyncData())
	must(t, f.Truncate(9000))
	sizes := map[int]int{}
	for range 50 {
		sizes[len(content(t, mem.Crash(), "f"))]++
	}
	if sizes[100] == 0 || sizes[9000] == 0 || len(sizes) != 2 {
		t.Errorf("sizes after 50 crashes: %v", sizes)
	}
}

func TestMemCrashKeepsAPrefixOfDirectoryOperations(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(11)
	must(t, mem.MkdirAll("d", 0o700))
	must(t, mem.SyncDir("."))
	create(t, mem, "d/1").Close()
	must(t, mem.SyncDir("d"))
	create(t, mem, "d/2").Close()
	must(t, mem.Rename("d/1", "d/3"))
	must(t, mem.Remove("d/2"))
	want := map[string]int{"1": 0, "12": 0, "23": 0, "3": 0}
	for range 100 {
		list, err := mem.Crash().ReadDir("d")
		must(t, err)
		names := ""
		for _, e := range list {
			names += e.Name()
		}
		if _, ok := want[names]; !ok {
			t.Fatalf("names %q are no prefix", names)
		}
		want[names]++
	}
	for names, n := range want {
		if n == 0 {
			t.Errorf("100 crashes never left %q", names)
		}
	}
}

func TestMemRenameBetweenDirectoriesIsAtomic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		mem := vfs.NewMem(rapid.Uint64().Draw(t, "seed"))
		must(t, mem.MkdirAll("a", 0o700))
		must(t, mem.MkdirAll("b", 0o700))
		create(t, mem, "a/f").Close()
		for _, dir := range []string{".", "a", "b"} {
			must(t, mem.SyncDir(dir))
		}
		at := "a/f"
		for i := range rapid.IntRange(1, 6).Draw(t, "moves") {
			create(t, mem, []string{"a/x", "b/x"}[i%2]+string(rune('0'+i))).Close()
			to := rapid.SampledFrom([]string{"a/f", "b/f", "b/g", "a/g"}).Draw(t, "to")
			must(t, mem.Rename(at, to))
			at = to
			if rapid.Bool().Draw(t, "sync") {
				must(t, mem.SyncDir(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "dir")))
			}
		}
		next, found := mem.Crash(), 0
		for _, name := range []string{"a/f", "a/g", "b/f", "b/g"} {
			if _, err := next.Stat(name); err == nil {
				found++
			}
		}
		if found != 1 {
			t.Fatalf("the file exists %d times after the crash", found)
		}
	})
}

func TestMemCrashIsDecidedByTheSeed(t *testing.T) {
	t.Parallel()
	run := func() string {
		mem := vfs.NewMem(99)
		must(t, mem.MkdirAll("d", 0o700))
		f := create(t, mem, "d/f")
		write(t, f, 0, bytes.Repeat([]byte("ab"), 9000))
		must(t, f.SyncData())
		write(t, f, 100, bytes.Repeat([]byte("cd"), 9000))
		next := mem.Crash()
		if next.BootID() == mem.BootID() {
			t.Error("the boot id is the same after a crash")
		}
		return next.BootID() + dump(t, next, ".")
	}
	if a, b := run(), run(); a != b {
		t.Errorf("two runs differ:\n%s\n%s", a, b)
	}
}

func TestKillReleasesLocksAndKeepsThePageCache(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := vfs.NewMem(1)
		b := a.Process()
		fa, fb := create(t, a, "f"), create(t, b, "f")
		write(t, fa, 0, []byte("from a"))
		must(t, fa.Lock(true))
		got := make(chan error, 1)
		go func() { got <- fb.Lock(true) }()
		synctest.Wait()
		select {
		case <-got:
			t.Fatal("two processes hold an exclusive lock")
		default:
		}
		a.Kill()
		must(t, <-got)
		wantIs(t, fa.Unlock(), vfs.ErrKilled)
		_, err := fa.WriteAt([]byte("late"), 0)
		wantIs(t, err, vfs.ErrKilled)
		wantIs(t, a.Remove("f"), vfs.ErrKilled)
		if s := string(content(t, b, "f")); s != "from a" {
			t.Errorf("the page cache has %q", s)
		}
	})
}

// The goroutines of a killed process run on in a test, as on no real host. What they store into
// the pages that they have mapped must not reach whoever was given the locks.
func TestStoresOfAKilledProcessStayItsOwn(t *testing.T) {
	t.Parallel()
	a := vfs.NewMem(1)
	b := a.Process()
	fa, fb := create(t, a, "f"), create(t, b, "f")
	write(t, fa, 0, make([]byte, 3*4096))
	ma, err := fa.Map(3*4096, true)
	must(t, err)
	mb, err := fb.Map(3*4096, true)
	must(t, err)
	must(t, fa.Lock(true))
	word := func(m vfs.Mapping) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&m.Bytes()[2*4096])) }
	over, ended := make(chan struct{}), make(chan struct{})
	go func() { // stores as fast as it can, before and after its death
		defer close(ended)
		for n := uint64(1); ; n++ {
			word(ma).Store(n)
			select {
			case <-over:
				return
			default:
			}
		}
	}()
	reaches := func(m vfs.Mapping, n uint64) {
		for word(m).Load() < n {
			runtime.Gosched()
		}
	}
	reaches(mb, 1000)
	a.Kill()
	must(t, fb.Lock(true))
	atDeath := word(mb).Load()
	copy(mb.Bytes(), "of the living")
	reaches(ma, atDeath+1000)
	if n := word(mb).Load(); n != atDeath {
		t.Errorf("the page had %d at the death of who stored it, and has %d now", atDeath, n)
	}
	close(over)
	<-ended
	if got := string(content(t, b, "f")[:13]); got != "of the living" {
		t.Errorf("the file begins with %q", got)
	}
	must(t, ma.Close())
	must(t, mb.Close())
}

func TestKillEndsALockThatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := vfs.NewMem(1)
		b := a.Process()
		must(t, create(t, a, "f").Lock(true))
		fb := create(t, b, "f")
		got := make(chan error)
		go func() { got <- fb.Lock(false) }()
		synctest.Wait()
		b.Kill()
		wantIs(t, <-got, vfs.ErrKilled)
	})
}

func TestInjectFailsTheNthOperation(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	var log []string
	fail := int64(3)
	fsys := vfs.Inject(mem, func(op *vfs.Op) error {
		log = append(log, string(op.Kind))
		if op.Count == fail {
			op.Short = 2
			return syscall.ENOSPC
		}
		return nil
	})
	must(t, fsys.MkdirAll("d", 0o700))
	f := create(t, fsys, "d/f")
	n, err := f.WriteAt([]byte("hello"), 0)
	if n != 2 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write: %d, %v; want a short write of 2 and ENOSPC", n, err)
	}
	if got := string(content(t, mem, "d/f")); got != "he" {
		t.Errorf("the file has %q", got)
	}
	must(t, f.Close())
	if len(log) != 4 || log[2] != "write" || log[3] != "close" {
		t.Errorf("operations seen: %v", log)
	}
}

// The kernel tells an error of writing back to each open file once, in every process, and not to who opens
// the file later.
func TestFailedSyncIsToldOnceToEachOpenFile(t *testing.T) {
	t.Parallel()
	mem, bad := vfs.NewMem(1), true
	f := create(t, vfs.Inject(mem, func(op *vfs.Op) error {
		if op.Kind == vfs.OpSync && bad {
			return syscall.EIO
		}
		return nil
	}), "f")
	other, err := mem.Process().OpenFile("f", os.O_RDWR, 0)
	must(t, err)
	write(t, f, 0, []byte("0123456789"))
	wantIs(t, f.SyncData(), syscall.EIO)
	bad = false
	late, err := mem.Process().OpenFile("f", os.O_RDWR, 0)
	must(t, err)
	must(t, f.SyncData())
	must(t, late.SyncData())
	wantIs(t, other.SyncData(), syscall.EIO)
	must(t, other.SyncData())
}

func TestFailedSyncIsNotRepairedByTheNext(t *testing.T) {
	t.Parallel()
	lost := 0
	for seed := range uint64(40) {
		mem, bad := vfs.NewMem(seed), false
		fsys := vfs.Inject(mem, func(op *vfs.Op) error {
			if op.Kind == vfs.OpSync && bad {
				return syscall.EIO
			}
			return nil
		})
		f := create(t, fsys, "f")
		must(t, fsys.SyncDir("."))
		must(t, f.Truncate(10))
		must(t, f.SyncData())
		write(t, f, 0, []byte("0123456789"))
		bad = true
		wantIs(t, f.SyncData(), syscall.EIO)
		bad = false
		must(t, f.SyncData())
		if got := string(content(t, fsys, "f")); got != "0123456789" {
			t.Fatalf("the page cache has %q", got)
		}
		if got := string(content(t, mem.Crash(), "f")); got != "0123456789" {
			lost++
		}
	}
	if lost == 0 || lost == 40 {
		t.Errorf("the bytes were lost in %d of 40 crashes; a failed sync must lose some", lost)
	}
}

func TestMemFullDiskHealsWhenSpaceIsFreed(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(1)
	mem.SetCapacity(10000)
	a, b := create(t, mem, "a"), create(t, mem, "b")
	write(t, a, 0, make([]byte, 8000))
	_, err := b.WriteAt(make([]byte, 8000), 0)
	wantIs(t, err, syscall.ENOSPC)
	write(t, a, 0, make([]byte, 8000))
	k, err := mem.Kind(".")
	must(t, err)
	if k.FreeBytes != 2000 {
		t.Errorf("%d bytes are free; want 2000", k.FreeBytes)
	}
	must(t, mem.Remove("a"))
	write(t, b, 0, make([]byte, 8000))
}

// An error of the file system takes what was not synced without a reboot.
func TestMemCrashSameBootKeepsTheBoot(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem(5)
	f := create(t, mem, "page")
	write(t, f, 0, make([]byte, 4096))
	must(t, f.SyncData())
	must(t, mem.SyncDir("."))
	m, err := f.Map(4096, true)
	must(t, err)
	must(t, f.Lock(true))
	m.Bytes()[9] = 'x'
	old := 0
	for range 40 {
		after := mem.CrashSameBoot()
		if after.BootID() != mem.BootID() {
			t.Fatal("the boot id changed")
		}
		if content(t, after, "page")[9] == 0 {
			old++
		}
		if won, err := create(t, after, "page").TryLock(true); !won || err != nil {
			t.Fatalf("a lock of before the crash is held: %v", err)
		}
	}
	if old == 0 || old == 40 {
		t.Errorf("an unsynced store was lost in %d of 40 crashes", old)
	}
	if mem.Crash().BootID() == mem.BootID() {
		t.Error("a reboot keeps the boot id")
	}
}
