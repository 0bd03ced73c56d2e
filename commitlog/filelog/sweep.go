package filelog

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"time"
)

// What is in the tmp directory: topics that are being made, under the lock of all topics, and what
// is to be removed. Moving the one to the other is quick; removing takes no lock.
const (
	newPrefix = "new-"
	oldPrefix = "old-"
)

// sweepTime bounds what opening a log spends on what others left. The rest waits for the next.
const sweepTime = 100 * time.Millisecond

// sweepAtOpen removes what a crash, or a call that gave up, left of topics.
func (l *fileLog) sweepAtOpen(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	if err := l.sweep(ctx); err != nil && ctx.Err() == nil {
		l.c.Logger.Warn("what was left of deleted topics could not be removed; it is tried again later", "dir", l.fs.Path(tmpDir), "error", err)
	}
}

// sweep removes what was left of topics, one file after another, as long as ctx lasts. Several may
// do so at once.
func (l *fileLog) sweep(ctx context.Context) error {
	entries, err := l.fs.ReadDir(tmpDir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		name := path.Join(tmpDir, e.Name())
		if strings.HasPrefix(e.Name(), newPrefix) {
			name, err = l.discard(name)
			if err != nil || name == "" {
				errs = append(errs, err)
				continue
			}
		} else if !strings.HasPrefix(e.Name(), oldPrefix) {
			continue
		}
		errs = append(errs, l.removeDir(ctx, name))
	}
	return errors.Join(errs...)
}

// discard renames the directory of a topic that was never finished, when no process is making it, so
// that any process may remove it. "": another process has the lock of all topics, and may be making it.
func (l *fileLog) discard(name string) (string, error) {
	unlock, won, err := l.tryLock()
	if err != nil || !won {
		return "", err
	}
	defer unlock()
	old := oldDir()
	err = l.fs.Rename(name, old)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // it was finished, or another process was faster
	}
	return old, err
}

// removeDir removes a directory. The files of a topic are large, so ctx is looked at between them.
func (l *fileLog) removeDir(ctx context.Context, name string) error {
	entries, err := l.fs.ReadDir(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if e.Name() == deletedFile {
			continue // the last to go: it says what the directory is to a process that opened it before
		}
		if err := l.fs.RemoveAll(path.Join(name, e.Name())); err != nil {
			return err
		}
	}
	return l.fs.RemoveAll(name)
}
