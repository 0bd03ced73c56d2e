package ring

import (
	"time"

	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/registry"
)

// lease is that of a session. It is over with the session, or at its end if that comes sooner.
type lease struct {
	*group.Lease
	done <-chan struct{} // of the session
	end  time.Time       // zero: there is none
}

func newLease(s registry.Session, doubts bool) *lease {
	return &lease{Lease: group.NewLease(s, doubts), done: s.Done()}
}

// ending is the lease until at most d from now.
func (l *lease) ending(d time.Duration) *lease {
	return &lease{Lease: l.Lease, done: l.done, end: time.Now().Add(d)}
}

func (l *lease) holds() bool {
	return !isClosed(l.done) && (l.end.IsZero() || time.Now().Before(l.end)) && l.Holds()
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
