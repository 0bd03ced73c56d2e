//go:build linux

package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence/internal/access"
	"github.com/ringfence/ringfence/internal/fault"
)

// A page that processes share is stored to through a mapping, and a store can't fail: where the file
// system has no block for it, the process dies (SIGBUS). One that copies on write needs a new block
// whenever a page is written for the first time since it was saved, also where blocks were
// allocated and the file was marked as not to be copied: a snapshot is enough. So there, the bytes of
// a writable mapping lie in a file in memory. The file on the disk keeps its place and its locks.
//
// A process that maps it holds a shared lock (fcntl, of the open file description, which does not meet flock) on
// one byte of the file on the disk, far behind its end. Which byte is the number of the file in
// memory, so the next process finds out, without any trust in what was left behind, whether another one has
// it mapped and where. None has: the page begins as zeros, and nothing of an earlier life is
// believed. Another one has, but there is no such file here: it lives in another container, with a memory of
// its own, and two pages would be two truths; that is refused.
const memoryDir = "/dev/shm"

const (
	gateByte  = 1 << 61 // locked exclusively while a process looks which others are there
	firstByte = 1 << 62 // the number 0; the others follow
	numbers   = 1 << 60

	// How long a process that comes, or leaves, waits for one that looks. Looks take microseconds, unless it is stopped.
	joinPatience  = 5 * time.Second
	leavePatience = 20 * time.Millisecond
	gateNap       = time.Millisecond
)

// copiesOnWrite names the file systems that move what is written.
var copiesOnWrite = map[string]bool{"btrfs": true, "zfs": true, "bcachefs": true}

// pages says where shared pages lie that are not on the disk.
type pages struct {
	dir      string
	anywhere bool // tests: whatever the file system
}

// memory is where the bytes of one file's writable mappings lie.
type memory struct {
	dir  string
	disk *os.File // an open file description of its own
	id   string   // of the file on the disk, among all that are mounted
}

// inMemory tells whether the bytes of a writable mapping of f are to lie in memory.
func (f *osFile) inMemory() (bool, error) {
	if f.pages.anywhere {
		return true, nil
	}
	var st unix.Statfs_t
	err := f.call("statfs", func(fd int) error { return unix.Fstatfs(fd, &st) })
	return err == nil && copiesOnWrite[kindOf(&st).Type], err
}

func (f *osFile) openMemory(flag int) (*memory, error) {
	m := &memory{dir: f.pages.dir}
	err := f.call("open", func(fd int) error {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		m.id = fmt.Sprintf("ringfence-%d-%x-%x-", os.Geteuid(), st.Dev, st.Ino)
		var err error
		m.disk, err = os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), flag, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// mapMemory is Map of a writable mapping whose bytes lie in memory.
func (f *osFile) mapMemory(size int64) (Mapping, error) {
	m, err := f.openMemory(os.O_RDWR)
	if err != nil {
		return nil, err
	}
	mapped, err := m.join(size)
	if err != nil {
		return nil, errors.Join(&fs.PathError{Op: "mmap", Path: f.name, Err: err}, m.disk.Close())
	}
	return &memoryMapping{Mapping: mapped, m: m}, nil
}

// peekMemory is Map of a mapping to read from; nil when the bytes are those of the file.
func (f *osFile) peekMemory(size int64) (Mapping, error) {
	m, err := f.openMemory(os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer m.disk.Close()
	number, found, err := m.lookup()
	if err != nil || !found {
		return nil, err
	}
	file, err := os.OpenFile(m.path(number), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, m.elsewhere(err)
	}
	defer file.Close()
	if err := checkOurs(file); err != nil {
		return nil, err
	}
	return mapShared(int(file.Fd()), size, false)
}

// join maps the file in memory that others have mapped, or a new one. From then on, the caller is one of them.
func (m *memory) join(size int64) (Mapping, error) {
	if err := m.enter(joinPatience); err != nil {
		return nil, err
	}
	defer func() { _ = m.lock(unix.F_UNLCK, gateByte) }()
	number, found, err := m.lookup()
	if err != nil {
		return nil, err
	}
	flag := os.O_RDWR
	if !found {
		m.sweep()
		number, flag = rand.Uint64N(numbers), os.O_RDWR|os.O_CREATE|os.O_EXCL
	}
	file, err := os.OpenFile(m.path(number), flag|unix.O_NOFOLLOW, 0o600)
	switch {
	case err != nil && found:
		return nil, m.elsewhere(err)
	case err != nil:
		return nil, fmt.Errorf("on a file system that copies on write, the page lies in %s: %w", m.dir, err)
	}
	defer file.Close()
	var mapped Mapping
	if err = checkOurs(file); err == nil {
		mapped, err = mapGrown(file, size)
	}
	if err == nil {
		if err = m.lock(unix.F_RDLCK, firstByte+int64(number)); err == nil {
			return mapped, nil
		}
		err = errors.Join(err, mapped.Close())
	}
	if !found {
		err = errors.Join(err, os.Remove(file.Name()))
	}
	return nil, err
}

// checkOurs refuses a file in memory that another user put where ours was: any user can make files there,
// and ours may have been removed while we have it mapped, as by a system that cleans up after a login.
func checkOurs(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := access.Check(file.Name(), info); err != nil {
		return fmt.Errorf("%w: %w", err, fault.Invalid)
	}
	return nil
}

// mapGrown maps a file in memory that has at least size bytes then, all of them allocated.
func mapGrown(file *os.File, size int64) (Mapping, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &st); err != nil {
		return nil, err
	}
	if kind := kindOf(&st).Type; kind != "tmpfs" {
		return nil, fmt.Errorf("%s lies on %q; expected a tmpfs", file.Name(), kind)
	}
	info, err := file.Stat()
	if err == nil && info.Size() < size {
		err = file.Truncate(size)
	}
	if err == nil {
		err = fillHoles(int(file.Fd()), size)
	}
	if err != nil {
		return nil, fmt.Errorf("%d bytes of memory for %s: %w", size, file.Name(), err)
	}
	return mapShared(int(file.Fd()), size, true)
}

// elsewhere explains why the file in memory that others have is not here.
func (m *memory) elsewhere(err error) error {
	return fmt.Errorf("another process has this page in a %s of its own, which this one does not see (a container?): give both the same %s, or put the directory on ext4 or xfs: %w", m.dir, m.dir, err)
}

// leave takes the file in memory away with the last mapping. While another process looks for longer than
// leavePatience, it stays for the next one that finds it unused.
func (m *memory) leave() error {
	if m.enter(leavePatience) == nil {
		if _, others, err := m.lookup(); err == nil && !others {
			m.sweep()
		}
	}
	return m.disk.Close() // and with it all locks
}

// enter begins a look at which processes are there.
func (m *memory) enter(patience time.Duration) error {
	for start := time.Now(); ; time.Sleep(gateNap) {
		err := m.lock(unix.F_WRLCK, gateByte)
		switch {
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES):
			return err
		case time.Since(start) > patience:
			return fmt.Errorf("another process has looked where the page is for %s: it is probably stopped; continue or kill it: %w", patience, err)
		}
	}
}

// lock changes this description's lock on one byte.
func (m *memory) lock(kind int16, at int64) error {
	l := unix.Flock_t{Type: kind, Whence: unix.SEEK_SET, Start: at, Len: 1}
	return ignoreEINTR(func() error { return unix.FcntlFlock(m.disk.Fd(), unix.F_OFD_SETLK, &l) })
}

// lookup is the number of the file in memory that others have mapped.
func (m *memory) lookup() (number uint64, found bool, err error) {
	l := unix.Flock_t{Type: unix.F_WRLCK, Whence: unix.SEEK_SET, Start: firstByte, Len: numbers}
	if err := ignoreEINTR(func() error { return unix.FcntlFlock(m.disk.Fd(), unix.F_OFD_GETLK, &l) }); err != nil {
		return 0, false, err
	}
	return uint64(l.Start - firstByte), l.Type != unix.F_UNLCK, nil
}

func (m *memory) path(number uint64) string {
	return filepath.Join(m.dir, m.id+strconv.FormatUint(number, 16))
}

// sweep removes what killed processes left.
func (m *memory) sweep() {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return // what is left there takes room and does nothing else
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), m.id) {
			_ = os.Remove(filepath.Join(m.dir, e.Name()))
		}
	}
}

// memoryMapping is a mapping whose bytes lie in memory.
type memoryMapping struct {
	Mapping
	m *memory
}

func (i *memoryMapping) Close() error {
	if i.m == nil {
		return nil
	}
	m := i.m
	i.m = nil
	return errors.Join(i.Mapping.Close(), m.leave())
}
