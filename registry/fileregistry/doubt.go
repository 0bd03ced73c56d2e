package fileregistry

import (
	"errors"
	"time"

	"github.com/ringfence/ringfence/internal/vfs"
)

// A failed sync may have lost what it should have written: the kernel marks the pages clean and tells the error
// once to each descriptor that is open at that moment. A later descriptor is not told. So the process that was
// told seals the generation, and all processes begin a new one; but it may be killed before it does that.
//
// So every sync of a journal file leaves a mark, a count in the control page, from before it begins until all
// know its error. A process that opens a descriptor looks at the marks once. Without a mark, every earlier
// error is known to all or still to be told. With a mark, and no living process that syncs that file, the mark
// is of a dead process and its error is lost. The generation is then sealed: its content is written again, into
// another file, before any process takes it for durable. A kernel lock, held shared by all syncing
// processes, tells whether one of them lives.
//
// The mark of a process that is stopped in a sync looks like that of a slow one. No process waits for it:
// sealing is never wrong, and costs the writing of one snapshot.
const doubtPatience = 20 * time.Millisecond

var (
	errDoubtful = errors.New("another process was killed while it made the journal durable, is stopped in that, or takes longer than 20ms: what became of it is not known")
	errBusyLock = errors.New("the lock of the syncing processes could not be had")
)

// doubt makes all processes begin a new generation when the present one lies in journal file i.
func (c *control) doubt(i uint64) {
	for {
		gen := c.gen.Load()
		if gen%2 == i {
			c.seal(gen)
		}
		if c.gen.Load() == gen {
			return
		}
	}
}

// seal says that a generation takes no more frames. A later sealed one stays sealed: the caller may have been
// stopped for long.
func (c *control) seal(gen uint64) {
	for {
		old := c.sealed.Load()
		if old >= gen || c.sealed.CompareAndSwap(old, gen) {
			return
		}
	}
}

// syncFile makes durable what was written to the file of a generation. When that is not certain,
// the generation is sealed.
func (s *syncer) syncFile(gen uint64) error {
	i := gen % 2
	f, err := s.descriptor(i)
	if err != nil {
		s.ctl.doubt(i)
		return err
	}
	if ok, err := patiently(func() (bool, error) { return f.TryLock(false) }); err != nil || !ok {
		s.ctl.doubt(i)
		return errors.Join(errBusyLock, err)
	}
	s.ctl.syncs[i].Add(1)
	if err = f.SyncData(); err != nil {
		s.ctl.doubt(i) // before the mark goes
	}
	s.ctl.syncs[i].Add(^uint64(0))
	_ = f.Unlock() // while it stays locked, others may begin a generation without need
	return err
}

// descriptor is this process's own of journal file i, which reports every error since it was
// opened.
func (s *syncer) descriptor(i uint64) (vfs.File, error) {
	if s.files[i] != nil {
		return s.files[i], nil
	}
	f, err := s.open(i)
	if err != nil {
		return nil, err
	}
	s.files[i] = f
	ok, err := patiently(func() (bool, error) { return s.errorsKnown(i) })
	if err == nil && !ok {
		err = errDoubtful
	}
	return f, err
}

// errorsKnown tells whether all processes know every earlier error that was told; false while a living process
// may still have to pass one on.
func (s *syncer) errorsKnown(i uint64) (bool, error) {
	mark := s.ctl.syncs[i]
	if mark.Load() == 0 {
		return true, nil
	}
	alone, err := s.files[i].TryLock(true)
	if err != nil || !alone {
		return false, err
	}
	if mark.Load() != 0 {
		s.ctl.doubt(i)
		mark.Store(0) // a dead process left it: a living one that syncs has the lock
		err = errDoubtful
	}
	return true, errors.Join(err, s.files[i].Unlock())
}

// patiently asks again and again, for a short while.
func patiently(ask func() (bool, error)) (ok bool, err error) {
	for end := time.Now().Add(doubtPatience); ; time.Sleep(lockEvery) {
		if ok, err = ask(); ok || err != nil || time.Now().After(end) {
			return ok, err
		}
	}
}
