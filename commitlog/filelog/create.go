package filelog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog/internal/page"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/segment"
	"github.com/ringfence/ringfence/internal/vfs"
)

// CreateTopic makes a topic in a temporary directory and moves it into place.
func (l *fileLog) CreateTopic(ctx context.Context, c driver.TopicConfig) error {
	if err := l.usable(ctx); err != nil {
		return err
	}
	unlock, err := l.lock(ctx)
	if err != nil {
		return err
	}
	tmp := path.Join(tmpDir, fmt.Sprintf("%s%016x", newPrefix, rand.Uint64()))
	err = l.createLocked(tmp, c)
	unlock()
	if err != nil {
		return errors.Join(err, l.fs.RemoveAll(tmp))
	}
	return nil
}

func (l *fileLog) createLocked(tmp string, c driver.TopicConfig) error {
	old, err := l.metaOf(c.Name)
	switch {
	case err == nil && old.Config.Partitions == c.Partitions:
		// Its maker may have failed in the last step.
		if err := l.fs.SyncDir(topicsDir); err != nil {
			return explain("sync "+l.fs.Path(topicsDir), err)
		}
		return nil
	case err == nil:
		return fmt.Errorf("topic %q has %d partitions; asked for were %d: %w", c.Name, old.Config.Partitions, c.Partitions, fault.Exists)
	case !errors.Is(err, fault.NotFound):
		return fmt.Errorf("create topic %q: %w", c.Name, err)
	}
	// A deletion may have been interrupted before it cleaned up.
	if err = l.putAside(c.Name); err == nil {
		err = l.makeTopic(tmp, c)
	}
	if err != nil {
		return explain(fmt.Sprintf("create topic %q in %s", c.Name, l.fs.Path(topicsDir)), err)
	}
	return nil
}

func (l *fileLog) makeTopic(tmp string, c driver.TopicConfig) error {
	if err := l.fs.MkdirAll(tmp, 0o700); err != nil {
		return err
	}
	dir, err := l.fs.OpenDir(tmp)
	if err != nil {
		return err
	}
	if err := errors.Join(l.fillTopic(dir, c), dir.Close()); err != nil {
		return err
	}
	if err := l.fs.Rename(tmp, topicDir(c.Name)); err != nil {
		return err
	}
	return l.fs.SyncDir(topicsDir)
}

// lockNames are the kernel locks of a topic.
var lockNames = []string{"alive.lock", "open.lock", "write.lock", "sync.lock", "meta.lock", "prepare.lock"}

// fillTopic makes the files of a new topic, durably.
func (l *fileLog) fillTopic(dir vfs.Dir, c driver.TopicConfig) error {
	m := meta{Version: metaVersion, ID: rand.Uint64(), Config: c}
	b, err := encodeSummed(&m)
	if err != nil {
		return err
	}
	if err := writeFile(dir, metaFile, b); err != nil {
		return err
	}
	for _, name := range lockNames {
		if err := writeFile(dir, name, nil); err != nil {
			return err
		}
	}
	if err := writeFile(dir, "control", make([]byte, page.Size(c.Partitions))); err != nil {
		return err
	}
	if err := writeFile(dir, oldestName(1), nil); err != nil {
		return err
	}
	for i := range rooms {
		if err := makeRoom(dir, i, c.Partitions); err != nil {
			return err
		}
	}
	h := segment.Header{
		TopicID: m.ID, Number: 1, Size: firstSize(c.Partitions, l.c.SegmentBytes),
		Salt: rand.Uint64(), Bases: make([]int64, c.Partitions),
	}
	l.c.clock(l.fs)().stamp(&h)
	if err := makeFirst(dir, &h); err != nil {
		return err
	}
	return dir.SyncDir(".")
}

// makeFirst writes the first segment, zeros included: it is small.
func makeFirst(dir vfs.Dir, h *segment.Header) error {
	b := segment.AppendHeader(nil, h)
	b = append(append(b, make([]byte, h.Size-2*h.Length)...), b...)
	return writeFile(dir, segmentName(h.Number), b)
}

// firstSize is the size of a topic's first segment.
func firstSize(partitions int, limit int64) int64 {
	return 2*segment.HeaderSize(partitions) + min(firstSegmentBytes, limit)
}

func (l *fileLog) usable(ctx context.Context) error {
	l.mu.Lock()
	closed := l.closed
	l.mu.Unlock()
	if closed {
		return errClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.lookAtHome()
}
