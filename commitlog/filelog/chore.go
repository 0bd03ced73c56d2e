package filelog

import (
	"errors"
	"io/fs"
	"log/slog"
	"syscall"
	"time"
)

const (
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// chore is a duty of the maintenance. Appends ask for it thousands of times a second, and it may fail
// for hours, on a full disk for example: then it is tried at longer and longer intervals, and only
// the first failure, another one, and the end of them are logged.
type chore struct {
	name string
	do   func() error

	pause  time.Duration // 0: nothing is wrong
	due    time.Time     // when it may be tried again
	failed time.Time     // the last time
	cause  syscall.Errno // what was logged, as far as it tells one failure from another
}

// try does the chore unless it failed a moment ago. It returns how long to wait before it is
// tried again unasked; 0: not until it is asked for.
func (c *chore) try(log *slog.Logger) time.Duration {
	now := time.Now()
	if now.Before(c.due) {
		return c.due.Sub(now)
	}
	err := c.do()
	if err == nil {
		return c.recovered(log, now)
	}
	cause := causeOf(err)
	if c.pause == 0 || cause != c.cause {
		log.Warn("work in the background failed; it is tried again until it works", "work", c.name, "error", err)
	}
	c.pause, c.cause = min(max(2*c.pause, firstPause), longestPause), cause
	c.failed = time.Now()
	c.due = c.failed.Add(c.pause)
	return c.pause
}

// recovered is what a chore says that went well. On a disk that is almost full some tries do, so
// it takes a while to call it healed.
func (c *chore) recovered(log *slog.Logger, now time.Time) time.Duration {
	if c.pause == 0 {
		return 0
	}
	if rest := longestPause - now.Sub(c.failed); rest > 0 {
		return rest
	}
	log.Info("work in the background works again", "work", c.name)
	c.pause, c.cause = 0, 0
	return 0
}

// causeOf is what distinguishes one failure from another: messages name segments, which move on.
func causeOf(err error) (no syscall.Errno) {
	errors.As(err, &no)
	return no
}

// chores are the duties of the maintenance, in the order in which they are looked at.
func (s *store) chores() []*chore {
	return []*chore{
		{name: "looking whether the topic's directory is in its place", do: s.lookAtPlace},
		{name: "filling a segment with zeros", do: s.unlessOver(s.zeroMore)},
		{name: "preparing a segment", do: s.unlessOver(s.prepareNext)},
		{name: "indexing a segment", do: s.unlessOver(s.indexNewest)},
		{name: "closing an old segment", do: s.unlessOver(s.closeOld)},
		{name: "retention", do: s.unlessOver(s.retain)},
		{name: "letting go of dropped segments", do: s.letGo},
	}
}

// unlessOver passes over what fails because the topic is deleted or closed, or a segment removed.
func (s *store) unlessOver(do func() error) func() error {
	return func() error {
		if s.gone() {
			return nil
		}
		err := do()
		if err != nil && (errors.Is(err, fs.ErrNotExist) || s.gone() || s.watch.stopped()) {
			return nil
		}
		return err
	}
}
