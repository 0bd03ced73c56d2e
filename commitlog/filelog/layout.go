package filelog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/limits"
	"github.com/ringfence/ringfence/internal/vfs"
)

const (
	root        = "log"
	topicsDir   = root + "/topics"
	tmpDir      = root + "/tmp"
	formatFile  = root + "/FORMAT"
	lockFile    = root + "/lock"
	formatText  = "ringfence file log, format "
	formatLevel = 1
)

// prepare makes the directories and the FORMAT file, or checks the ones that are there.
func (l *fileLog) prepare(ctx context.Context) error {
	where := l.fs.Path(root)
	kind, err := l.fs.Kind(".")
	if err != nil {
		return explain("look at "+where, err)
	}
	if kind.Network {
		return fmt.Errorf("%s is on a network file system (%s), where locks and shared memory do not hold between hosts; expected a local disk: %w",
			where, kind.Type, fault.Invalid)
	}
	if kind.ReadOnly {
		return fmt.Errorf("%s is on a read-only file system (%s); expected a writable one: %w", where, kind.Type, fault.Unavailable)
	}
	if err := l.c.checkUnlinked(l.fs, root); err != nil {
		return fmt.Errorf("open data directory %s: %w", l.fs.Path("."), err)
	}
	if done, err := l.checkFormat(); err != nil {
		return err
	} else if done {
		return l.keepFormat()
	}
	for _, dir := range []string{root, topicsDir, tmpDir} {
		if err := l.fs.MkdirAll(dir, 0o700); err != nil {
			return explain("make "+l.fs.Path(dir), err)
		}
	}
	unlock, err := l.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if done, err := l.checkFormat(); err != nil {
		return err
	} else if done {
		return l.keepFormat()
	}
	return l.writeFormat()
}

// keepFormat makes the FORMAT file durable before the first topic is made: its writer may have been killed, or told of
// an error, before it did that.
func (l *fileLog) keepFormat() error {
	if topics, err := l.fs.ReadDir(topicsDir); err == nil && len(topics) > 0 {
		return nil
	}
	if err := l.fs.SyncDir(root); err != nil {
		return explain("sync "+l.fs.Path(root), err)
	}
	return nil
}

// writeFormat makes the directories durable, then the file: a process that sees the file relies on them.
func (l *fileLog) writeFormat() error {
	for _, dir := range []string{root, "."} {
		if err := l.fs.SyncDir(dir); err != nil {
			return explain("sync "+l.fs.Path(dir), err)
		}
	}
	if err := replaceFile(l.fs, formatFile, []byte(formatText+strconv.Itoa(formatLevel)+"\n")); err != nil {
		return explain("write "+l.fs.Path(formatFile), err)
	}
	return nil
}

// checkFormat tells whether the FORMAT file is there and names a version that this program knows. Topics are made
// after the file is durable: without it the directory is not whole, and no command takes it for an empty one.
func (l *fileLog) checkFormat() (bool, error) {
	b, err := readFile(l.fs, formatFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false, l.checkEmpty()
	}
	if err != nil {
		return false, explain("read "+l.fs.Path(formatFile), err)
	}
	text, ok := strings.CutPrefix(strings.TrimSpace(string(b)), formatText)
	level, err := strconv.Atoi(text)
	switch {
	case !ok || err != nil:
		return false, fmt.Errorf("%s holds %.40q; expected %q and a number: the file is damaged, or not a file of Ringfence: %w", l.fs.Path(formatFile), b, formatText, fault.Corrupt)
	case level > formatLevel:
		return false, fmt.Errorf("%s has format %d, this program reads %d: %w", l.fs.Path(root), level, formatLevel, fault.Newer)
	}
	return true, nil
}

// checkEmpty is an error when there are topics, without a FORMAT file beside them.
func (l *fileLog) checkEmpty() error {
	topics, err := l.fs.ReadDir(topicsDir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(topics) == 0 {
		return nil
	}
	if err != nil {
		return explain("read "+l.fs.Path(topicsDir), err)
	}
	file := l.fs.Path(formatFile)
	return fmt.Errorf("%s is missing, and %s has topics: the directory is not whole. Put the file back from a copy; when only the file was lost: echo '%s%d' > %s: %w",
		file, l.fs.Path(topicsDir), formatText, formatLevel, file, fault.Corrupt)
}

// encodeSummed puts a checksum line in front of a JSON document.
func encodeSummed(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "crc32c %08x\n%s\n", crc32.Checksum(b, crcTable), b), nil
}

func decodeSummed(b []byte, v any) error {
	head, body, ok := strings.Cut(string(b), "\n")
	body = strings.TrimSuffix(body, "\n")
	if !ok || head != fmt.Sprintf("crc32c %08x", crc32.Checksum([]byte(body), crcTable)) {
		return fmt.Errorf("the checksum does not match: %w", fault.Corrupt)
	}
	if err := json.Unmarshal([]byte(body), v); err != nil {
		return fmt.Errorf("%w: %w", fault.Corrupt, err)
	}
	return nil
}

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// readFile reads a whole file. A file whose size is rotten is fault.Corrupt.
func readFile(fsys vfs.FS, name string) ([]byte, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limits.FileBytes {
		return nil, fmt.Errorf("a file of %d bytes, expected %d at most: %w", size, limits.FileBytes, fault.Corrupt)
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:n], err
}

// readMapped is readFile of a file that others store to through mappings: on a file system that copies
// on write, only a mapping shows what they store.
func readMapped(fsys vfs.FS, name string) ([]byte, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil || size == 0 {
		return nil, err
	}
	m, err := f.Map(size, false)
	if err != nil {
		return nil, err
	}
	var b []byte
	err = guard(func() { b = append(b, m.Bytes()...) })
	return b, errors.Join(err, m.Close())
}

// writeFile writes and syncs a new file; its name is not durable yet.
func writeFile(fsys vfs.FS, name string, b []byte) error {
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(b, 0); err == nil {
		err = f.SyncData()
	}
	return errors.Join(err, f.Close())
}

func writeUnsynced(fsys vfs.FS, name string, b []byte) error {
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	return errors.Join(err, f.Close())
}

// replaceFile changes a small file atomically and durably. The caller holds the lock that keeps
// others from doing the same.
func replaceFile(fsys vfs.FS, name string, b []byte) error {
	if err := writeFile(fsys, name+".tmp", b); err != nil {
		return err
	}
	if err := fsys.Rename(name+".tmp", name); err != nil {
		return err
	}
	return fsys.SyncDir(path.Dir(name))
}

// explain adds what was tried, the kind, and what to do to an error of the file system.
func explain(what string, err error) error {
	kind, hint := fault.Unavailable, ""
	switch {
	case errors.Is(err, fault.Invalid):
		return fmt.Errorf("%s: %w", what, err)
	case errors.Is(err, fs.ErrPermission):
		hint = " (this user has no rights there: give it some, or name another directory)"
	case errors.Is(err, syscall.EROFS):
		hint = " (the file system is read-only)"
	case errors.Is(err, syscall.EFBIG):
		hint = " (this process may not write files of that size: raise its limit, ulimit -f)"
	case noRoom(err):
		hint = " (no space is left; free some and try again)"
	case errors.Is(err, syscall.ENOTDIR):
		kind, hint = fault.Invalid, " (expected a directory)"
	}
	return fmt.Errorf("%s: %w: %w%s", what, kind, err, hint)
}

// noRoom says that a write ended where there was no room for more: on the disk, or in what this process or
// its user may have. What it wrote before that is there, and nothing else is in doubt.
func noRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}
