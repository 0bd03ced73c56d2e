package filelog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog/internal/page"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/segment"
	"github.com/ringfence/ringfence/internal/vfs"
)

// store is one topic in one process. Its handles share it.
type store struct {
	name string
	fs   vfs.Dir // the topic's directory, whatever becomes of its name
	// above is the file system of the log, which has the topic's name.
	above vfs.FS
	c     *Config
	meta  *meta
	// retention is meta.Config with the retention that was seen last, see alter.go.
	retention atomic.Pointer[driver.TopicConfig]
	log       *slog.Logger
	now       func() moment

	aliveLock vfs.File // held shared: the page is true, see open.go
	page      *page.Page
	writeLock vfs.File // held only by the committing goroutine
	syncLock  vfs.File // held only by the committing goroutine
	lazyLock  vfs.File // the sync lock, as the maintenance holds it
	segs      *segs
	in        *appendQueue
	view      view
	w         writer // owned by the committing goroutine
	watch     watcher
	lowCache  lowCache
	headers   headers
	damage    damageLog
	waits     seldom // retention does, for a group
	unread    seldom // a hold is
	place     place
	unlooked  atomic.Bool   // something was appended since the last look at the place
	displaced atomic.Bool   // the directory is not in its place any more
	dirty     atomic.Bool   // at level OS: bytes wait for the lazy sync
	stuck     atomic.Bool   // a holder of the write lock was reported
	duty      chan struct{} // capacity 1: the maintenance has something to look at

	gate   gate           // calls under way
	stop   chan struct{}  // closed first
	over   chan struct{}  // closed lockPatience later: no goroutine waits for a lock any more
	joined sync.WaitGroup // the goroutines

	handles int // guarded by fileLog.mu
	once    sync.Once
	err     error // of close
}

// openStore opens a topic, recovers it when no process has it open, and starts its goroutines.
func openStore(ctx context.Context, fsys vfs.FS, c *Config, name string) (*store, error) {
	if err := c.checkUnlinked(fsys, topicDir(name)); err != nil {
		return nil, fmt.Errorf("open topic %q: %w", name, err)
	}
	dir, m, err := openTopicDir(fsys, name)
	if err != nil {
		return nil, err
	}
	here, err := dir.Stat(".")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open topic %q: %w", name, err), dir.Close())
	}
	partitions := m.Config.Partitions
	s := &store{
		place: place{dir: here, looked: time.Now()},
		name:  name, fs: dir, above: fsys, c: c, meta: m, log: c.Logger.With("topic", name), now: c.clock(dir),
		segs: &segs{dir: dir, topicID: m.ID, partitions: partitions, open: map[uint64]*seg{}},
		in:   newAppendQueue(partitions, c.BufferBytes),
		duty: make(chan struct{}, 1), stop: make(chan struct{}), over: make(chan struct{}),
	}
	s.w.s, s.view.s, s.watch.s = s, s, s
	s.retention.Store(&m.Config)
	s.followRetention()
	s.gate.idle = make(chan struct{})
	s.view.init(partitions)
	s.watch.kick = make(chan struct{}, 1)
	s.segs.reach = func(n uint64) segment.Pos { return s.page.Reach(n) }
	if err := s.openFiles(ctx); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			if _, e := dir.Stat(metaFile); errors.Is(e, fs.ErrNotExist) {
				err = notFound(name) // deleted meanwhile
			}
		}
		return nil, errors.Join(fmt.Errorf("open topic %q: %w", name, err), s.closeFiles())
	}
	s.syncLeftovers()
	s.joined.Go(s.runCommitter)
	s.joined.Go(s.runMaintenance)
	s.joined.Go(s.watch.run)
	return s, nil
}

// close refuses new calls, ends the waiting ones, lets the committer finish, and joins everything. What
// waits for a lock that a stopped process has fails a while later.
func (s *store) close() error {
	s.once.Do(func() {
		close(s.stop)
		patience := time.AfterFunc(lockPatience, func() { close(s.over) })
		defer patience.Stop()
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
	s.view.letGo(math.MaxUint64)
	s.w.close()
	if s.segs != nil {
		errs = append(errs, s.segs.close())
	}
	if s.page != nil {
		errs = append(errs, s.page.Close())
	}
	for _, f := range []vfs.File{s.writeLock, s.syncLock, s.lazyLock, s.aliveLock} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(append(errs, s.fs.Close())...)
}

func (s *store) syncing() bool { return s.c.Durability == driver.Sync }

// visible is the position below which readers of this process may read.
func (s *store) visible() uint64 {
	if s.syncing() {
		return uint64(s.page.Synced())
	}
	return uint64(s.page.Written())
}

// enter begins a call; leave ends it.
func (s *store) enter(ctx context.Context) error {
	if !s.gate.enter() {
		return fmt.Errorf("topic %q: %w", s.name, errClosed)
	}
	err := ctx.Err()
	if err == nil && s.gone() {
		err = notFound(s.name)
	}
	if err == nil {
		err = s.away()
	}
	if err != nil {
		s.gate.leave()
	}
	return err
}

func (s *store) leave() { s.gate.leave() }

// gone tells whether the topic was deleted. That is for ever, and its only answer is
// fault.NotFound: see delete.go.
func (s *store) gone() bool {
	switch s.page.Life() {
	case page.Alive:
		return false
	case page.Deleted:
		return true
	}
	if gone, err := topicGone(s.fs); err != nil || !gone {
		return false // its deleter has not got there, or died before
	}
	s.page.MarkDeleted()
	return true
}

// spared is gone for the holder of the write lock: a deleter that did not get there is dead.
func (s *store) spared() bool {
	if s.gone() {
		return false
	}
	s.page.Spare()
	return true
}

// verdict is the error of a call: whatever failed because the topic is deleted says so.
func (s *store) verdict(err error) error {
	if err != nil && !errors.Is(err, fault.Unknown) && s.gone() {
		return notFound(s.name)
	}
	return err
}
