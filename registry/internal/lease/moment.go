package lease

import "time"

// grain is what a suspension lasts at least; a reading of slept is not off by as much.
const grain = 10 * time.Millisecond

// Moment is a moment on Go's clock, which stands still while the host is suspended, with what
// tells how long it did. The clocks of the stores go on.
type Moment struct {
	time.Time
	slept time.Duration
}

// Now is the present moment. A suspension within the call counts as one after it.
func Now() Moment {
	s := slept()
	return Moment{time.Now(), s}
}

// end is when ttl from m is over, on Go's clock: sooner by what the host was suspended for since.
func (m Moment) end(ttl time.Duration) time.Time {
	if d := slept() - m.slept; d >= grain {
		ttl -= d
	}
	return m.Add(ttl)
}
