package filelog

import "github.com/ringfence/ringfence/internal/segment"

// firstOf finds the first offset of an append whose producer went on since, by more than is
// remembered: the newest segments first. It is -1 when it was trimmed.
func (s *store) firstOf(f *segment.Frame) int64 {
	for n := s.page.written().Number(); n >= max(1, s.page.low()); n-- {
		g, err := s.segs.get(n)
		if err != nil {
			continue // dropped, or damaged: then it is not known
		}
		base, ok := int64(0), false
		err = guard(func() { base, ok = findSequence(g, s.endOf(g), f) })
		s.segs.put(g)
		if err == nil && ok {
			return base
		}
	}
	return -1
}

// endOf is where the frames of a segment end now.
func (s *store) endOf(g *seg) int64 {
	if at := s.page.written(); at.Number() == g.number {
		return at.Off()
	}
	if h, err := s.headerOf(g.number + 1); err == nil {
		return min(h.PrevEnd, g.limit)
	}
	return g.limit
}

func findSequence(g *seg, end int64, want *segment.Frame) (int64, bool) {
	w := segment.Walker{Data: g.data, Epoch: g.h.Epoch(), Off: g.h.Length}
	for {
		var f segment.Frame
		_, bad, err := w.Next(end, &f)
		switch {
		case err != nil:
			return 0, false
		case bad != nil:
		case f.ProducerID == want.ProducerID && f.Partition == want.Partition && f.Sequence == want.Sequence:
			return f.Base, true
		}
	}
}
