// Package verify lets a crew of real processes work on a topic, hurts them, and has one judge say from
// the histories that all of them wrote which promises were kept. It is what "ringfence verify" and
// "ringfence demo" do: the first follows a schedule that follows from a seed, the second a script that
// it tells on a screen. The crew delivers a group or, with --subscriptions and --deliver, a subscription.
//
// crew.go starts, awaits and judges the processes; agent.go is the body of one, in producer.go,
// deliver.go and endpoint.go. tally.go reads what they write while they write it. Run (run.go,
// schedule.go, fault.go, change.go) follows the schedule, Demo (demo.go, demodeliver.go, screen.go)
// tells the story. A run that ends early is judged by what there is.
package verify

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
)

// The kinds of faults.
const (
	Kill = "kill" // kill -9 of a consumer or producer, which is started again
	Stop = "stop" // SIGSTOP for longer than a session lives, then SIGCONT
	Term = "term" // SIGTERM: a clean leave, and a new start
	Grow = "grow" // another storage topic, and the switch to it
	// Retire removes storage topics that are finished. The topic keeps its records for a second then.
	Retire = "retire"
	// Reshard changes the number of shards of a subscription.
	Reshard = "reshard"
)

// Faults are all kinds of a run with a consumer group.
func Faults() []string { return []string{Kill, Stop, Term, Grow, Retire} }

// SubscriptionFaults are all kinds of a run with a subscription: what that has delivered is retired an hour later.
func SubscriptionFaults() []string { return []string{Kill, Stop, Term, Grow, Reshard} }

// Kinds are the faults that such a run can have.
func (c *Config) Kinds() []string {
	if c.Subscriptions {
		return SubscriptionFaults()
	}
	return Faults()
}

// Config is the settings of a run.
type Config struct {
	For    time.Duration // of load and faults
	Faults []string
	Seed   uint64 // of the schedule of the faults
	// Subscriptions: the consumers deliver a subscription, whose handler fails now and then.
	Subscriptions bool

	Partitions, Consumers, Producers int

	Keys int           // of all producers together
	Rate int           // records a second, of all producers together
	Size int           // bytes of a value, at least
	TTL  time.Duration // of the consumers' sessions

	Site
	// Progress is called about four times a second; nil: it is not told.
	Progress func(Progress)
}

// Progress is how far a run got.
type Progress struct {
	Phase                string
	Elapsed, Of          time.Duration
	Sent, Acked, Handled int64
	Faults, Planned      int
	Worst                time.Duration // takeover so far
}

// bounds of what can be asked for.
const (
	minFor, maxFor = time.Second, 24 * time.Hour
	minTTL, maxTTL = time.Second, time.Minute
	minSize        = 48 // a value begins with its number and its key
)

// Validate reports every fault of what was asked for.
func (c *Config) Validate() error {
	errs := []error{
		within("for", c.For, minFor, maxFor),
		within("partitions", c.Partitions, 1, 256),
		within("consumers", c.Consumers, 1, 32),
		within("producers", c.Producers, 1, 16),
		within("keys", c.Keys, c.Producers, 100_000),
		within("rate", c.Rate, 1, 100_000),
		within("size", c.Size, minSize, 1<<20),
		within("session-ttl", c.TTL, minTTL, maxTTL),
	}
	which := "" // kind of run has these faults
	if c.Subscriptions {
		which = " of a run with --subscriptions"
	}
	for _, f := range c.Faults {
		if !slices.Contains(c.Kinds(), f) {
			errs = append(errs, fmt.Errorf("--faults: %s is none%s; expected some of %s, with commas between them, or none: %w", storeurl.Quote(f), which, strings.Join(c.Kinds(), ", "), fault.Invalid))
		}
	}
	if most := maxArrivals / max(c.Rate, 1); c.Subscriptions && c.For > time.Duration(most)*time.Second {
		errs = append(errs, fmt.Errorf("--for %v --rate %d: with --subscriptions expected at most %d records, whose judge has all of them in memory: %v at that rate: %w", c.For, c.Rate, maxArrivals, time.Duration(most)*time.Second, fault.Invalid))
	}
	return errors.Join(errs...)
}

// within reports a setting that is out of its bounds.
func within[T cmp.Ordered](name string, found, least, most T) error {
	if found < least || found > most {
		return fmt.Errorf("--%s %v: expected %v to %v: %w", name, found, least, most, fault.Invalid)
	}
	return nil
}

func (c *Config) has(f string) bool { return slices.Contains(c.Faults, f) }
