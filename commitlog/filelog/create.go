package filelog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"time"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/segment"
)

func topicDir(name string) string { return path.Join(topicsDir, name) }

func notFound(name string) error {
	return fmt.Errorf("topic %q: %w", name, fault.NotFound)
}

// CreateTopic makes a topic in a temporary directory and moves it into place.
func (l *fileLog) CreateTopic(ctx context.Context, c driver.TopicConfig) error {
	if err := l.usable(ctx); err != nil {
		return err
	}
	unlock, err := l.lock()
	if err != nil {
		return err
	}
	defer unlock()
	old, err := readMeta(l.fs, topicDir(c.Name))
	switch {
	case err == nil && old.Config == c:
		// Its maker may have failed in the last step.
		if err := l.fs.SyncDir(topicsDir); err != nil {
			return explain("sync "+l.fs.Path(topicsDir), err)
		}
		return nil
	case err == nil:
		return fmt.Errorf("topic %q is there with %+v; asked for %+v: %w", c.Name, old.Config, c, fault.Exists)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("create topic %q: %w", c.Name, err)
	}
	tmp := path.Join(tmpDir, fmt.Sprintf("new-%016x", rand.Uint64()))
	if err := l.makeTopic(tmp, c); err != nil {
		return errors.Join(explain(fmt.Sprintf("create topic %q in %s", c.Name, l.fs.Path(topicsDir)), err), l.fs.RemoveAll(tmp))
	}
	return nil
}

func (l *fileLog) makeTopic(tmp string, c driver.TopicConfig) error {
	if err := l.fs.MkdirAll(tmp, 0o755); err != nil {
		return err
	}
	m := meta{Version: metaVersion, ID: rand.Uint64(), Config: c}
	b, err := encodeSummed(&m)
	if err != nil {
		return err
	}
	if err := writeFile(l.fs, path.Join(tmp, "topic"), b); err != nil {
		return err
	}
	for _, name := range []string{"write.lock", "sync.lock", "meta.lock", "prepare.lock"} {
		if err := writeFile(l.fs, path.Join(tmp, name), nil); err != nil {
			return err
		}
	}
	if err := writeFile(l.fs, path.Join(tmp, "control"), make([]byte, pageSize(c.Partitions))); err != nil {
		return err
	}
	h := segment.Header{
		TopicID: m.ID, Number: 1, Size: firstSize(c.Partitions, l.c.SegmentBytes),
		Created: time.Now().UnixMilli(), Salt: rand.Uint64(), Bases: make([]int64, c.Partitions),
	}
	if err := l.makeFirst(path.Join(tmp, segmentName(1)), &h); err != nil {
		return err
	}
	if err := l.fs.SyncDir(tmp); err != nil {
		return err
	}
	if err := l.fs.Rename(tmp, topicDir(c.Name)); err != nil {
		return err
	}
	return l.fs.SyncDir(topicsDir)
}

// makeFirst writes the first segment, zeros included: it is small.
func (l *fileLog) makeFirst(name string, h *segment.Header) error {
	b := segment.AppendHeader(nil, h)
	b = append(append(b, make([]byte, h.Size-2*h.Length)...), b...)
	return writeFile(l.fs, name, b)
}

// firstSize is the size of a topic's first segment.
func firstSize(partitions int, limit int64) int64 {
	return 2*segment.HeaderSize(partitions) + min(firstSegmentBytes, limit)
}

// DeleteTopic marks the topic for those who have it open, then takes it out of sight and removes it.
func (l *fileLog) DeleteTopic(ctx context.Context, name string) error {
	if err := l.usable(ctx); err != nil {
		return err
	}
	unlock, err := l.lock()
	if err != nil {
		return err
	}
	defer unlock()
	dir := topicDir(name)
	if _, err := l.fs.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return notFound(name)
	}
	if err := l.condemn(dir); err != nil {
		return explain(fmt.Sprintf("delete topic %q", name), err)
	}
	tmp := path.Join(tmpDir, fmt.Sprintf("old-%016x", rand.Uint64()))
	if err := l.fs.Rename(dir, tmp); err != nil {
		return explain(fmt.Sprintf("delete topic %q", name), err)
	}
	if err := l.fs.SyncDir(topicsDir); err != nil {
		return explain(fmt.Sprintf("delete topic %q", name), err)
	}
	if err := l.fs.RemoveAll(tmp); err != nil {
		l.c.Logger.Warn("files of a deleted topic stay behind", "topic", name, "dir", l.fs.Path(tmp), "error", err)
	}
	return nil
}

// condemn makes every later append and read of the topic fail, in all processes. It holds the
// write lock, so no append is half way.
func (l *fileLog) condemn(dir string) error {
	f, err := l.fs.OpenFile(path.Join(dir, "write.lock"), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a damaged topic directory can be deleted, too
	}
	if err != nil {
		return err
	}
	defer f.Close()
	p, err := openPage(l.fs, path.Join(dir, "control"), 0)
	if err != nil {
		return err
	}
	s := &store{page: p, log: l.c.Logger.With("dir", l.fs.Path(dir))}
	if err := s.lockWrite(f); err != nil {
		return errors.Join(err, p.close())
	}
	p.word(pageDeleted).Store(1)
	p.shout()
	return p.close()
}

// Topics lists the topics.
func (l *fileLog) Topics(ctx context.Context) ([]driver.TopicConfig, error) {
	if err := l.usable(ctx); err != nil {
		return nil, err
	}
	entries, err := l.fs.ReadDir(topicsDir)
	if err != nil {
		return nil, explain("list "+l.fs.Path(topicsDir), err)
	}
	var out []driver.TopicConfig
	for _, e := range entries {
		m, err := readMeta(l.fs, topicDir(e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile, or no topic
		}
		if err != nil {
			return nil, fmt.Errorf("topic %q: %w", e.Name(), err)
		}
		out = append(out, m.Config)
	}
	return out, nil
}

func (l *fileLog) usable(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed
	}
	return ctx.Err()
}
