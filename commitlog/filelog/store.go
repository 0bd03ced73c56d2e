package filelog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"sync"
	"sync/atomic"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/vfs"
)

// store is one topic in one process. Its handles share it.
type store struct {
	name string
	dir  string
	fs   vfs.FS
	c    *Config
	meta *meta
	log  *slog.Logger

	page      *page
	writeLock vfs.File // held only by who has the turn to commit
	syncLock  vfs.File // held only by who has the turn to commit
	lazyLock  vfs.File // the sync lock, as the keeper holds it
	segs      *segs
	in        *intake
	view      view
	w         writer // owned by who has the turn to commit
	watch     watcher
	lowCache  lowCache
	damage    damageLog
	dirty     atomic.Bool   // at level OS: bytes wait for the lazy sync
	stuck     atomic.Bool   // somebody was said not to let go of the write lock
	duty      chan struct{} // capacity 1: the keeper has something to look at

	gate   gate           // calls under way
	stop   chan struct{}  // closed first
	joined sync.WaitGroup // the goroutines

	handles int // guarded by fileLog.mu
	once    sync.Once
	err     error // of close
}

// openStore opens a topic, recovers it when this is the first open since the host started, and
// starts its goroutines.
func openStore(fsys vfs.FS, c *Config, name string) (*store, error) {
	dir := topicDir(name)
	m, err := readMeta(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, notFound(name)
	}
	if err != nil {
		return nil, fmt.Errorf("open topic %q: %w", name, err)
	}
	partitions := m.Config.Partitions
	s := &store{
		name: name, dir: dir, fs: fsys, c: c, meta: m, log: c.Logger.With("topic", name),
		segs: &segs{fs: fsys, dir: dir, topicID: m.ID, partitions: partitions, open: map[uint64]*seg{}},
		in:   newIntake(partitions, c.BufferBytes),
		duty: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	s.w.s, s.view.s, s.watch.s = s, s, s
	s.gate.idle = make(chan struct{})
	s.view.init(partitions)
	s.watch.kick = make(chan struct{}, 1)
	if err := s.openFiles(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			if _, e := fsys.Stat(dir); errors.Is(e, fs.ErrNotExist) {
				err = notFound(name) // deleted meanwhile
			}
		}
		return nil, errors.Join(fmt.Errorf("open topic %q: %w", name, err), s.closeFiles())
	}
	s.syncLeftovers()
	s.joined.Go(s.runCommitter)
	s.joined.Go(s.runKeeper)
	s.joined.Go(s.watch.run)
	return s, nil
}

func (s *store) openFiles() (err error) {
	if s.writeLock, err = s.fs.OpenFile(path.Join(s.dir, "write.lock"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return explain("open the write lock", err)
	}
	if s.syncLock, err = s.fs.OpenFile(path.Join(s.dir, "sync.lock"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return explain("open the sync lock", err)
	}
	if s.lazyLock, err = s.fs.OpenFile(path.Join(s.dir, "sync.lock"), os.O_RDWR, 0); err != nil {
		return explain("open the sync lock", err)
	}
	if s.page, err = openPage(s.fs, path.Join(s.dir, "control"), s.meta.Config.Partitions); err != nil {
		return explain("open the control page", err)
	}
	boot := bootWord(s.fs.BootID())
	if s.page.trusted(boot) {
		return nil
	}
	if err := s.lockWrite(s.writeLock); err != nil {
		return explain("take the write lock", err)
	}
	if !s.page.trusted(boot) {
		err = s.recover(boot)
	}
	return errors.Join(err, s.writeLock.Unlock())
}

// close refuses new calls, ends the waiting ones, lets the committer finish, and joins everything.
func (s *store) close() error {
	s.once.Do(func() {
		close(s.stop)
		s.in.close()
		s.watch.interrupt()
		s.gate.close()
		s.joined.Wait()
		s.err = s.closeFiles()
	})
	return s.err
}

func (s *store) closeFiles() error {
	var errs []error
	s.view.close()
	s.w.close()
	if s.segs != nil {
		errs = append(errs, s.segs.close())
	}
	if s.page != nil {
		errs = append(errs, s.page.close())
	}
	for _, f := range []vfs.File{s.writeLock, s.syncLock, s.lazyLock} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

func (s *store) syncing() bool { return s.c.Durability == driver.Sync }

// visible is the position below which readers of this process may read.
func (s *store) visible() uint64 {
	if s.syncing() {
		return uint64(s.page.synced())
	}
	return s.page.word(pageWritten).Load()
}

// enter begins a call; leave ends it.
func (s *store) enter(ctx context.Context) error {
	if !s.gate.enter() {
		return fmt.Errorf("topic %q: %w", s.name, errClosed)
	}
	err := ctx.Err()
	if err == nil && s.page.deleted() {
		err = notFound(s.name)
	}
	if err != nil {
		s.gate.leave()
	}
	return err
}

func (s *store) leave() { s.gate.leave() }
