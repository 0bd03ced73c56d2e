package backup

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/limits"
	"github.com/ringfence/ringfence/internal/vfs"
)

// staging is where files are restored to, in the data directory. No process opens a directory that has it. The
// files get their places once all of them are as the manifest says.
const staging = vfs.RestoringDir

// Restore puts a backup, a file or a directory, into a data directory that is empty or not there yet. On an
// error nothing is left there. fault.Conflict: it is not empty. fault.Corrupt: the backup is torn or damaged.
func Restore(ctx context.Context, from, dir string, o *Options) (*api.Backup, error) {
	info, err := os.Stat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("backup %s: %w", from, fault.NotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("backup: %w: %w", fault.Invalid, err)
	}
	if info.IsDir() {
		return restore(ctx, dir, o, func(s *sink) (*manifest, error) { return readDir(from, s) })
	}
	f, err := os.Open(from)
	if err != nil {
		return nil, fmt.Errorf("backup: %w: %w", fault.Invalid, err)
	}
	defer f.Close()
	return RestoreStream(ctx, f, dir, o)
}

// RestoreStream is Restore from an archive.
func RestoreStream(ctx context.Context, r io.Reader, dir string, o *Options) (*api.Backup, error) {
	return restore(ctx, dir, o, func(s *sink) (*manifest, error) { return readArchive(r, s) })
}

func restore(ctx context.Context, dir string, o *Options, read func(*sink) (*manifest, error)) (_ *api.Backup, err error) {
	_, missing := os.Stat(dir)
	d, err := vfs.CreatePrivate(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, fmt.Errorf("restore into %s: %w", dir, err)
	}
	defer func() {
		err = errors.Join(err, d.Close())
		if err != nil && errors.Is(missing, fs.ErrNotExist) {
			_ = os.Remove(dir) // unless something is in it
		}
	}()
	unlock, err := claim(d)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	defer unlock()
	s := newSink(ctx, o)
	into(s, d, staging)
	m, err := read(s)
	if err == nil {
		err = s.check(d, m)
	}
	if err == nil {
		err = install(d)
	}
	if err != nil {
		return nil, fmt.Errorf("restore: nothing was restored: %w", errors.Join(err, d.RemoveAll(staging)))
	}
	return &m.Backup, nil
}

// claim makes the place for the files, which one process has at a time. What an interrupted restore left goes.
func claim(d vfs.FS) (unlock func(), err error) {
	if err := mustBeEmpty(d); err != nil {
		return nil, err
	}
	if err := d.MkdirAll(staging, 0o700); err != nil {
		return nil, err
	}
	lock, err := d.OpenFile(path.Join(staging, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	won, err := lock.TryLock(true)
	if err == nil && !won {
		err = fmt.Errorf("another process restores into %s now: %w", d.Path("."), fault.Conflict)
	}
	if err == nil {
		err = mustBeEmpty(d) // that one may have finished
	}
	if err == nil {
		err = removeAll(d, path.Join(staging, "log"), path.Join(staging, "registry"))
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return func() { _ = lock.Close() }, nil
}

// install gives the files their places. An interruption between the steps leaves the staging directory, with
// which nothing is opened.
func install(d vfs.FS) error {
	for _, dir := range filelog.Dirs() {
		if err := d.MkdirAll(path.Join(staging, dir), 0o700); err != nil {
			return err
		}
	}
	if err := syncTree(d, staging); err != nil {
		return err
	}
	for _, dir := range []string{"registry", "log"} {
		if err := d.Rename(path.Join(staging, dir), dir); err != nil {
			return errors.Join(err, removeAll(d, "registry", "log"))
		}
	}
	if err := d.SyncDir("."); err != nil {
		return err
	}
	return errors.Join(d.RemoveAll(staging), d.SyncDir("."))
}

// check compares what was stored with the manifest, and removes what counts no more.
func (s *sink) check(d vfs.FS, m *manifest) error {
	for _, f := range m.Files {
		have, ok := s.files[f.Name]
		switch {
		case !ok:
			return fmt.Errorf("%s is missing in the backup: %w", f.Name, fault.Corrupt)
		case have != f:
			return fmt.Errorf("%s is damaged in the backup: expected %d bytes with checksum %s, found %d with %s: %w", f.Name, f.Size, f.Sum, have.Size, have.Sum, fault.Corrupt)
		}
		delete(s.files, f.Name)
	}
	for name := range s.files {
		if err := d.Remove(path.Join(staging, name)); err != nil {
			return err
		}
	}
	return nil
}

// readArchive stores the files of an archive and returns its manifest.
func readArchive(r io.Reader, s *sink) (*manifest, error) {
	src := &source{Reader: r}
	dec, err := zstd.NewReader(src, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	z := &unpacked{dec, src}
	t := tar.NewReader(z)
	head, err := t.Next()
	if err != nil || head.Name != formatFile {
		return nil, noBackup(err)
	}
	b, err := io.ReadAll(io.LimitReader(t, 100))
	if err == nil {
		err = checkFormat(b)
	}
	if err != nil {
		return nil, err
	}
	var m *manifest
	for {
		head, err := t.Next()
		switch {
		case errors.Is(err, io.EOF) && m != nil:
			_, err = io.Copy(io.Discard, z) // to its own checksum
			return m, torn(err)
		case errors.Is(err, io.EOF):
			err = io.ErrUnexpectedEOF
		case err == nil && m != nil:
			return nil, fmt.Errorf("something follows the manifest of the backup: %w", fault.Corrupt)
		case err == nil && head.Name == manifestFile:
			m, err = readManifest(t)
		case err == nil && !known(head.Name):
			return nil, fmt.Errorf("the backup holds %q, which is no file of Ringfence: %w", head.Name, fault.Corrupt)
		case err == nil:
			err = s.File(head.Name, head.Size, t)
		}
		if err != nil {
			return nil, torn(err)
		}
	}
}

// source remembers why it could not be read.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// unpacked tells damage from a source that could not be read.
type unpacked struct {
	io.Reader
	from *source
}

func (u *unpacked) Read(b []byte) (int, error) {
	n, err := u.Reader.Read(b)
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, zstd.ErrMagicMismatch) || u.from.err != nil {
		return n, err
	}
	return n, fmt.Errorf("the backup is damaged; use another one: %w: %w", fault.Corrupt, err)
}

// noBackup is the error of what does not begin as a backup.
func noBackup(err error) error {
	if err == nil || errors.Is(err, zstd.ErrMagicMismatch) || errors.Is(err, tar.ErrHeader) {
		return errNoBackup
	}
	return torn(err)
}

// torn explains an archive that ends too early, or does not read.
func torn(err error) error {
	switch {
	case err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return fmt.Errorf("the backup ends too early: it was interrupted, or its end is lost; use another one: %w", fault.Corrupt)
	case errors.Is(err, tar.ErrHeader):
		return fmt.Errorf("the backup is damaged; use another one: %w: %w", fault.Corrupt, err)
	}
	return err
}

func known(name string) bool {
	return filepath.IsLocal(name) && (strings.HasPrefix(name, "log/") || strings.HasPrefix(name, "registry/"))
}

func readManifest(r io.Reader) (*manifest, error) {
	b, err := io.ReadAll(io.LimitReader(r, limits.FileBytes))
	if err != nil {
		return nil, err
	}
	m, err := decodeManifest(b)
	if err != nil {
		return nil, fmt.Errorf("the manifest of the backup is damaged; use another one: %w", err)
	}
	return m, nil
}

// readDir stores the files of a directory.
func readDir(from string, s *sink) (*manifest, error) {
	d, err := vfs.OpenOS(from)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	b, err := fs.ReadFile(d.FS(), formatFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoBackup
	}
	if err == nil {
		err = checkFormat(b)
	}
	if err != nil {
		return nil, err
	}
	in, err := d.Open(manifestFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no manifest: the backup was interrupted; use another one: %w", from, fault.Corrupt)
	}
	if err != nil {
		return nil, err
	}
	defer in.Close()
	m, err := readManifest(in)
	if err != nil {
		return nil, err
	}
	for _, f := range m.Files {
		if err := storeFrom(d, f.Name, s); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func storeFrom(d *vfs.OS, name string, s *sink) error {
	f, err := d.Open(filepath.FromSlash(name))
	if errors.Is(err, fs.ErrNotExist) || !known(name) {
		return nil // check names what is missing
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return s.File(name, info.Size(), f)
}
