package filelog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog/internal/page"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
)

// Limits and defaults of Config.
const (
	DefaultSegmentBytes = 64 << 20
	MinSegmentBytes     = 64 << 10
	MaxSegmentBytes     = 1 << 30
	DefaultBufferBytes  = 4 << 20
	firstSegmentBytes   = 256 << 10 // segments grow fourfold from it up to SegmentBytes
)

// Config says where a log lives and how it behaves.
type Config struct {
	// Dir is the data directory; the log lives in Dir/log. It is made when missing.
	Dir string
	// FS is used instead of Dir when it is set: the data directory is its root.
	FS vfs.FS
	driver.Options
	// SegmentBytes is the size that segments grow to; 0: 64 MiB.
	SegmentBytes int64
	// BufferBytes bounds what Append keeps in memory per topic before it blocks; 0: 4 MiB.
	BufferBytes int

	now    func() moment // tests; nil: the host's clock
	idlers *page.Idlers  // of the log; nil: every topic has a thread that waits
}

// Validate reports every fault of c at once.
func (c *Config) Validate() error {
	var errs []error
	if (c.Dir == "") == (c.FS == nil) {
		errs = append(errs, errors.New("expected either Dir or FS"))
	}
	if c.Durability != "" && c.Durability != driver.Sync && c.Durability != driver.OS {
		errs = append(errs, fmt.Errorf("the field Durability is %q; expected %q or %q", c.Durability, driver.Sync, driver.OS))
	}
	if c.SegmentBytes != 0 && (c.SegmentBytes < MinSegmentBytes || c.SegmentBytes > MaxSegmentBytes) {
		errs = append(errs, fmt.Errorf("SegmentBytes is %d; expected 0 or %d to %d", c.SegmentBytes, MinSegmentBytes, MaxSegmentBytes))
	}
	if c.BufferBytes < 0 {
		errs = append(errs, fmt.Errorf("BufferBytes is %d; expected 0 (%d) or more", c.BufferBytes, DefaultBufferBytes))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("file log configuration: %w: %w", fault.Invalid, err)
	}
	return nil
}

func (c *Config) setDefaults() {
	if c.Durability == "" {
		c.Durability = driver.Sync
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.SegmentBytes == 0 {
		c.SegmentBytes = DefaultSegmentBytes
	}
	if c.BufferBytes == 0 {
		c.BufferBytes = DefaultBufferBytes
	}
}

// Open opens the log in a data directory, and makes it when it is not there. Any number of
// processes may have it open. Close must be called to end the goroutines of the open topics.
func Open(ctx context.Context, c Config) (*commitlog.Log, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.setDefaults()
	c.idlers = &page.Idlers{Look: watchNap}
	l := &fileLog{c: c, fs: c.FS, stores: map[string]*store{}, all: map[*store]struct{}{}}
	if c.FS == nil {
		fsys, err := vfs.CreateData(c.Dir, c.AllowShared, c.Logger)
		if err != nil {
			return nil, explain(fmt.Sprintf("open data directory %s", c.Dir), err)
		}
		l.fs, l.owned = fsys, fsys
	}
	if err := l.prepare(ctx); err != nil {
		return nil, errors.Join(err, l.closeFS())
	}
	var err error
	if l.home, err = l.fs.Stat(topicsDir); err != nil {
		return nil, errors.Join(explain("look at "+l.fs.Path(topicsDir), err), l.closeFS())
	}
	l.sweepAtOpen(ctx)
	return commitlog.New(l), nil
}

// checkUnlinked refuses directories that share a file with another one, see vfs.CheckUnlinked.
func (c *Config) checkUnlinked(fsys vfs.FS, dirs ...string) error {
	if c.AllowShared {
		return nil
	}
	for _, dir := range dirs {
		if err := vfs.CheckUnlinked(fsys, dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// fileLog is the driver.Log. mu guards the stores, their handle counts, and closed.
type fileLog struct {
	c     Config
	fs    vfs.FS
	owned *vfs.OS     // closed with the log
	home  fs.FileInfo // the directory of all topics, as it was opened

	mu     sync.Mutex
	stores map[string]*store // by topic; of a topic that was made again, the newest
	all    map[*store]struct{}
	closed bool
}

var _ driver.Log = (*fileLog)(nil)

// OpenTopic opens a handle. All handles of one topic share a store.
func (l *fileLog) OpenTopic(ctx context.Context, name string) (driver.Topic, error) {
	if err := l.usable(ctx); err != nil {
		return nil, err
	}
	if t := l.share(name, nil); t != nil {
		return t, nil
	}
	s, err := openStore(ctx, l.fs, &l.c, name)
	if err != nil {
		return nil, err
	}
	if t := l.share(name, s); t != nil {
		if t.s != s { // another goroutine was faster
			err = s.close()
		}
		return t, err
	}
	return nil, errors.Join(errClosed, s.close())
}

// share makes a handle of the store that is open, or of fresh when there is none.
func (l *fileLog) share(name string, fresh *store) *topic {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	s := l.stores[name]
	if s == nil || s.gone() || s.displaced.Load() {
		if s = fresh; s == nil {
			return nil
		}
		l.stores[name] = s
		l.all[s] = struct{}{}
	}
	s.handles++
	return &topic{l: l, s: s, gone: make(chan struct{})}
}

// release drops one handle of s and closes it with the last.
func (l *fileLog) release(s *store) error {
	l.mu.Lock()
	s.handles--
	_, open := l.all[s]
	last := s.handles == 0 && open
	if last {
		delete(l.all, s)
		if l.stores[s.name] == s {
			delete(l.stores, s.name)
		}
	}
	l.mu.Unlock()
	if !last {
		return nil
	}
	return s.close()
}

// Close closes every topic and the log.
func (l *fileLog) Close() error {
	l.mu.Lock()
	all := l.all
	l.stores, l.all, l.closed = nil, nil, true
	l.mu.Unlock()
	var errs []error
	for s := range all {
		errs = append(errs, s.close())
	}
	l.c.idlers.Join()
	return errors.Join(append(errs, l.closeFS())...)
}

func (l *fileLog) closeFS() error {
	l.mu.Lock()
	owned := l.owned
	l.owned = nil
	l.mu.Unlock()
	if owned == nil {
		return nil
	}
	return owned.Close()
}

var errClosed = fmt.Errorf("the file log: %w", fault.Closed)
