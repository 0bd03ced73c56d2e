package filelog

import "math"

// A file that was removed keeps its blocks as long as a process has it open or mapped. So each process looks by
// itself for dropped segments, every lookEvery at the latest: the space comes back although it neither reads nor
// appends.

// letGo closes what this process has of segments that were dropped; of a topic that was deleted, all.
// What a call under way still uses is closed by the end of that call.
func (s *store) letGo() error {
	low := s.page.Low()
	if s.gone() {
		low = math.MaxUint64
	}
	s.view.letGo(low)
	if s.in.begin() { // the holder of the turn is in the newest segment
		if s.w.seg != nil && s.w.seg.number < low {
			s.w.forget()
		}
		s.endTurn()
	}
	s.segs.forget(low, math.MaxUint64)
	return nil
}
