package filelog

import (
	"fmt"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/segment"
)

// What is not known to have been synced is written again and synced: the process that knew of a failed sync
// is gone.

// recover makes the control page say what the segments say. It runs while no process has the topic
// open, under the write lock. plan.go decides what is to be done. Each step here leaves the next recovery the same
// to decide after a crash: nothing that was found is overwritten but by itself, and no process believes the
// page before the end.
func (s *store) recover() error {
	ev, err := s.gather()
	if err != nil {
		return err
	}
	p, ok := decide(ev)
	if !ok {
		return s.hopeless(ev)
	}
	s.log.Debug("recovered: no process had the topic open", "end", p.cut.String(), "promised", p.synced.String(), "damaged", len(p.damage))
	for i := range p.damage {
		s.reportDamage(p.damage[i].number, &p.damage[i].Damage)
	}
	if err := s.removeDropped(ev.dropped); err != nil {
		return err
	}
	if err := s.removeSegments(p); err != nil {
		return err
	}
	if ev.oldest == 0 {
		if err := s.markOldest(p.low); err != nil {
			return explain("note which segment is the oldest", err)
		}
	}
	for n := ev.from; n <= p.cut.Number(); n++ {
		if f := ev.found[n]; f != nil && f.header != nil {
			if err := s.persist(n, p); err != nil {
				return explain(fmt.Sprintf("write and sync segment %d", n), err)
			}
		}
	}
	s.page.Adopt(p.low, p.cut, ev.trim)
	if p.fresh {
		if err := s.startFresh(ev, p); err != nil {
			return err
		}
	}
	return nil
}

func (s *store) hopeless(ev *evidence) error {
	if len(ev.numbers) == 0 {
		return fmt.Errorf("topic %q: no segment in %s, which begins with number %d: %w", s.name, s.fs.Path("."), max(1, ev.oldest), fault.Corrupt)
	}
	n := ev.numbers[0]
	why := "it holds no frame"
	if f := ev.found[n]; f != nil && f.why != "" {
		why = f.why
	}
	return fmt.Errorf("topic %q: %s and all behind it have lost their headers, and the copies of them (%s): %w", s.name, s.fs.Path(segmentName(n)), why, fault.Corrupt)
}

// removeSegments removes the segments behind the end, durably, before anything is written again.
func (s *store) removeSegments(p *plan) error {
	for i := len(p.remove) - 1; i >= 0; i-- {
		if err := s.fs.Remove(segmentName(p.remove[i])); err != nil {
			return explain("remove a segment behind the end", err)
		}
	}
	s.segs.forget(0, p.cut.Number())
	if err := s.fs.SyncDir("."); err != nil {
		return explain("sync "+s.fs.Path("."), err)
	}
	return nil
}

// persist makes what was found of a segment durable, with a header at its start. What is not known
// to have been synced is written again: if a sync failed, the kernel may hold bytes for clean that
// never reached the disk. Frames behind the cut are wiped.
func (s *store) persist(n uint64, p *plan) error {
	g, err := s.segs.get(n)
	if err != nil {
		return err
	}
	defer s.segs.put(g)
	if !g.names(g.data) {
		s.reportDamage(n, &segment.Damage{To: g.h.Length, Detail: "the header was restored from its copy"})
		if _, err := g.f.WriteAt(segment.AppendHeader(nil, g.h), 0); err != nil {
			return err
		}
	}
	if err := s.copyHeader(g, p); err != nil {
		return err
	}
	end := g.limit
	if n == p.cut.Number() {
		end = min(end, p.cut.Off())
		if err := g.wipe(p.cut.Off(), p.wipe); err != nil {
			return err
		}
	}
	start := end
	switch known := p.synced; {
	case known.Number() < n:
		start = 0
	case known.Number() == n:
		start = min(known.Off(), end)
	}
	return g.rewrite(start, end)
}

// copyHeader sees to it that the copy of a header is there. Of a segment that was not promised the
// power may have taken it; else it is damage.
func (s *store) copyHeader(g *seg, p *plan) error {
	if int64(len(g.data)) < g.h.Size {
		return nil // the file was cut, and frames may stand there
	}
	var h *segment.Header
	var err error
	if e := guard(func() { h, err = segment.ParseHeader(g.data[g.limit:]) }); e == nil && err == nil && h.CRC == g.h.CRC {
		return nil
	}
	if p.synced > segment.At(g.number, 0) {
		s.reportDamage(g.number, &segment.Damage{From: g.limit, To: g.limit + g.h.Length, Detail: "the copy of the header was restored"})
	}
	_, err = g.f.WriteAt(segment.AppendHeader(nil, g.h), g.limit)
	return err
}

// startFresh starts a new segment behind the end, with the bases of the plan: that is how all others
// learn what was decided.
func (s *store) startFresh(ev *evidence, p *plan) error {
	w := &s.w
	for n := p.cut.Number(); ; n-- {
		f := ev.found[n]
		if f == nil || f.header == nil {
			continue // decide saw to it that there is one
		}
		if err := w.load(n); err != nil {
			return err
		}
		end := f.end
		if n == p.cut.Number() {
			end = max(w.off, min(p.cut.Off(), f.end))
		}
		if _, err := w.walkTo(end); err != nil {
			return err
		}
		break
	}
	copy(w.next, p.next)
	if err := w.startBehind(p.cut, 0); err != nil {
		return err
	}
	if err := w.seg.f.SyncData(); err != nil {
		return explain("sync a new segment", err)
	}
	s.page.Sync(segment.At(w.seg.number, w.off))
	return nil
}
