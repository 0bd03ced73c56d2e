// Package fileregistry is the registry in a directory that the processes of one host share.
//
// All of them append their transactions to one journal, in the order that a kernel lock gives
// them, and hold the whole content in memory. A crash of a process is noticed through the
// kernel, a stopped one through its heartbeat; watches across processes wake by inotify. The
// goroutines of a registry: the core owns the view and writes, the syncer makes durable and
// answers, the keeper renews the sessions of this process and watches those of others, the
// listener waits for other processes' writes; Close joins them all.
package fileregistry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/hook"
	"github.com/ringfence/ringfence/internal/vfs"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/kv"
	"github.com/ringfence/ringfence/registry/internal/local"
)

// Config says where the store is.
type Config struct {
	// Dir is the data directory; the store lies in Dir/registry. It is made when it is missing.
	Dir string
	// FS is used instead of Dir when it is set: the data directory as a file system.
	FS vfs.FS
	// NoSync lets the operating system decide when transactions reach the disk: all survive kill -9, and
	// the last seconds do not survive a power loss.
	NoSync bool

	driver.Options

	space int64 // room for frames; 0: the usual
}

const dirName = "registry"

// Open opens the store, and makes it when there is none. fault.Invalid: a network or read-only file system,
// or bad options; fault.Newer: a newer format; fault.Corrupt, with the place: damage.
func Open(ctx context.Context, cfg Config) (*registry.Registry, error) {
	s, err := open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	d, err := kv.Namespace(s, cfg.Namespace)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return registry.New(d), nil
}

const controlName = "control"

// store is the driver.
type store struct {
	fs     vfs.FS // the data directory
	ownsFS bool
	real   bool     // fs is the kernel's: FIFOs and inotify work
	dir    vfs.Dir  // DATA/registry, whatever becomes of its name
	self   *os.File // dir, for what the kernel knows by paths; nil unless real
	handle string
	log    *slog.Logger
	space  int64
	access hook.Access
	gate   *hook.Gate

	lockFile vfs.File
	alive    vfs.File // see life.go
	ctl      *control
	j        *journal
	core     *core
	syncer   *syncer
	keeper   *sessionKeeper
	waker    waker
	fifo     io.Closer // others see its end when this process dies; nil: they can't

	quit   chan struct{} // closed first: no more calls
	wg     sync.WaitGroup
	syncWG sync.WaitGroup
	once   sync.Once
	err    error
}

func open(ctx context.Context, cfg Config) (_ *store, err error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("file registry: %w", err)
	}
	s := &store{fs: cfg.FS, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), handle: newID(), space: cfg.space, access: hook.AccessOf(ctx), gate: hook.GateOf(ctx), quit: make(chan struct{})}
	if s.fs == nil {
		osfs, err := vfs.CreateData(cfg.Dir, cfg.AllowShared, s.log)
		if err != nil {
			return nil, refusedIn(cfg.Dir, fmt.Errorf("file registry: data directory: %w", err))
		}
		s.fs, s.ownsFS = osfs, true
	}
	_, s.real = s.fs.(*vfs.OS)
	defer func() {
		if err != nil {
			err = errors.Join(refusedIn(s.fs.Path(dirName), err), s.release())
		}
	}()
	if err := s.openDir(); err != nil {
		return nil, fmt.Errorf("file registry: %w", err)
	}
	if !cfg.AllowShared {
		if err := vfs.CheckUnlinked(s.dir, "."); err != nil {
			return nil, fmt.Errorf("file registry: %w", err)
		}
	}
	if err := s.comeAlive(ctx); err != nil {
		return nil, err
	}
	info, err := s.dir.Stat(controlName)
	if err != nil {
		return nil, fmt.Errorf("file registry: %w", err)
	}
	s.openKernel()
	s.start(cfg.NoSync, &directory{fs: s.fs, info: info, told: make(chan struct{})})
	s.keeper.sweep(ctx)
	return s, nil
}

// openDir makes the directory if need be and opens it.
func (s *store) openDir() error {
	kind, err := s.fs.Kind(".")
	if err != nil {
		return err
	}
	where := s.fs.Path(".")
	if kind.Network {
		return fmt.Errorf("%s is on a network file system (%s), whose locks do not hold between hosts; use a local disk, or another registry: %w", where, kind.Type, fault.Invalid)
	}
	if kind.ReadOnly {
		return fmt.Errorf("%s is on a read-only file system: %w", where, fault.Invalid)
	}
	if err := s.fs.MkdirAll(dirName, 0o700); err != nil {
		return err
	}
	if s.dir, err = s.fs.OpenDir(dirName); err != nil {
		return err
	}
	if d, ok := s.dir.(*vfs.OS); ok && s.real {
		s.self, err = d.Open(".")
	}
	return err
}

// kernelPath is where the kernel finds a file of the registry, also when another directory was put in its place.
func (s *store) kernelPath(name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", s.self.Fd(), name)
}

// openControl maps the control file. It is written in full before: a store into a page without a
// block kills the process when the disk is full.
func (s *store) openControl() (err error) {
	if s.lockFile, err = s.dir.OpenFile(controlName, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	size, err := s.lockFile.Size()
	if err == nil && size < controlSize {
		if _, err = fillZeros(s.lockFile, size, controlSize); err == nil {
			err = s.lockFile.SyncData()
		}
	}
	if err != nil {
		return err
	}
	s.ctl, err = mapControl(s.lockFile, s.access)
	return err
}

// explain adds the kind, and what to do, to an error of the file system.
func explain(err error) error {
	if full(err) {
		return fmt.Errorf("%w: %w", fault.Unavailable, spaceHint(err))
	}
	return err
}

func spaceHint(err error) error {
	if full(err) {
		return fmt.Errorf("%w (no space is left; free some and try again)", err)
	}
	return err
}

func full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// refusedIn adds to an error of missing rights where they are missing, and what to do.
func refusedIn(dir string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%s: %w: %w (this user has no rights there: give it some, or name another directory)", dir, fault.Unavailable, err)
	}
	return err
}

const (
	formatHead  = "ringfence file registry, format "
	formatLevel = 1
	formatText  = formatHead + "1\n"
)

// checkFormat writes the format file of a new store, or refuses a store of a newer format.
func (s *store) checkFormat() error {
	const name = "FORMAT"
	f, err := s.dir.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("file registry: %w", err)
	}
	defer f.Close()
	b := make([]byte, 2*len(formatText))
	n, _ := f.ReadAt(b, 0)
	have := string(b[:n])
	if have == formatText {
		return nil
	}
	// A first writing that failed leaves a piece, in a file that may be of any size after a power loss.
	if !strings.HasPrefix(formatText, strings.TrimRight(have, "\x00")) {
		return refuseFormat(s.dir.Path(name), have)
	}
	if err := writeSynced(f, []byte(formatText)); err != nil {
		return fmt.Errorf("file registry: write %s: %w", s.dir.Path(name), explain(err))
	}
	return s.dir.SyncDir(".")
}

// refuseFormat tells a newer format, which an upgrade helps against, from a file that is not ours.
func refuseFormat(file, have string) error {
	text, ours := strings.CutPrefix(strings.TrimSpace(have), formatHead)
	if level, err := strconv.Atoi(text); ours && err == nil && level > formatLevel {
		return fmt.Errorf("%s: the registry has format %d, this program reads %d: %w", file, level, formatLevel, fault.Newer)
	}
	return fmt.Errorf("%s holds %.40q; expected %q and a number: the file is damaged, or not a file of Ringfence: %w", file, have, formatHead, fault.Corrupt)
}

// openKernel opens what the kernel tells other processes through. Where it can't, because inotify
// instances have run out for example, the store works all the same, more slowly.
func (s *store) openKernel() {
	s.waker = newPollWaker(s.ctl)
	if !s.real {
		return
	}
	if w, err := local.NewBell(s.kernelPath("wake")); err != nil {
		s.log.Warn("changes by other processes are polled for", "error", err)
	} else {
		_ = s.waker.Close()
		s.waker = w
	}
	if f, err := local.Announce(s.kernelPath(tempPrefix+s.handle), s.kernelPath(livePrefix+s.handle)); err != nil {
		s.log.Warn("others will notice the death of this process by its heartbeat only", "error", err)
	} else {
		s.fifo = f
	}
}

func (s *store) start(noSync bool, at *directory) {
	s.syncer = &syncer{
		ctl: s.ctl, noSync: noSync, log: s.log, more: make(chan struct{}, 1),
		open: func(i uint64) (vfs.File, error) {
			return s.dir.OpenFile(journalName(i), os.O_RDWR, 0o600)
		},
		redo: s.rotate,
		wake: s.waker.Ring,
	}
	s.core = &core{
		j:    s.j,
		lock: &locker{f: s.lockFile, holder: s.ctl.holder, pid: os.Getpid(), log: s.log, patience: lockPatience},
		log:  s.log, syncer: s.syncer, dir: at,
		requests: make(chan *request), pokes: make(chan struct{}, 1), closing: s.quit, quit: make(chan struct{}),
		tableNew: make(chan struct{}, 1),
	}
	s.keeper = newSessionKeeper(s)
	s.core.fenced = s.keeper.fenced
	s.core.publish(&change{sessions: true})
	s.syncWG.Go(s.syncer.run) // these are joined by Close
	s.wg.Go(s.core.run)
	s.wg.Go(s.listen)
	s.keeper.start()
}

// listen passes the wake-ups of other processes on.
func (s *store) listen() {
	for s.waker.Wait() == nil {
		s.poke()
	}
}

func (s *store) poke() { signal(s.core.pokes) }

// rotate has the core write the journal anew; the syncer calls it.
func (s *store) rotate() error {
	r := &request{rotate: true, reply: make(chan reply, 1)}
	select {
	case s.core.requests <- r:
		return (<-r.reply).err
	case <-s.core.quit:
		return fmt.Errorf("file registry: %w", fault.Closed)
	}
}

// Close ends this process's sessions and watches.
func (s *store) Close() error {
	s.once.Do(func() {
		s.keeper.stop(true)
		if s.fifo != nil {
			_ = s.dir.Remove(livePrefix + s.handle)
		}
		s.shutDown()
	})
	return s.err
}

func (s *store) shutDown() {
	close(s.quit)
	s.syncer.finish()
	s.syncWG.Wait() // while the core still runs: a failed sync needs it
	close(s.core.quit)
	s.core.watches.Close()
	s.err = s.waker.Close()
	s.wg.Wait()
	s.syncer.drop() // calls that open sessions wait for these answers
	s.keeper.opening.Wait()
	s.waker = nil
	s.err = errors.Join(s.err, s.syncer.close(), s.release())
}

// release closes what open had opened.
func (s *store) release() error {
	err := closeAll(s.waker, s.fifo)
	if s.j != nil {
		err = errors.Join(err, closeAll(s.j.files[0], s.j.files[1]))
	}
	if s.ctl != nil {
		err = errors.Join(err, s.ctl.m.Close())
	}
	err = errors.Join(err, closeAll(s.lockFile, s.alive)) // alive last: this process stores nothing any more
	if s.self != nil {
		err = errors.Join(err, s.self.Close())
	}
	err = errors.Join(err, closeAll(s.dir))
	if c, ok := s.fs.(*vfs.OS); ok && s.ownsFS {
		err = errors.Join(err, c.Close())
	}
	return err
}

// closeAll closes those that are not nil, in this order.
func closeAll(all ...io.Closer) error {
	var errs []error
	for _, c := range all {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}
