package ringfence

import (
	"time"

	"github.com/ringfence/ringfence/subscription/shard"
)

// Permanent is an error of a handler that says that the record can never succeed: it becomes a dead
// letter at once. Consume treats it as any other error.
func Permanent(err error) error { return shard.Permanent(err) }

// RetryAfter is an error of a handler that says when the record is to be tried again: in a day at most, or
// after the longest pause that there is without it, if that is longer.
func RetryAfter(err error, d time.Duration) error { return shard.RetryAfter(err, d) }

// Outage is an error of a handler that says that what it delivers to does not work, whatever the record:
// no connection, no answer in time, "I am overloaded". When the first attempts at the records of several
// keys end so one after another, nothing more is delivered, no attempt is counted and nothing is parked;
// single records are tried, until one gets another answer. So an outage costs no record its attempts.
// Consume treats it as any other error.
func Outage(err error) error { return shard.Outage(err) }
