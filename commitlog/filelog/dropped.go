package filelog

import "math"

// A file that was removed keeps its blocks as long as anybody has it open or mapped. Whoever dropped a
// segment can't tell other processes: each looks by itself, every lookEvery at the latest, so that the
// space comes back although it neither reads nor appends.

// letGo closes what this process has of segments that were dropped; of a topic that was deleted, all.
// What a call under way still uses is closed by the end of that call.
func (s *store) letGo() error {
	low := s.page.Low()
	if s.gone() {
		low = math.MaxUint64
	}
	s.view.letGo(low)
	if s.in.begin() { // whoever has the turn is in the newest segment
		if s.w.seg != nil && s.w.seg.number < low {
			s.w.forget()
		}
		s.endTurn()
	}
	s.segs.forget(low, math.MaxUint64)
	return nil
}
