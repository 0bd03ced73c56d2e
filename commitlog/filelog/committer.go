package filelog

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
)

// gather is how long the committer waits for the producers of the batch before. They were
// answered a moment ago and are about to append again; taking them along saves a sync.
const gather = 20 * time.Microsecond

// runCommitter writes what is pending until the intake is closed and empty.
func (s *store) runCommitter() {
	last := int64(0) // appends in the batch before
	for {
		<-s.in.kick
		for {
			s.gatherUp(last)
			n := s.in.count.Load()
			b := s.in.take()
			if b == nil {
				break
			}
			last = n
			s.commit(b)
			s.in.giveBack(b)
		}
		select {
		case <-s.stop:
			// A last look: close set stop before it closed the intake.
			if s.in.drained() {
				return
			}
			s.in.wake()
		default:
		}
	}
}

// gatherUp lets other goroutines run until as many appends are pending as in the batch before.
func (s *store) gatherUp(last int64) {
	if s.in.count.Load() >= last {
		return
	}
	for start := time.Now(); s.in.count.Load() < last && time.Since(start) < gather; {
		runtime.Gosched()
	}
}

// commit writes a batch, waits for its level of durability, and answers.
func (s *store) commit(b *batch) {
	if err := s.writeBatch(b); err != nil {
		failAll(b.frames, err)
	}
	for _, p := range b.frames {
		err := p.err
		if errors.Is(err, errDuplicate) {
			if err = nil; p.frame.Base < 0 {
				p.frame.Base = s.firstOf(&p.frame)
			}
		}
		for _, a := range p.acks {
			if err != nil {
				a.done(0, err)
			} else {
				a.done(p.frame.Base+int64(a.first), nil)
			}
		}
	}
}

// writeBatch sets the errors of frames that were refused; its own error is that of all others.
func (s *store) writeBatch(b *batch) error {
	if err := s.lockWrite(s.writeLock); err != nil {
		return notDone(explain("take the write lock", err))
	}
	end := s.w.write(b)
	if err := s.writeLock.Unlock(); err != nil {
		return fmt.Errorf("release the write lock: %w: %w", fault.Unknown, err)
	}
	if end == 0 {
		return nil
	}
	if s.syncing() {
		return s.awaitSync(end)
	}
	s.ring()
	s.nudgeIfDirty()
	return nil
}
