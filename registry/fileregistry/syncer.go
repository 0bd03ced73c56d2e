package fileregistry

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
)

// syncer makes written frames durable and answers the callers that wait for that. What gathers during one
// fdatasync shares the next one, also across processes: the control page says up to where all is durable.
type syncer struct {
	ctl    *control
	open   func(i uint64) (vfs.File, error) // journal file i
	files  [2]vfs.File                      // its own descriptors, opened when they are needed
	redo   func() error                     // writes the journal anew, into another file, after a failed sync
	wake   func()                           // tells other processes that something changed
	noSync bool
	log    *slog.Logger

	mu     sync.Mutex
	queue  []synced
	closed bool
	more   chan struct{} // capacity 1: the queue grew, or closed
}

// synced is an answer that waits for its LSN to be durable.
type synced struct {
	lsn  uint64
	loud bool
	r    *request
}

func (s *syncer) add(w synced) {
	s.mu.Lock()
	s.queue = append(s.queue, w)
	s.mu.Unlock()
	signal(s.more)
}

// finish makes run return once the queue is empty.
func (s *syncer) finish() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	signal(s.more)
}

func (s *syncer) take() (queue []synced, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue, s.queue = s.queue, nil
	return queue, s.closed
}

func (s *syncer) run() {
	for range s.more {
		queue, closed := s.take()
		if len(queue) > 0 {
			s.serve(queue)
		}
		if closed {
			return
		}
	}
}

func (s *syncer) serve(queue []synced) {
	var lsn uint64
	loud := false
	for _, w := range queue {
		lsn = max(lsn, w.lsn)
		loud = loud || w.loud
	}
	err := s.sync(lsn)
	if err != nil {
		s.log.Error("the registry's journal can't be made durable", "error", err)
	}
	if loud {
		s.wake()
	}
	for _, w := range queue {
		if err != nil {
			w.r.r.unknown(err)
		}
		w.r.reply <- w.r.r
	}
}

// durable tells whether all below lsn is durable.
func (s *syncer) durable(lsn uint64) bool { return s.noSync || s.ctl.synced.Load() >= lsn }

// sync returns when all below lsn is durable.
//
// How far it is written is looked at before the generation is. When the next one begins in between, all
// that was written before is durable already. The other way around, what another process writes to the
// next generation would be called durable by a sync of the file of this one.
func (s *syncer) sync(lsn uint64) error {
	for !s.durable(lsn) {
		written := s.ctl.written.Load()
		gen := s.ctl.gen.Load()
		if written < lsn { // the page is wrong: the wait would never end
			return fmt.Errorf("the control file says that %d bytes were written, and %d were read: %w", written, lsn, fault.Corrupt)
		}
		if s.ctl.sealed.Load() == gen {
			if err := s.redo(); err != nil {
				return err
			}
			continue
		}
		if err := s.syncFile(gen); err != nil {
			s.tell(gen, err)
			continue
		}
		if s.ctl.sealed.Load() != gen {
			s.ctl.raiseSynced(written)
		}
	}
	return nil
}

// tell says why a generation ends before it is full. A doubt is no failure: a busy disk is enough for it.
func (s *syncer) tell(gen uint64, err error) {
	if errors.Is(err, errDoubtful) {
		s.log.Info("the registry's journal is written anew", "generation", gen, "why", err)
		return
	}
	s.log.Error("fdatasync of the registry's journal failed", "generation", gen, "error", err)
}

// drop answers what was added after run returned: it can't be known to be durable.
func (s *syncer) drop() {
	queue, _ := s.take()
	for _, w := range queue {
		w.r.r.unknown(fault.Closed)
		w.r.reply <- w.r.r
	}
}

// close releases the files, after run has returned.
func (s *syncer) close() error { return closeAll(s.files[0], s.files[1]) }
