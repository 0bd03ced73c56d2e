package sqlstore

import (
	"context"
	"errors"
	"io"
	"time"
)

// Signals are how processes on one database wake each other, and notice a death before the TTL of its sessions.
// All of it may fail: then these take longer.
type Signals interface {
	// Announce makes the death of this process noticeable under its handle. The store calls it before the
	// first session.
	Announce(ctx context.Context) (Presence, error)
	// Await returns nil once the process with that handle has died, ErrNoPresence if this can't be told
	// now, and another error when ctx ends.
	Await(ctx context.Context, handle string) error
	// Gone reports whether the process is certainly dead, without waiting.
	Gone(ctx context.Context, handle string) (bool, error)
	// Ring wakes the listeners of the other processes.
	Ring(ctx context.Context) error
	// Listen returns when the revision may be beyond last, or after some time.
	Listen(ctx context.Context, last int64) error
	// Close releases everything.
	Close() error
}

// Presence shows other processes that this one lives.
type Presence interface {
	io.Closer
	// Keep restores it if it was lost, such as with its connection, and calls lost before that.
	Keep(ctx context.Context, lost func()) error
}

// ErrNoPresence means that a process can't be watched: it is not announced, or the server has just started.
var ErrNoPresence = errors.New("no presence")

// Poll is Signals for a database without any. It reads the revision often after a change, and less often the
// longer none comes. Deaths are noticed by the TTL.
type Poll struct {
	Min, Max time.Duration // between two looks; Max also while nothing changes

	last int64
	next time.Duration
}

// Announce implements Signals.
func (*Poll) Announce(context.Context) (Presence, error) { return absent{}, nil }

// Await implements Signals.
func (*Poll) Await(context.Context, string) error { return ErrNoPresence }

// Gone implements Signals.
func (*Poll) Gone(context.Context, string) (bool, error) { return false, nil }

// Ring implements Signals.
func (*Poll) Ring(context.Context) error { return nil }

// Listen implements Signals. It is called by one goroutine.
func (p *Poll) Listen(ctx context.Context, last int64) error {
	if last != p.last || p.next == 0 {
		p.last, p.next = last, p.Min
	}
	d := p.next
	p.next = min(p.next+p.next/4+1, p.Max)
	return pause(ctx, d)
}

// Close implements Signals.
func (*Poll) Close() error { return nil }

type absent struct{}

func (absent) Keep(context.Context, func()) error { return nil }
func (absent) Close() error                       { return nil }
