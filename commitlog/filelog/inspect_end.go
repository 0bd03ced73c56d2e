package filelog

import (
	"log/slog"
	"os"

	"github.com/ringfence/ringfence/commitlog/filelog/internal/page"
	"github.com/ringfence/ringfence/internal/segment"
	"github.com/ringfence/ringfence/internal/vfs"
)

// Where the log ends decides what is damage. While a process has the topic open its control page says so.
// Else the next opening will recover it, and Inspect decides as that will: what a power loss left
// behind the cut was never promised, so it is no damage, and will not be there.

// readEnd is where the log ends; 0 when that can't be told: a process is opening the topic at this moment,
// or its locks can't be had.
func (in *inspector) readEnd() segment.Pos {
	before, ok := isOpen(in.dir)
	if !ok {
		return 0
	}
	var end segment.Pos
	if before {
		end = in.readPage().Written()
	} else {
		end = in.foresee()
	}
	if after, ok := isOpen(in.dir); !ok || after != before {
		return 0 // the page, or the segments, may have become others meanwhile
	}
	return end
}

// isOpen tells whether a process has a topic open. It takes the locks of open.go for a moment, in the order
// in which an opener takes them, so no process takes the page for true because of it.
func isOpen(dir vfs.Dir) (yes, ok bool) {
	turn, err := dir.OpenFile("open.lock", os.O_RDWR, 0)
	if err != nil {
		return false, false
	}
	defer turn.Close() // lets go, as that of the next
	if free, err := turn.TryLock(true); !free || err != nil {
		return false, false
	}
	alive, err := dir.OpenFile("alive.lock", os.O_RDWR, 0)
	if err != nil {
		return false, false
	}
	defer alive.Close()
	alone, err := alive.TryLock(true)
	return !alone, err == nil
}

// foresee is where recovery would cut the log; 0: it has nothing to go on from, or could not look.
func (in *inspector) foresee() segment.Pos {
	partitions := in.meta.Config.Partitions
	s := &store{
		fs: in.dir, meta: in.meta, page: in.readPage(), log: slog.New(slog.DiscardHandler),
		segs: &segs{dir: in.dir, topicID: in.meta.ID, partitions: partitions, open: map[uint64]*seg{}, reach: func(uint64) segment.Pos { return 0 }},
	}
	defer s.segs.close()
	ev, err := s.gather()
	if err != nil {
		return 0
	}
	p, ok := decide(ev)
	if !ok {
		return 0
	}
	return p.cut
}

// readPage is the control page as it stands; an empty one if it can't be read.
func (in *inspector) readPage() *page.Page {
	if b, err := readMapped(in.dir, "control"); err == nil {
		if p := page.View(b); p != nil {
			return p
		}
	}
	return page.View(make([]byte, page.Size(in.meta.Config.Partitions)))
}
