package shard

import "time"

// A parked record is due at a time of day, as another host may deliver it. But a clock may be set. On the host
// where a pause began, that makes no difference to it: otherwise a record that failed while the clock was a day
// ahead would wait for a day once it is right. An heir knows nothing of that, and waits no longer than the pause
// anyway (core.State).

// clock tells the time of day and notices when it was set back. Its owner guards it.
type clock struct {
	day func() time.Time // nil: time.Now

	looked time.Time // by the monotonic clock
	was    time.Time // the time of day then
}

// slewed is how far a clock may go back unnoticed: it is corrected a little all the time.
const slewed = 250 * time.Millisecond

// look returns the time of day, and how far it was set back since the last look.
func (c *clock) look() (now time.Time, back time.Duration) {
	here := time.Now()
	if now = here; c.day != nil {
		now = c.day()
	}
	if !c.looked.IsZero() {
		back = here.Sub(c.looked) - now.Round(0).Sub(c.was.Round(0))
	}
	if 0 <= back && back < slewed && !c.looked.IsZero() {
		return now, 0 // it may add up
	}
	c.looked, c.was = here, now
	return now, max(0, back)
}

// now returns the time of day, by which parked records are due.
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
