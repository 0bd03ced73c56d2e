package vfs_test

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/internal/vfs"
)

func openDir(t *testing.T, fsys vfs.FS, name string) vfs.Dir {
	t.Helper()
	d, err := fsys.OpenDir(name)
	must(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// A handle shows one directory, however it is called now and whatever is called like it.
func TestDirStaysTheSameWhenItsNameMoves(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, fsys vfs.FS) {
		must(t, fsys.MkdirAll("top/life", 0o700))
		first := openDir(t, openDir(t, fsys, "top"), "life")
		write(t, create(t, first, "who"), 0, []byte("first"))
		must(t, fsys.Rename("top/life", "top/gone"))
		must(t, fsys.MkdirAll("top/life", 0o700))
		second := openDir(t, fsys, "top/life")
		write(t, create(t, second, "who"), 0, []byte("second"))

		must(t, first.Rename("who", "me"))
		must(t, first.MkdirAll("deep/er", 0o700))
		create(t, first, "deep/er/x").Close()
		must(t, first.SyncDir("."))
		if got := dump(t, fsys, "."); got != "top/\ntop/gone/\ntop/gone/deep/\ntop/gone/deep/er/\ntop/gone/deep/er/x 0 \ntop/gone/me 5 6669727374\ntop/life/\ntop/life/who 6 7365636f6e64\n" {
			t.Errorf("after work on the first life:\n%s", got)
		}
		must(t, first.RemoveAll("deep"))
		_, err := first.Stat("who")
		wantIs(t, err, fs.ErrNotExist)
		if got := string(content(t, second, "who")); got != "second" {
			t.Errorf("the second life holds %q", got)
		}
	})
}

func TestNothingIsMadeInARemovedDirectory(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, fsys vfs.FS) {
		must(t, fsys.MkdirAll("a/b", 0o700))
		must(t, fsys.MkdirAll("empty", 0o700))
		tree, empty := openDir(t, fsys, "a"), openDir(t, fsys, "empty")
		below := openDir(t, tree, "b")
		write(t, create(t, tree, "x"), 0, []byte("kept open"))
		file, err := tree.OpenFile("x", os.O_RDWR, 0)
		must(t, err)
		must(t, fsys.RemoveAll("a"))
		must(t, fsys.Remove("empty"))
		must(t, fsys.MkdirAll("a/b", 0o700))
		create(t, fsys, "a/x").Close()

		for name, d := range map[string]vfs.Dir{"tree": tree, "below": below, "empty": empty} {
			_, err := d.OpenFile("x", os.O_RDWR|os.O_CREATE, 0o600)
			wantIs(t, err, fs.ErrNotExist)
			wantIs(t, d.MkdirAll("y", 0o700), fs.ErrNotExist)
			wantIs(t, d.Remove("x"), fs.ErrNotExist)
			wantIs(t, d.Rename("x", "y"), fs.ErrNotExist)
			_, err = d.Stat("x")
			wantIs(t, err, fs.ErrNotExist)
			_, err = d.OpenDir("b")
			wantIs(t, err, fs.ErrNotExist)
			_, err = d.ReadDir(".")
			wantIs(t, err, fs.ErrNotExist)
			if err := d.SyncDir("."); err != nil {
				t.Errorf("%s: SyncDir: %v", name, err)
			}
		}
		write(t, file, 0, []byte("still"))
		if got := dump(t, fsys, "."); got != "a/\na/b/\na/x 0 \n" {
			t.Errorf("the second life was touched:\n%s", got)
		}
	})
}

func TestDirReachesOnlyItsOwnFiles(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, fsys vfs.FS) {
		must(t, fsys.MkdirAll("d", 0o700))
		f := create(t, fsys, "d/f")
		_, err := fsys.OpenDir("d/f")
		if err == nil {
			t.Error("a file was opened as a directory")
		}
		_, err = fsys.OpenDir("none")
		wantIs(t, err, fs.ErrNotExist)
		if _, err := fsys.OpenDir("../d"); err == nil {
			t.Error("a name led out of the root")
		}
		d := openDir(t, fsys, "d")
		if _, err := d.OpenFile("../d/f", os.O_RDONLY, 0); err == nil {
			t.Error("a name led out of a directory")
		}
		if d.Path("f") != fsys.Path("d/f") || d.BootID() != fsys.BootID() {
			t.Errorf("path %s in boot %s, expected %s in %s", d.Path("f"), d.BootID(), fsys.Path("d/f"), fsys.BootID())
		}
		if k, err := d.Kind("."); err != nil || k.FreeBytes == 0 {
			t.Errorf("Kind: %+v, %v", k, err)
		}
		same, err := d.OpenFile("f", os.O_RDWR, 0)
		must(t, err)
		must(t, f.Lock(true))
		if won, err := same.TryLock(true); won || err != nil {
			t.Errorf("the lock of the same file was taken twice (%v)", err)
		}
		must(t, d.Close())
		_, err = d.Stat("f")
		wantIs(t, err, fs.ErrClosed)
		write(t, same, 0, []byte("open files stay open"))
	})
}

// Hooks see one count and whole names, whichever handle is used.
func TestHooksSeeThroughADir(t *testing.T) {
	t.Parallel()
	var seen []string
	last := int64(0)
	fsys := vfs.Inject(vfs.NewMem(1), func(op *vfs.Op) error {
		if op.Count != last+1 {
			t.Errorf("operation %d after %d", op.Count, last)
		}
		last = op.Count
		seen = append(seen, string(op.Kind)+" "+op.Name)
		return nil
	})
	must(t, fsys.MkdirAll("a/b", 0o700))
	d := openDir(t, openDir(t, fsys, "a"), "b")
	f := create(t, d, "f")
	write(t, f, 0, []byte("x"))
	must(t, f.SyncData())
	must(t, d.Rename("f", "g"))
	must(t, d.SyncDir("."))
	must(t, d.Close())
	want := []string{"mkdir a/b", "opendir a", "opendir a/b", "open a/b/f", "write a/b/f", "sync a/b/f", "rename a/b/g", "syncdir a/b", "close a/b"}
	if !slices.Equal(seen, want) {
		t.Errorf("hooks saw %q, expected %q", seen, want)
	}
}

// What a handle shows and what a name shows are compared, to learn that the name has moved on.
func TestSameFileTellsLivesOfANameApart(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, fsys vfs.FS) {
		stat := func(f vfs.FS, name string) fs.FileInfo {
			i, err := f.Stat(name)
			must(t, err)
			return i
		}
		must(t, fsys.MkdirAll("d", 0o700))
		create(t, fsys, "d/f").Close()
		d := openDir(t, fsys, "d")
		first := stat(d, "f")
		if !vfs.SameFile(first, stat(fsys, "d/f")) || vfs.SameFile(first, stat(fsys, "d")) {
			t.Error("a file is not itself, or is its directory")
		}
		must(t, fsys.Rename("d", "e"))
		must(t, fsys.MkdirAll("d", 0o700))
		create(t, fsys, "d/f").Close()
		if vfs.SameFile(first, stat(fsys, "d/f")) || !vfs.SameFile(first, stat(fsys, "e/f")) {
			t.Error("the file was not followed to its new name")
		}
	})
}

// A root that is moved away is gone from under its name, and not from the processes that have it open.
func TestAwayWhenTheRootWasMoved(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, fsys vfs.FS) {
		must(t, fsys.MkdirAll("d", 0o700))
		create(t, fsys, "d/f").Close()
		was, err := fsys.Stat("d/f")
		must(t, err)
		away := func() error { return vfs.Away(fsys, "d/f", was) }
		must(t, away())
		if _, ok := fsys.(*vfs.OS); !ok {
			return // it can't be moved
		}
		at := fsys.Path(".")
		must(t, os.Rename(at, at+".old"))
		wantIs(t, away(), fs.ErrNotExist)
		must(t, os.WriteFile(at, nil, 0o600))
		wantIs(t, away(), syscall.ENOTDIR)
		must(t, errors.Join(os.Remove(at), os.Symlink(at, at)))
		wantIs(t, away(), syscall.ELOOP)
		must(t, errors.Join(os.Remove(at), os.Symlink(at+".old", at)))
		must(t, away())
		must(t, errors.Join(os.Remove(at), os.CopyFS(at, os.DirFS(at+".old"))))
		if err := away(); err == nil {
			t.Error("a copy passes for what was copied")
		}
	})
}
