package vfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/internal/vfs"
)

// both runs a test on the real file system and on the one in memory: they must agree.
func both(t *testing.T, test func(t *testing.T, fsys vfs.FS)) {
	t.Run("os", func(t *testing.T) {
		t.Parallel()
		fsys, err := vfs.OpenOS(t.TempDir())
		must(t, err)
		t.Cleanup(func() { fsys.Close() })
		test(t, fsys)
	})
	t.Run("mem", func(t *testing.T) {
		t.Parallel()
		test(t, vfs.NewMem(1))
	})
}

func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t rapid.TB, fsys vfs.FS, name string) vfs.File {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	must(t, err)
	return f
}

func write(t rapid.TB, f vfs.File, off int64, p []byte) {
	t.Helper()
	n, err := f.WriteAt(p, off)
	if err != nil || n != len(p) {
		t.Fatalf("write of %d bytes: %d, %v", len(p), n, err)
	}
}

func content(t rapid.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	must(t, err)
	defer f.Close()
	size, err := f.Size()
	must(t, err)
	p := make([]byte, size)
	if n, err := f.ReadAt(p, 0); n != len(p) || err != nil && err != io.EOF {
		t.Fatalf("read %s: %d of %d, %v", name, n, size, err)
	}
	return p
}

func TestNamesCantLeaveTheRoot(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, fsys vfs.FS) {
		for _, name := range []string{"", "..", "../x", "/etc/passwd", "a/../../b"} {
			if f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600); err == nil {
				f.Close()
				t.Errorf("OpenFile(%q) succeeded", name)
			}
			if fsys.MkdirAll(name, 0o700) == nil {
				t.Errorf("MkdirAll(%q) succeeded", name)
			}
			if _, err := fsys.Stat(name); err == nil {
				t.Errorf("Stat(%q) succeeded", name)
			}
		}
	})
}

func TestOSFollowsNoLinkOutOfTheRoot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.Symlink(t.TempDir(), dir+"/out"))
	fsys, err := vfs.OpenOS(dir)
	must(t, err)
	defer fsys.Close()
	if f, err := fsys.OpenFile("out/x", os.O_RDWR|os.O_CREATE, 0o600); err == nil {
		f.Close()
		t.Error("a file was created through a link that points out of the root")
	}
}

func TestOpenFlags(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, fsys vfs.FS) {
		_, err := fsys.OpenFile("a", os.O_RDWR, 0)
		wantIs(t, err, fs.ErrNotExist)
		_, err = fsys.OpenFile("no/a", os.O_RDWR|os.O_CREATE, 0o600)
		wantIs(t, err, fs.ErrNotExist)
		f := create(t, fsys, "a")
		write(t, f, 0, []byte("hello"))
		_, err = fsys.OpenFile("a", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		wantIs(t, err, fs.ErrExist)
		r, err := fsys.OpenFile("a", os.O_RDONLY, 0)
		must(t, err)
		if _, err := r.WriteAt([]byte("x"), 0); err == nil {
			t.Error("a write through a read-only handle succeeded")
		}
		_, err = fsys.OpenFile("a", os.O_RDWR|os.O_TRUNC, 0)
		must(t, err)
		if got := content(t, fsys, "a"); len(got) != 0 {
			t.Errorf("O_TRUNC left %q", got)
		}
		must(t, f.Close())
		_, err = f.WriteAt([]byte("x"), 0)
		wantIs(t, err, fs.ErrClosed)
		wantIs(t, f.SyncData(), fs.ErrClosed)
		wantIs(t, f.Lock(true), fs.ErrClosed)
	})
}

func wantIs(t rapid.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v; want %v", err, want)
	}
}

func TestLocksBelongToTheOpenFile(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, fsys vfs.FS) {
		a, b, c := create(t, fsys, "l"), create(t, fsys, "l"), create(t, fsys, "l")
		try := func(f vfs.File, exclusive, want bool) {
			t.Helper()
			if got, err := f.TryLock(exclusive); err != nil || got != want {
				t.Errorf("TryLock(%v) = %v, %v; want %v", exclusive, got, err, want)
			}
		}
		try(a, true, true)
		try(a, true, true)
		try(b, true, false)
		try(b, false, false)
		must(t, a.Unlock())
		try(b, false, true)
		try(c, false, true)
		try(a, true, false)
		must(t, b.Close())
		try(a, true, false)
		got := make(chan error)
		go func() { got <- a.Lock(true) }()
		must(t, c.Unlock())
		must(t, <-got)
		try(c, true, false)
		must(t, fsys.Remove("l"))
		try(create(t, fsys, "l"), true, true) // another file of the same name
	})
}

func TestMappingsShareMemoryWithReadsAndWrites(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, fsys vfs.FS) {
		f := create(t, fsys, "m")
		if _, err := f.Map(4096, true); err == nil {
			t.Error("a mapping past the end was allowed: it would die of SIGBUS")
		}
		write(t, f, 0, bytes.Repeat([]byte("x"), 5000))
		m, err := f.Map(4096, true)
		must(t, err)
		n, err := create(t, fsys, "m").Map(5000, false)
		must(t, err)
		m.Bytes()[7] = 'y'
		write(t, f, 8, []byte("z"))
		if got := string(n.Bytes()[6:10]); got != "xyzx" {
			t.Errorf("the other mapping has %q", got)
		}
		if got := string(content(t, fsys, "m")[6:10]); got != "xyzx" {
			t.Errorf("a read has %q", got)
		}
		write(t, f, 9000, []byte("end"))
		must(t, f.SyncData())
		must(t, m.Close())
		must(t, m.Close())
		must(t, n.Close())
		must(t, f.Truncate(3))
	})
}

// The same random operations give the same answers on both.
func TestMemBehavesLikeTheRealOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "vfs")
		must(t, err)
		defer os.RemoveAll(dir)
		actual, err := vfs.OpenOS(dir)
		must(t, err)
		defer actual.Close()
		mem := vfs.NewMem(rapid.Uint64().Draw(t, "seed"))
		name := rapid.SampledFrom([]string{"a", "b", "d", "d/a", "d/b", "d/e", "."})
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			op := rapid.SampledFrom([]string{"mkdir", "rename", "remove", "removeall", "write", "truncate", "map"}).Draw(t, "op")
			x, y := name.Draw(t, "x"), name.Draw(t, "y")
			off, size := rapid.Int64Range(0, 9000).Draw(t, "off"), rapid.IntRange(0, 5000).Draw(t, "size")
			do := func(fsys vfs.FS) error { return step(fsys, op, x, y, off, size) }
			if re, me := do(actual), do(mem); (re == nil) != (me == nil) {
				t.Fatalf("%s %s %s: real %v, mem %v", op, x, y, re, me)
			}
			if r, m := dump(t, actual, "."), dump(t, mem, "."); r != m {
				t.Fatalf("after %s %s %s %d %d: real\n%s\nmem\n%s", op, x, y, off, size, r, m)
			}
		}
	})
}

func step(fsys vfs.FS, op, x, y string, off int64, size int) error {
	switch op {
	case "mkdir":
		return fsys.MkdirAll(x, 0o700)
	case "rename":
		if x == "." || y == "." {
			return nil
		}
		return fsys.Rename(x, y)
	case "remove":
		return fsys.Remove(x)
	case "removeall":
		if x == "." {
			return nil
		}
		return fsys.RemoveAll(x)
	}
	f, err := fsys.OpenFile(x, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	switch op {
	case "truncate":
		return f.Truncate(off)
	case "map":
		m, err := f.Map(int64(size), true)
		if err != nil {
			return err
		}
		m.Bytes()[size/2] ^= 0x55
		return m.Close()
	}
	_, err = f.WriteAt(bytes.Repeat([]byte{byte(size)}, size), off)
	return err
}

// dump is a whole tree as text.
func dump(t rapid.TB, fsys vfs.FS, dir string) string {
	t.Helper()
	list, err := fsys.ReadDir(dir)
	must(t, err)
	var b strings.Builder
	for _, e := range list {
		name := strings.TrimPrefix(dir+"/"+e.Name(), "./")
		if e.IsDir() {
			fmt.Fprintf(&b, "%s/\n%s", name, dump(t, fsys, name))
			continue
		}
		info, err := fsys.Stat(name)
		must(t, err)
		fmt.Fprintf(&b, "%s %d %x\n", name, info.Size(), content(t, fsys, name))
	}
	return b.String()
}
