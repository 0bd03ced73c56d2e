package filelog

import (
	"errors"
	"fmt"
	"os"

	"github.com/ringfence/ringfence/internal/segment"
)

// After an fdatasync that failed the kernel may hold pages for clean that never reached the disk,
// and a further one is no proof of anything. So a segment that had an error is never synced again
// as it is. When somebody was promised what it holds without a sync, at level os, those bytes are
// written once more: that makes them dirty again, and an fdatasync behind it covers them. The same
// is done for what a process synced that was killed over it: see page.Lead.

// sync makes all of the segment durable. Of two fdatasyncs at the same time through one descriptor
// the kernel tells only one of an error, so they go one after the other, and who comes later hears
// of an earlier one's error.
func (g *seg) sync() error {
	g.syncing.Lock()
	defer g.syncing.Unlock()
	if g.failed == nil {
		g.failed = g.f.SyncData()
	}
	return g.failed
}

// rewrite makes durable what segment n holds between two positions. It has the write lock meanwhile,
// so that the file can't become another segment.
func (s *store) rewrite(n uint64, from, to segment.Pos, locked bool) error {
	if !locked {
		lock, err := s.fs.OpenFile("write.lock", os.O_RDWR, 0)
		if err != nil {
			return explain(fmt.Sprintf("topic %q: open the write lock", s.name), err)
		}
		defer lock.Close()
		if err := s.lockWrite(lock); err != nil {
			return explain(fmt.Sprintf("topic %q: take the write lock", s.name), err)
		}
	}
	if s.page.Synced().Number() > n {
		return nil // somebody else did it
	}
	g, err := s.segs.get(n)
	if err != nil {
		return explain(fmt.Sprintf("topic %q: write segment %d again", s.name, n), err)
	}
	defer s.segs.put(g)
	start, end := from.Off(), g.limit
	if n == to.Number() {
		end = to.Off()
	} else if after, err := s.headerFrom(n + 1); err != nil {
		return explain(fmt.Sprintf("topic %q: write segment %d again", s.name, n), err)
	} else if after.Number == n+1 {
		end = min(end, after.PrevEnd)
	}
	s.checkBytes(g, max(start, g.h.Length), end)
	if err := g.rewrite(start, end); err != nil {
		return s.failSync(n, err)
	}
	s.log.Info("wrote bytes again, of which it is not known whether a sync failed", "segment", n, "from", start, "to", end)
	return nil
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

// rewrite writes bytes of the segment over themselves and syncs it. From the start on, the copy of
// the header is written as well.
func (g *seg) rewrite(start, end int64) error {
	g.syncing.Lock()
	defer g.syncing.Unlock()
	err := g.writeOver(start, end)
	if start == 0 {
		err = errors.Join(err, g.writeOver(g.limit, g.limit+g.h.Length))
	}
	if err == nil {
		err = g.f.SyncData()
	}
	g.failed = err
	return err
}

func (g *seg) writeOver(start, end int64) error {
	end = min(end, int64(len(g.data)))
	b := make([]byte, maxWrite)
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
