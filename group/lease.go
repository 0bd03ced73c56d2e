package group

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/registry"
)

// Lease decides whether a session certainly lives, at the cost of one look at the clocks: the deadline itself takes
// system calls.
type Lease struct {
	session registry.Session
	doubter interface{ Doubtful() bool } // the session, where a doubt is a no; or nil
	began   time.Time
	wall    int64 // began, in Unix nanoseconds
	known   atomic.Pointer[bound]
}

// bound is the known deadline. It is never too late unless the host was suspended since. Go's clock
// stands still then, and the time of day goes on: if they moved apart, the deadline has to be asked
// for again.
type bound struct{ until, apart time.Duration }

const (
	together  = time.Millisecond      // how far the clocks may move apart by the way they are read
	uncertain = 10 * time.Millisecond // between two looks at a session in doubt
)

// NewLease returns the lease of a session. With doubts it does not hold while others may take this process for dead, on
// a store for which a lost connection is a death.
func NewLease(s registry.Session, doubts bool) *Lease {
	began := time.Now()
	l := &Lease{session: s, began: began, wall: began.UnixNano()}
	if doubts {
		l.doubter, _ = s.(interface{ Doubtful() bool })
	}
	l.known.Store(&bound{until: s.Deadline().Sub(l.began)})
	return l
}

// Holds reports whether the session lives now. It asks for the deadline only once a renewal, and after a suspension of
// the host: an earlier answer can only be too early.
func (l *Lease) Holds() bool {
	if l.doubter != nil && l.doubter.Doubtful() {
		return false
	}
	t := time.Now()
	now := t.Sub(l.began)
	apart := time.Duration(t.UnixNano()-l.wall) - now
	k := l.known.Load()
	near := (apart - k.apart).Abs() < together
	if near && now < k.until {
		return true
	}
	until := l.session.Deadline().Sub(l.began)
	if !near || until != k.until {
		l.known.Store(&bound{until: until, apart: apart})
	}
	return now < until
}

// Await returns nil at once while the member's session certainly lives, so that no other member can
// own the unit. A worker calls it before each handler that it starts: after a suspension of the host,
// or a lost connection that the store takes for a death, others may have the unit before this member
// learns it. It waits until the doubt is over, or ctx, which is cancelled when the session is lost.
func (u *Unit) Await(ctx context.Context) error {
	for u.lease != nil && !u.lease.Holds() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(uncertain):
		}
	}
	return nil
}
