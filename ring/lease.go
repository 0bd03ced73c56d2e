package ring

import (
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

// lease says whether a session certainly lives, at the cost of one look at the clock.
type lease struct {
	session registry.Session
	doubter driver.Doubter  // the session, where a doubt is a no; or nil
	done    <-chan struct{} // of the session
	began   time.Time
	until   atomic.Int64 // ns after began; never later than the session's deadline
	limit   int64        // ns after began, when it ends in any case; 0: never
}

func newLease(s registry.Session) *lease {
	l := &lease{session: s, done: s.Done(), began: time.Now()}
	l.until.Store(int64(s.Deadline().Sub(l.began)))
	return l
}

// exclusive is the lease that does not hold either while others may take this process for dead.
func (l *lease) exclusive() *lease {
	l.doubter, _ = l.session.(driver.Doubter)
	return l
}

// ending is the lease until at most d from now.
func (l *lease) ending(d time.Duration) *lease {
	e := newLease(l.session)
	e.limit = int64(d)
	return e
}

// holds says whether the session lives now. The deadline is asked for once a renewal only: what
// was seen of it before can but be too early.
func (l *lease) holds() bool {
	select {
	case <-l.done:
		return false
	default:
	}
	if l.doubter != nil && l.doubter.Doubtful() {
		return false
	}
	now := int64(time.Since(l.began))
	if l.limit != 0 && now >= l.limit {
		return false
	}
	if now < l.until.Load() {
		return true
	}
	l.until.Store(int64(l.session.Deadline().Sub(l.began)))
	return now < l.until.Load()
}
