package filelog

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/ringfence/ringfence/commitlog/filelog/internal/page"
	"github.com/ringfence/ringfence/internal/fault"
)

// Opening a topic decides whether its control page is true. The page lies in dirty memory of a file. While any
// process has the topic open, all share that memory, and each store to it leaves it true. When no process has
// the topic open, the page may become any older state of itself: the host was down, the file system was
// mounted anew after an error, or this is a snapshot of its disk. No word in the page can tell, since every
// word may be old. The host's boot id can't tell either. Locks can: they live and die with processes.
//
//	alive.lock  held shared by each process for which the page is true, from opening to closing
//	open.lock   held exclusively by the opening process, until that is decided
//
// The opener takes open.lock and then tries alive.lock exclusively. If it gets that, no process has the topic
// open: the page is a hint, and recovery makes it say what the segments say. In any case the opener then takes
// alive.lock shared and releases open.lock.
//
// Why that holds. Only the holder of open.lock takes alive.lock, so there is one at a time. All other holders
// took it shared, at the end of the same steps: the page was true then and has been since. So a refusal proves
// that the page is true. A grant proves that no process relies on the page, and none can begin to before the
// recovery is over. Exclusive becomes shared in two steps, and the kernel releases the lock in between; but no
// process can take it in that gap without open.lock. The last other process may close, or be killed, between
// the refusal and the shared lock: the page is what it left, since the opener has files open and their file
// system is not mounted anew. A process that dies while it recovers loses both locks, and the next one
// recovers again: nothing says that the page is ready, so nothing can say it wrongly.
//
// A process that took alive.lock without these steps, even for a moment, would make the next one believe an old
// page. So Inspect, which asks whether any process has the topic open, takes both locks, in that order.

// openFiles opens the files of a store, and recovers the topic when no process has it open.
func (s *store) openFiles(ctx context.Context) (err error) {
	if s.writeLock, err = s.fs.OpenFile("write.lock", os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return explain("open the write lock", err)
	}
	if s.syncLock, err = s.fs.OpenFile("sync.lock", os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return explain("open the sync lock", err)
	}
	if s.lazyLock, err = s.fs.OpenFile("sync.lock", os.O_RDWR, 0); err != nil {
		return explain("open the sync lock", err)
	}
	if s.aliveLock, err = s.fs.OpenFile("alive.lock", os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return explain("open the lock of the processes with the topic open", err)
	}
	if s.page, err = page.Open(s.fs, "control", s.meta.Config.Partitions); err != nil {
		return explain("open the control page", err)
	}
	turn, err := s.fs.OpenFile("open.lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return explain("open the lock for recovery", err)
	}
	defer turn.Close()
	err = lockWithin(ctx, turn, func() {
		s.log.Warn("a process has been opening the topic for a while, and no other one can meanwhile; it recovers much data, or it is stopped: see which process has the file open",
			"file", s.fs.Path("open.lock"), "for", lockPatience)
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("another process, perhaps stopped, is opening the topic and has %s locked: %w", s.fs.Path("open.lock"), err)
	}
	if err != nil {
		return explain("take the lock for recovery", err)
	}
	return s.trust(ctx)
}

// trust makes the page true for this store. The caller has open.lock.
func (s *store) trust(ctx context.Context) error {
	alone, err := s.aliveLock.TryLock(true)
	if err != nil {
		return explain("lock "+s.fs.Path("alive.lock"), err)
	}
	if alone {
		if err := s.recoverLocked(ctx); err != nil {
			return err
		}
		// The maker of the topic may have been killed before its name was durable.
		if err := s.above.SyncDir(topicsDir); err != nil {
			return explain("sync "+s.above.Path(topicsDir), err)
		}
	}
	if err := s.aliveLock.Lock(false); err != nil {
		return explain("lock "+s.fs.Path("alive.lock"), err)
	}
	return nil
}

// recoverLocked recovers under the write lock: a process may be deleting the topic.
func (s *store) recoverLocked(ctx context.Context) error {
	err := lockWithin(ctx, s.writeLock, func() {
		s.log.Warn("a process does not let go of the write lock, and opening the topic waits for it; it is probably stopped: continue it with kill -CONT, or end it with kill -9",
			"file", s.fs.Path("write.lock"), "for", lockPatience)
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("another process, probably stopped, has %s locked and does not let go: %w", s.fs.Path("write.lock"), err)
	}
	if err != nil {
		return explain("take the write lock", err)
	}
	s.page.Hold(os.Getpid())
	err = s.recover()
	gone, e := topicGone(s.fs)
	switch {
	case gone:
		s.page.MarkDeleted()
		err = fault.NotFound
	case err == nil:
		err = e
	}
	return errors.Join(err, s.writeLock.Unlock())
}
