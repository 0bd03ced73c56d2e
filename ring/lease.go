package ring

import (
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

// lease decides whether a session certainly lives, at the cost of one look at the clocks.
type lease struct {
	session registry.Session
	doubter driver.Doubter  // the session, where a doubt is a no; or nil
	done    <-chan struct{} // of the session
	began   time.Time
	known   atomic.Pointer[bound]
	limit   time.Duration // after began, when it ends in any case; 0: never
}

// bound is the known deadline of a session. It is never too late unless the host was suspended
// since: Go's clock stands still then, and the deadline comes sooner. The time of day goes on, so a
// suspension moves the two clocks apart. Then the deadline has to be asked for again; the time of
// day may merely have been set.
type bound struct {
	until time.Duration // after began
	apart time.Duration // how far the clocks were
}

// together is how far the clocks may move apart by the way they are read.
const together = time.Millisecond

func newLease(s registry.Session) *lease {
	l := &lease{session: s, done: s.Done(), began: time.Now()}
	l.ask(0)
	return l
}

// ask asks for the deadline, after the clocks were seen to be that far apart.
func (l *lease) ask(apart time.Duration) (until time.Duration) {
	until = l.session.Deadline().Sub(l.began)
	if k := l.known.Load(); k == nil || k.until != until || !k.near(apart) {
		l.known.Store(&bound{until: until, apart: apart})
	}
	return until
}

func (b *bound) near(apart time.Duration) bool { return (apart - b.apart).Abs() < together }

// exclusive is a lease that does not hold either while others may take this process for dead.
func (l *lease) exclusive() *lease {
	l.doubter, _ = l.session.(driver.Doubter)
	return l
}

// ending is the lease until at most d from now.
func (l *lease) ending(d time.Duration) *lease {
	e := newLease(l.session)
	e.limit = d
	return e
}

// holds reports whether the session lives now. The deadline is asked for only once a renewal, and
// after a suspension of the host: an earlier answer can only be too early.
func (l *lease) holds() bool {
	select {
	case <-l.done:
		return false
	default:
	}
	if l.doubter != nil && l.doubter.Doubtful() {
		return false
	}
	t := time.Now()
	now := t.Sub(l.began)
	if l.limit != 0 && now >= l.limit {
		return false
	}
	apart := time.Duration(t.UnixNano()-l.began.UnixNano()) - now
	if k := l.known.Load(); now < k.until && k.near(apart) {
		return true
	}
	return now < l.ask(apart)
}
