package filelog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/ringfence/ringfence/internal/segment"
)

// After an fdatasync that failed the kernel holds pages for clean that never reached the disk, and a
// further one is no proof of anything: a failed sync is never repeated, the segment is broken, and the log
// goes on in a new one. The kernel tells the error once to each descriptor that is open then, and to
// none that is opened later. So an fdatasync is a proof only for bytes that were written while its
// descriptor was open (seg.hears). Of two at the same time through one descriptor only one hears of an error, so
// they go one after the other, and the later one hears of the earlier one's error.
//
// What can't be proved like that, because its writer is another process, or had an error, or is dead, is
// written once more: that makes the pages dirty again, and the fdatasync of a descriptor that was open
// before covers them.

// sync makes all of the segment durable. Bytes behind from count; proof is false, and nothing was done,
// when some of them were written before the file was opened here.
func (g *seg) sync(from segment.Pos) (proof bool, err error) {
	g.syncing.Lock()
	defer g.syncing.Unlock()
	if g.hears > from {
		return false, nil
	}
	if g.failed == nil {
		g.fdatasync()
	}
	return true, g.failed
}

// fdatasync notes how it went. The caller has syncing.
func (g *seg) fdatasync() {
	if g.failed = g.f.SyncData(); g.failed != nil {
		g.errors++
	}
}

// rewrite makes durable what segment n holds between two positions. It has the write lock for each piece
// that it writes, so that the file can't become another segment. It is errNotLetGo when another process
// does not let go of that.
func (s *store) rewrite(n uint64, from, to segment.Pos, locked bool) error {
	what := fmt.Sprintf("topic %q: write segment %d again", s.name, n)
	g, err := s.segs.get(n)
	switch {
	case neverStarted(err), errors.Is(err, fs.ErrNotExist):
		if s.page.Low() <= n {
			s.reportDamage(n, &segment.Damage{Detail: "the segment, or its header, is missing; what it held can't be made durable"})
		}
		return nil
	case err != nil:
		return explain(what, err)
	}
	defer s.segs.put(g)
	unlock := func() {}
	defer func() { unlock() }()
	before := g.failures()
	for off := from.Off(); ; {
		if !locked {
			lock, err := s.lockFor("write.lock") // its holder may be stopped, and the caller has the sync lock
			if err != nil {
				return explain(what, err)
			}
			s.page.Hold(os.Getpid())
			unlock = func() { _ = lock.Close() }
		}
		if s.page.Synced().Number() > n {
			return nil // another process did it
		}
		end, err := s.endOf(g)
		if err != nil {
			return explain(what, err)
		}
		if off == from.Off() {
			s.checkBytes(g, max(off, g.h.Length), end)
		}
		piece := min(end, off+maxWrite)
		if err := g.writeOver(off, piece); err != nil {
			return s.failSync(n, err)
		}
		off = max(off, piece)
		if all := off >= end; all || n == to.Number() && off >= to.Off() {
			if err := g.syncAgain(before, all); err != nil {
				return s.failSync(n, err)
			}
			s.log.Debug("wrote bytes again, of which it is not known whether a sync failed", "segment", n, "from", from.Off(), "to", off)
			return nil
		}
		unlock()
		unlock = func() {}
	}
}

// endOf is where the frames of a segment end. The caller has the write lock.
func (s *store) endOf(g *seg) (int64, error) {
	if at := s.page.Written(); at.Number() == g.number {
		return min(g.limit, at.Off()), nil
	}
	after, err := s.headerFrom(g.number + 1)
	if err == nil && after.Number == g.number+1 {
		return min(g.limit, after.PrevEnd), nil
	}
	return g.limit, err
}

// checkBytes reports what is damaged in a part of a segment: the kernel may have dropped pages that
// it could not write.
func (s *store) checkBytes(g *seg, from, to int64) {
	walk := segment.Walker{Data: g.data, Epoch: g.h.Epoch(), Off: from, Full: true}
	err := guard(func() {
		for {
			var f segment.Frame
			_, bad, err := walk.Next(to, &f)
			if err != nil {
				return
			}
			if bad != nil {
				s.reportDamage(g.number, bad)
			}
		}
	})
	if err != nil {
		s.reportDamage(g.number, &segment.Damage{From: from, To: to, Detail: err.Error()})
	}
}

// rewrite writes bytes of the segment over themselves and syncs it. No other process has the topic open.
func (g *seg) rewrite(start, end int64) error {
	before := g.failures()
	if err := g.writeOver(start, end); err != nil {
		return err
	}
	return g.syncAgain(before, true)
}

// failures is how many syncs failed so far.
func (g *seg) failures() int {
	g.syncing.Lock()
	defer g.syncing.Unlock()
	return g.errors
}

// syncAgain makes durable what was written again, unless a sync failed since there were before of those:
// that one may have taken the pages along. all: nothing is left that was written before the file was
// opened here, and that no sync covers.
func (g *seg) syncAgain(before int, all bool) error {
	g.syncing.Lock()
	defer g.syncing.Unlock()
	if g.errors != before {
		return g.failed
	}
	g.fdatasync()
	if g.failed == nil && all {
		g.hears = segment.At(g.number, 0)
	}
	return g.failed
}

// writeOver writes bytes over themselves. From the start on, the copy of the header is written as well.
func (g *seg) writeOver(start, end int64) error {
	if start == 0 {
		if err := g.writeOver(g.limit, g.limit+g.h.Length); err != nil {
			return err
		}
	}
	end = min(end, int64(len(g.data)))
	b := make([]byte, max(0, min(end-start, maxWrite))) // of hundreds of topics there is nothing but headers
	for off := start; off < end; {
		n := int64(0)
		if err := guard(func() { n = int64(copy(b, g.data[off:end])) }); err != nil {
			return err
		}
		if _, err := g.f.WriteAt(b[:n], off); err != nil {
			return err
		}
		off += n
	}
	return nil
}

// wipe fills a part of the segment with zeros.
func (g *seg) wipe(from, to int64) error {
	b := make([]byte, max(0, min(to-from, maxWrite)))
	for off := from; off < to; off += int64(len(b)) {
		if _, err := g.f.WriteAt(b[:min(int64(len(b)), to-off)], off); err != nil {
			return err
		}
	}
	return nil
}
