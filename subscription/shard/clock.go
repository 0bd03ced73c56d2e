package shard

import "time"

// What is parked is due at a time of day, as another host may deliver it. But a clock is set: to a pause that was
// begun before, that makes no difference on the host where it was begun, or a record that failed while the clock
// was a day ahead would wait for a day once it is right. An heir, who knows nothing of that, waits no longer than
// the pause anyway (core.State).

// clock tells the time of day and notices when it was set back. Its owner guards it.
type clock struct {
	day func() time.Time // nil: time.Now

	looked time.Time // by the clock that nobody sets
	was    time.Time // the time of day then
}

// slewed is by how much a clock may be set back unnoticed for now: it is corrected a little all the time.
const slewed = 250 * time.Millisecond

// look returns the time of day, and by how much it was set back since the last look.
func (c *clock) look() (now time.Time, back time.Duration) {
	here := time.Now()
	if now = here; c.day != nil {
		now = c.day()
	}
	if !c.looked.IsZero() {
		back = here.Sub(c.looked) - now.Round(0).Sub(c.was.Round(0))
	}
	if 0 <= back && back < slewed && !c.looked.IsZero() {
		return now, 0 // it may come to more
	}
	c.looked, c.was = here, now
	return now, max(0, back)
}

// now is the time of day, by which what is parked is due.
func (s *Shard) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nowLocked()
}

func (s *Shard) nowLocked() time.Time {
	now, back := s.clock.look()
	if back > 0 {
		s.log.Warn("the time of day was set back: what is parked waits no longer for that", "by", back.Round(time.Millisecond))
		s.st.SetBack(back.Milliseconds())
	}
	return now
}
