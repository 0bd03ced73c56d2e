package filelog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"

	"github.com/ringfence/ringfence/commitlog/filelog/internal/page"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
)

// A topic is deleted by one rename in its own directory, of the file topic to deleted: it needs no
// block on a full disk, and after a crash it has happened or it has not. It is done under the write
// lock, so that no append is half way. The control page has a word for the processes that have the topic
// open (page.Life): condemned before the rename, deleted after it. A process that finds condemned
// can't tell whether the deleter lives, so it looks for the file: its name decides, and the word only
// saves the look. After a crash the name alone decides.
//
// All that follows is cleaning, which any process can do and repeat: the directory of a topic without
// its file is moved to tmp/old-*, under the lock of all topics, and then removed, without any lock.
// A process that still has it open acts on that directory, whatever it is called, and on no other.

// metaFile and deletedFile are the two names of the file that makes a directory a topic.
const (
	metaFile    = "topic"
	deletedFile = "deleted"
)

// DeleteTopic deletes a topic, or ends a deletion that was interrupted. Files that it can't remove
// afterwards are logged, and a later sweep removes them.
func (l *fileLog) DeleteTopic(ctx context.Context, name string) error {
	if err := l.usable(ctx); err != nil {
		return err
	}
	dir, err := l.fs.OpenDir(topicDir(name))
	if errors.Is(err, fs.ErrNotExist) {
		return notFound(name)
	}
	if err == nil {
		err = errors.Join(l.condemn(ctx, name, dir), dir.Close())
	}
	if err != nil {
		return deleteFailed(name, err)
	}
	if err := l.clean(ctx, name); err != nil {
		l.c.Logger.Warn("files of a deleted topic stay behind; they are removed later", "topic", name, "dir", l.fs.Path(tmpDir), "error", err)
	}
	return nil
}

func deleteFailed(name string, err error) error {
	what := fmt.Sprintf("delete topic %q", name)
	for _, kind := range []error{fault.Unknown, fault.NotDone} {
		if errors.Is(err, kind) {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return explain(what, err)
}

// condemn makes the topic in a directory a deleted one, durably. It waits for the write lock,
// which a process that was stopped may hold, as long as ctx lasts.
func (l *fileLog) condemn(ctx context.Context, name string, dir vfs.Dir) error {
	if gone, err := topicGone(dir); err != nil || gone {
		return errors.Join(err, dir.SyncDir(".")) // its deleter may have died before it did that
	}
	lock, err := dir.OpenFile("write.lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	p, err := page.Open(dir, "control", 0)
	if err != nil {
		return err
	}
	err = l.lockToDelete(ctx, name, lock, p)
	if err == nil {
		err = rename(dir, p)
	}
	return errors.Join(err, p.Close())
}

// lockToDelete takes the write lock of a topic.
func (l *fileLog) lockToDelete(ctx context.Context, name string, lock vfs.File, p *page.Page) error {
	err := lockWithin(ctx, lock, func() {
		l.c.Logger.Warn("a process does not let go of the write lock, and deleting the topic waits for it; it is probably stopped: continue it with kill -CONT, or end it with kill -9",
			"topic", name, "pid", p.Holder(), "for", lockPatience)
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("process %d has its write lock and does not let go; the topic is as it was: %w: %w", p.Holder(), fault.NotDone, err)
	}
	if err == nil {
		p.Hold(os.Getpid())
	}
	return err
}

// rename is the deletion. The caller has the write lock.
func rename(dir vfs.Dir, p *page.Page) error {
	p.Condemn()
	if err := dir.Rename(metaFile, deletedFile); err != nil {
		if gone, e := topicGone(dir); !gone || e != nil {
			p.Spare()
			return fmt.Errorf("%w: %w", fault.NotDone, err)
		}
	}
	err := dir.SyncDir(".")
	p.MarkDeleted()
	if err != nil {
		return fmt.Errorf("the topic is deleted, but may come back when the host crashes: %w: %w", fault.Unknown, err)
	}
	return nil
}

// topicGone tells whether the topic in a directory was deleted, or has lost its file.
func topicGone(dir vfs.FS) (bool, error) {
	_, err := dir.Stat(metaFile)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return false, err
}

// clean takes the directory of a deleted topic out of the way of its name, and removes it with
// whatever else was left of topics.
func (l *fileLog) clean(ctx context.Context, name string) error {
	unlock, err := l.lock(ctx)
	if err != nil {
		return err
	}
	err = l.putAside(name)
	unlock()
	return errors.Join(err, l.sweep(ctx))
}

// putAside moves the directory of a deleted topic to the temporary ones; one that holds a topic,
// another life of the name, stays. The caller has the lock of all topics.
func (l *fileLog) putAside(name string) error {
	dir := topicDir(name)
	if _, err := l.fs.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := l.fs.Stat(path.Join(dir, metaFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := l.fs.Rename(dir, oldDir()); err != nil {
		return err
	}
	return l.fs.SyncDir(topicsDir)
}

func oldDir() string { return path.Join(tmpDir, fmt.Sprintf("%s%016x", oldPrefix, rand.Uint64())) }
