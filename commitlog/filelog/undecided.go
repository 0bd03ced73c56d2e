package filelog

import (
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/segment"
	"github.com/ringfence/ringfence/internal/vfs"
)

// Damage in the newest segment leaves open how far a partition went, when no sound frame of it
// stands behind. A reader that said so itself would have to invent an offset, and a writer in
// another process, which wrote those frames and knows better, would go on at others. So the reader
// takes the write lock and decides for all: it starts a new segment, whose bases lie past whatever
// the damaged bytes can have held. All processes learn from there that something is lost, and where
// to go on. As long as the lock can't be had that place is not known, and the error says so.

// decidePatience is how long a reader waits for the locks that it needs to decide.
const decidePatience = time.Second

// decide ends the doubt about a partition in segment n, or is the error that says why it lasts.
func (s *store) decide(n uint64, partition int, next int64) error {
	err := s.decideFor(n)
	if err == nil {
		err = s.show(n)
	}
	if err == nil {
		return nil
	}
	at, _ := s.damage.behind(n, 0)
	return &driver.CorruptError{
		Topic: s.name, Partition: partition, Offset: next, Resume: -1, File: s.fs.Path(segmentName(n)), Position: at,
		Detail: fmt.Sprintf("newer records may have stood there, and where to go on is decided once the log goes on in another segment, which failed: %v", err),
	}
}

// decideFor starts a new segment when the newest one is damaged.
func (s *store) decideFor(n uint64) error {
	lock, err := s.lockFor("write.lock")
	if err != nil {
		return err
	}
	defer lock.Close()
	s.page.Hold(os.Getpid())
	at := s.page.Written()
	if at.Number() != n || !s.spared() {
		return nil
	}
	w := writer{s: s}
	defer w.close()
	if s.page.Broken() == n {
		return w.catchUp()
	}
	if err := w.load(n); err != nil {
		return err
	}
	damaged, err := w.walkTo(at.Off())
	if err != nil {
		return err
	}
	if !damaged {
		s.view.letGo(math.MaxUint64) // an error of the disk that has passed: walk it again
		return nil
	}
	s.log.Warn("going on in a new segment past damaged bytes", "segment", n, "written", at.String())
	return w.start(0)
}

// show makes what was decided about segment n visible to readers at level sync.
func (s *store) show(n uint64) error {
	if s.page.Written().Number() > n && segment.Pos(s.visible()).Number() <= n {
		lock, err := s.lockFor("sync.lock")
		if err != nil {
			return err
		}
		defer lock.Close()
		if err := s.lead(locks{sync: true}); err != nil {
			return err
		}
	}
	s.ring()
	return nil
}

// lockFor takes one of the kernel locks, but does not wait for ever.
func (s *store) lockFor(name string) (vfs.File, error) {
	f, err := s.fs.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	err = lockFor(decidePatience, f)
	if errors.Is(err, errNotLetGo) {
		err = fmt.Errorf("%s, which process %d took last: %w", s.fs.Path(name), s.page.Holder(), err)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
