package dispatch

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"time"
)

// Retry is the policy for failing records: when each is tried again, how long it is held in memory, and when it is
// given up. Nothing else decides it: the engine asks Next about the records that it holds, a shard of a subscription
// about its parked ones.
type Retry struct {
	Initial time.Duration // pause after the first failure; default 100 ms, or Max where that is less
	Max     time.Duration // pauses double up to it; default 30 s, or Initial where that is more
	// MaxAttempts is after how many attempts a record is given up. Zero: never.
	MaxAttempts int
	// HoldFor is how long a failing record is held, from its first failure on: when its next attempt lies beyond, it
	// is parked. Zero: for ever. Negative: not at all.
	HoldFor time.Duration
	// MaxAsked is the longest pause that an answer may ask for; default Longest.
	MaxAsked time.Duration
}

func (r Retry) withDefaults() Retry {
	r.Initial = cmp.Or(r.Initial, min(100*time.Millisecond, cmp.Or(r.Max, time.Hour)))
	r.Max = cmp.Or(r.Max, max(30*time.Second, r.Initial))
	return r
}

// Step follows a failed attempt.
type Step uint8

// The steps.
const (
	TryAgain Step = iota // after the pause, from where it is now
	Park                 // after the pause, which is longer than the record is held
	GiveUp
)

// Next is what follows a failed attempt.
type Next struct {
	Step  Step
	Pause time.Duration // until the next attempt
	Why   Why           // of Park and GiveUp
}

// Next decides what follows so many failed attempts, the first of which ended since ago. answer is the error of the
// last.
func (r *Retry) Next(attempts int, since time.Duration, answer error) Next {
	n := Next{Pause: r.pauseAfter(attempts, answer)}
	switch {
	case IsPermanent(answer):
		n.Step, n.Why = GiveUp, Refused
	case r.MaxAttempts > 0 && attempts >= r.MaxAttempts:
		n.Step, n.Why = GiveUp, SpentAttempts
	case !r.holds(since + n.Pause):
		n.Step, n.Why = Park, HeldLong
	}
	return n
}

// holds reports whether a record is held for an attempt that long after its first failure.
func (r *Retry) holds(after time.Duration) bool {
	return r.HoldFor == 0 || after <= r.HoldFor
}

// permanent, timed and uncounted are what an error of a handler may say. uncounted: the attempt was none, the record
// is as it was before, and has its turn again after all that may run, or after the pause that the error asks for.
type (
	permanent interface{ Permanent() bool }
	timed     interface{ RetryAfter() time.Duration }
	uncounted interface {
		Uncounted() (pause time.Duration, ok bool)
	}
)

// Uncounted reports whether an error says that the attempt was none, and after which pause the record has its turn
// again: it, or one that it wraps, has a method Uncounted() (time.Duration, bool) that returns true.
func Uncounted(err error) (pause time.Duration, ok bool) {
	var u uncounted
	if !errors.As(err, &u) {
		return 0, false
	}
	return u.Uncounted()
}

// IsPermanent reports whether an error says that its record can never succeed: it, or one that it
// wraps, has a method Permanent() bool that returns true.
func IsPermanent(err error) bool {
	var p permanent
	return errors.As(err, &p) && p.Permanent()
}

// longestAsked is the least that Longest is.
const longestAsked = 24 * time.Hour

// Longest bounds every pause: a longer one in a checkpoint or a journal is not from this policy.
func (r *Retry) Longest() time.Duration { return max(r.Max, r.MaxAsked, longestAsked) }

// pauseAfter is the time before the next attempt: what a method RetryAfter() time.Duration of the answer says,
// MaxAsked at most, or else one that grows.
func (r *Retry) pauseAfter(attempts int, answer error) time.Duration {
	if asked := AskedPause(answer); asked > 0 {
		return min(asked, cmp.Or(r.MaxAsked, r.Longest()))
	}
	return r.pause(attempts)
}

// AskedPause is the time before the next attempt that an error asks for; 0: none.
func AskedPause(err error) time.Duration {
	var t timed
	if errors.As(err, &t) {
		return max(0, t.RetryAfter())
	}
	return 0
}

// pause doubles from Initial to Max, and is shortened at random by up to a half.
func (r *Retry) pause(attempts int) time.Duration {
	d := r.Max
	if shift := attempts - 1; shift < 32 && r.Initial < r.Max>>shift {
		d = r.Initial << shift
	}
	return d - rand.N(d/2+1)
}
