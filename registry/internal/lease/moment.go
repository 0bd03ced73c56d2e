package lease

import "time"

// grain is the shortest suspension that counts; a reading of slept is off by less.
const grain = 10 * time.Millisecond

// Asked is a request from which a store counts a TTL. The store begins when it gets the request, which may be as
// early as when it was sent, so this process counts from there: counting from the answer would trust a session
// that is over. Only Ask makes one.
type Asked struct {
	at   moment // when it was sent
	link int64  // the age of the link then
}

// Ask sends a request that opens or renews a session. link is Config.Link.
func Ask(link *Link, send func() error) (Asked, error) {
	a := Asked{at: now(), link: link.Age()}
	return a, send()
}

// moment is a moment on Go's clock, which stands still while the host is suspended, with what
// tells how long it did. The clocks of the stores go on.
type moment struct {
	time.Time
	slept time.Duration
}

// now is the present moment. A suspension within the call counts as one after it.
func now() moment {
	s := slept()
	return moment{time.Now(), s}
}

// end is when ttl from m is over, on Go's clock: sooner by what the host was suspended for since.
func (m moment) end(ttl time.Duration) time.Time {
	if d := slept() - m.slept; d >= grain {
		ttl -= d
	}
	return m.Add(ttl)
}
