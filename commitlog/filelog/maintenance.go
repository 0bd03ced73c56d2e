package filelog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/ringfence/ringfence/internal/vfs"
)

// What an append leaves for later: the next segment's file, full of zeros so that small writes allocate no
// blocks; the index of a segment that is full; retention; and the sync of what was written at level OS. Every
// process that has the topic open looks after all of it; what two must not do at once has a kernel lock.
// Nothing here is needed for what was acknowledged: what fails is tried again, and an append makes do without
// it. So it gives way: it writes in pieces with pauses, and takes no room on the disk that appends may need.

const (
	// lazySync is how long bytes stay unsynced at level OS.
	lazySync = time.Second
	// lookEvery is how often a topic is looked at while nothing happens, and soonestLook how often one
	// is whose records are dropped at a small age.
	lookEvery   = 30 * time.Second
	soonestLook = 100 * time.Millisecond
	// fastFill: a segment that is half full sooner than this is written in large pieces, and zeros
	// ahead of them would take more from the disk than they save.
	fastFill  = 250 * time.Millisecond
	zeroPiece = 256 << 10
	maxRest   = 20 * time.Millisecond
	// zeroAhead is how much of the newest segment is filled with zeros at a time, when it was not
	// prepared, and zeroSlack how close to their end a small write may come first. Large writes
	// do without: each allocates its blocks once for many records.
	zeroAhead  = 8 << 20
	zeroSlack  = 1 << 20
	smallWrite = 512 << 10
)

// noughts are what all topics write ahead; they never change.
var noughts [zeroPiece]byte

// nudge asks the maintenance to look.
func (s *store) nudge() {
	select {
	case s.duty <- struct{}{}:
	default:
	}
}

// nudgeIfDirty asks for a lazy sync. The timer of the maintenance runs from the first nudge.
func (s *store) nudgeIfDirty() {
	if s.dirty.CompareAndSwap(false, true) {
		s.nudge()
	}
}

// runMaintenance does what need not be done in an append: it prepares the next segment, indexes closed
// ones, applies retention, closes what was dropped, and syncs at level OS. It sleeps while nothing
// happens, but for a look now and then.
func (s *store) runMaintenance() {
	every := s.lookEvery()
	lazy, place, retry, look := stopped(), stopped(), stopped(), time.NewTimer(every)
	armed, looks := false, false // lazy runs, and place does
	defer lazy.Stop()
	defer place.Stop()
	defer retry.Stop()
	defer look.Stop()
	chores := s.chores()
	for {
		select {
		case <-s.stop:
			s.syncLeftovers()
			return
		case <-s.duty:
			s.keep(chores, retry)
			if now := s.lookEvery(); now != every { // the retention was changed
				every = now
				look.Reset(every)
			}
			if s.dirty.Load() && !armed {
				lazy.Reset(lazySync)
				armed = true
			}
			if s.unlooked.Load() && !looks {
				place.Reset(placeEvery)
				looks = true
			}
		case <-place.C:
			looks = false
			s.lookNow()
			s.keep(chores, retry)
		case <-retry.C:
			s.keep(chores, retry)
		case <-lazy.C:
			armed = false
			s.dirty.Store(false)
			s.syncLeftovers()
		case <-look.C:
			s.followRetention()
			s.keep(chores, retry)
			every = s.lookEvery()
			look.Reset(every)
		}
	}
}

// lookEvery is how long the maintenance sleeps at most.
func (s *store) lookEvery() time.Duration {
	if age := s.retentionAge(); age > 0 {
		return min(max(age/closedEarly, soonestLook), lookEvery)
	}
	return lookEvery
}

func stopped() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// keep looks at all chores, and has retry ring when one that failed is due again.
func (s *store) keep(chores []*chore, retry *time.Timer) {
	var next time.Duration
	for _, c := range chores {
		if wait := c.try(s.log); wait > 0 && (next == 0 || wait < next) {
			next = wait
		}
	}
	if next > 0 {
		retry.Reset(next)
	}
}

// syncLeftovers is the duty of the next opener: without it readers at level sync never see what a process at
// level OS left. It makes durable what was written at level OS, perhaps by a process that is gone:
// readers at level sync see nothing that is not.
func (s *store) syncLeftovers() {
	if s.gone() {
		return
	}
	switch err := s.lazySync(); {
	case errors.Is(err, errNotLetGo):
		s.nudgeIfDirty() // a stopped process may go on, or is killed
	case err != nil:
		s.log.Error("sync in the background", "error", err)
	}
}

func (s *store) lazySync() error {
	won, err := s.lazyLock.TryLock(true)
	if err != nil || !won {
		return err
	}
	defer s.lazyLock.Unlock()
	if s.page.Synced() == s.page.Written() {
		return nil
	}
	return s.lead(locks{sync: true})
}

// indexNewest writes the index file of the newest closed segment.
func (s *store) indexNewest() error {
	n := s.page.Written().Number() - 1
	if n < max(1, s.page.Low()) {
		return nil
	}
	if _, err := s.fs.Stat(indexName(n)); err == nil {
		return nil
	}
	g, err := s.segs.get(n)
	if err != nil {
		return err
	}
	defer s.segs.put(g)
	_, err = s.closed(g)
	return err
}

// prepareNext makes the file of the next segment ahead of its use, when the newest one is half
// full: a spare one, or one full of zeros. One process does it at a time.
func (s *store) prepareNext() error {
	at := s.page.Written()
	next := at.Number() + 1
	if s.page.Prepared() >= next {
		return nil
	}
	g, err := s.segs.get(at.Number())
	if err != nil {
		return err
	}
	defer s.segs.put(g)
	if at.Off() < g.limit/2 {
		return nil
	}
	lock, err := s.fs.OpenFile("prepare.lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if won, err := lock.TryLock(true); err != nil || !won {
		return err
	}
	const tmp = "next.tmp"
	if err := s.fs.Rename("spare", tmp); errors.Is(err, fs.ErrNotExist) {
		if age, known := s.now().since(madeAt(g.h)); known && age < fastFill {
			return nil
		}
		size := s.growTo(g.limit-g.h.Length) + 2*g.h.Length
		if err := s.roomFor(size); err != nil {
			return err
		}
		if err := s.zeroFile(tmp, size); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	return s.install(tmp, next)
}

// roomFor tells whether so many bytes can be taken ahead of their use. What would fill the disk is
// left to the appends, which may not need it.
func (s *store) roomFor(size int64) error {
	kind, err := s.fs.Kind(".")
	if err != nil || kind.FreeBytes >= 2*size {
		return err
	}
	return fmt.Errorf("%d bytes are free, expected twice the %d of a segment: %w", kind.FreeBytes, size, syscall.ENOSPC)
}

// zeroFile writes a file full of zeros and syncs it piece by piece, so that appends meanwhile do
// not wait behind all of it.
func (s *store) zeroFile(name string, size int64) error {
	f, err := s.fs.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	for off := int64(0); off < size && err == nil && !s.watch.stopped(); off += zeroPiece {
		start := time.Now()
		if _, err = f.WriteAt(noughts[:min(zeroPiece, size-off)], off); err == nil {
			err = f.SyncData()
		}
		s.rest(2 * time.Since(start))
	}
	if err == nil && s.watch.stopped() {
		err = errClosed
	}
	if err != nil {
		err = errors.Join(err, s.fs.Remove(name))
	}
	return errors.Join(err, f.Close())
}

// zeroMore fills the newest segment with zeros ahead of the writers, when they get close to what
// was filled before. It writes under the write lock, in small pieces.
func (s *store) zeroMore() error {
	at := s.page.Written()
	g, err := s.segs.get(at.Number())
	if err != nil {
		return err
	}
	defer s.segs.put(g)
	if !s.page.WantsZeros(at, g.limit, zeroSlack) {
		return nil
	}
	lock, err := s.fs.OpenFile("write.lock", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer lock.Close()
	done, more := 0, true
	for ; done < zeroAhead/zeroPiece && more && err == nil; done++ {
		more, err = s.zeroOne(lock, g)
	}
	if err != nil || done == 1 {
		return err
	}
	return s.lazySync()
}

// zeroOne fills one piece; false when there is nothing left to fill.
func (s *store) zeroOne(lock vfs.File, g *seg) (bool, error) {
	if err := s.lockWrite(lock, s.stop); err != nil {
		return false, err
	}
	from, more := s.page.ZeroFrom(g.number, g.limit)
	var err error
	if more {
		to := min(from+zeroPiece, g.limit)
		if _, err = g.f.WriteAt(noughts[:to-from], from); err == nil {
			s.page.Zeroed(g.number, to)
		}
	}
	return more && err == nil, errors.Join(err, lock.Unlock())
}

// rest leaves the disk to others for a while.
func (s *store) rest(d time.Duration) {
	t := time.NewTimer(min(d, maxRest))
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.stop:
	}
}

// install gives a prepared file its name, under the write lock: the segment may have been started
// meanwhile without it.
func (s *store) install(tmp string, n uint64) error {
	lock, err := s.fs.OpenFile("write.lock", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := s.lockWrite(lock, s.stop); err != nil {
		return err
	}
	if s.page.Written().Number()+1 != n {
		return s.fs.Remove(tmp)
	}
	if err := s.fs.Rename(tmp, segmentName(n)); err != nil {
		return err
	}
	if err := lock.Unlock(); err != nil {
		return err
	}
	if err := s.fs.SyncDir("."); err != nil {
		return err
	}
	s.page.Prepare(n)
	return nil
}
