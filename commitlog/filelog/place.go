package filelog

import (
	"fmt"
	"io/fs"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
)

// A topic's directory, or one above it, may be removed, or a copy of it put in its place, by other means than
// a deletion and while processes have it open (rm -r, a backup that is put back). They act on the directory
// that they have open, whatever its name: what they append from then on is acknowledged, and no process that
// opens the topic later sees it. So each process looks whether its directory is the one that the name leads to: a
// moment after it has appended, and now and then. What it appended since the last look is in the old
// directory, and the error says so.

// placeEvery is how often a process that appends looks.
const placeEvery = time.Second

// place is what a process knows of where its topic's directory is.
type place struct {
	dir    fs.FileInfo // as it was opened
	looked time.Time   // of the maintenance
}

// lookSoon has the maintenance look in placeEvery: after this append, and all that come until then.
func (s *store) lookSoon() {
	if !s.unlooked.Load() && s.unlooked.CompareAndSwap(false, true) {
		s.nudge()
	}
}

// lookNow is for the maintenance when that time has come. What is appended from now on asks for another look.
func (s *store) lookNow() {
	s.unlooked.Store(false)
	s.place.looked = time.Time{}
}

// lookAtPlace is a chore: it finds out that the directory is not in its place any more.
func (s *store) lookAtPlace() error {
	if s.displaced.Load() || time.Since(s.place.looked) < placeEvery || s.gone() {
		return nil
	}
	away := vfs.Away(s.above, topicDir(s.name), s.place.dir)
	s.place.looked = time.Now()
	if away == nil || s.gone() {
		return nil
	}
	s.displaced.Store(true)
	s.log.Error("the directory of the topic was removed or replaced while it was in use; nothing is appended to it any more", "error", s.away())
	s.ring() // waiters for records hear it
	return nil
}

// lookAtHome fails when the directory of all topics is not where its path leads to: the data directory, say, was
// moved away. Nothing is made, opened or deleted there then, as no later process would see it.
func (l *fileLog) lookAtHome() error {
	if vfs.Away(l.fs, topicsDir, l.home) == nil {
		return nil
	}
	return fmt.Errorf("%s was removed or replaced while this process had it open; close this log and open it again, or restart the process: %w",
		l.fs.Path(topicsDir), fault.Closed)
}

// away is the error of calls once the directory is not in its place; nil while nothing is known of that.
func (s *store) away() error {
	if !s.displaced.Load() {
		return nil
	}
	return fmt.Errorf("topic %q: %s was removed or replaced while this process had it open; what was appended since is not in what is there now: open the topic again, or restart the process: %w",
		s.name, s.above.Path(topicDir(s.name)), fault.Closed)
}
