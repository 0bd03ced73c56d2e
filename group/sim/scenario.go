package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/ringfence/ringfence/assign"
)

// Fault is a kind of trouble, or of change, in a history.
type Fault uint8

// The kinds. A history has those that its seed chose.
const (
	Loss       Fault = iota // requests and replies vanish
	Delay                   // they take seconds: also longer than the member waits
	Duplicate               // replies come twice
	LostReply               // a write is applied, and its outcome unknown
	Torn                    // of a batch of writes, the outcome of some is unknown
	Crash                   // kill -9, noticed at once or by the TTL
	Restart                 // of a killed member, under the same id
	Twin                    // a second process with the id of one that runs
	Freeze                  // SIGSTOP, also past the lease
	Skew                    // clocks that drift apart, and calendars that jump
	Outage                  // the store doesn't answer
	Partition               // one member can't reach the store
	Deaf                    // hints of changes are lost until the watch reconnects
	Rollback                // the store fails over to a replica that lags
	Membership              // members come and go in order
	Seeks                   // an operator moves checkpoints
	Control                 // an operator pauses and resumes
	Hang                    // handlers that don't return, some not even when cancelled
	Errors                  // handlers and workers that fail
	Static                  // members whose units wait for their restart
	Eviction                // the store ends sessions of the living
	Growth                  // units come that wait for earlier ones, which end
	Deletion                // an operator deletes the group, also while members come
	Suspend                 // the host sleeps: its clock stands still, the store's goes on
	LateJoin                // the answers to joins are lost or late, and sessions end meanwhile
	Slow                    // readings that take long, while records keep coming
	Shared                  // the session goes on when the member leaves, for others in its process
	faultKinds
)

func (f Fault) String() string {
	names := [faultKinds]string{
		"loss", "delay", "duplicate", "lost-reply", "torn", "crash", "restart", "twin", "freeze", "skew", "outage",
		"partition", "deaf", "rollback", "membership", "seeks", "control", "hang", "errors", "static", "eviction", "growth",
		"deletion", "suspend", "late-join", "slow", "shared",
	}
	return names[f]
}

// scenario is what a seed chose.
type scenario struct {
	units, members, records, keys int
	more                          []int // units of later storage topics
	inputs                        int   // partitions that a unit reads, at most; 0: one

	ttl, drain, grace, commit, sweep, watchdog, window time.Duration

	horizon  time.Duration // until here there are faults
	assignor assign.Assignor
	weighted bool
	zones    []string // by unit
	has      [faultKinds]bool
}

// together are kinds that do their worst in company, which is rare by chance.
var together = [][]Fault{
	{Rollback, Delay},
	{Rollback, Delay, Crash, Restart},
	{Skew, Partition},
	{Skew, Partition, Hang},
	{Static, Deaf},
	{Static, Deaf, Delay, Restart},
	{Control, Membership, Crash},
	{LateJoin, Eviction, Membership},
	{LateJoin, Delay, Restart},
	{Deletion, Delay},
	{Deletion, Rollback},
	{Deletion, Rollback, Delay, LateJoin},
	{LateJoin, Rollback, Delay},
	{Deletion, Delay, LateJoin, Eviction},
	{Membership, Restart, Deaf, Delay}, // targets that are gone
	{Hang, Eviction, Membership},
	{Suspend, Membership},
	{Shared, Membership},
	{Shared, Membership, Rollback, Delay},
	{Shared, Membership, LateJoin, Delay},
	{Shared, Membership, LostReply, Torn},
}

func choose(r *rand.Rand) scenario {
	s := scenario{
		units: 1 + r.IntN(5), members: 1 + r.IntN(3), records: 4 + r.IntN(14), keys: 1 + r.IntN(4),
		ttl: pick(r, time.Second, 3*time.Second), drain: pick(r, 200*time.Millisecond, 3*time.Second),
		grace: 300 * time.Millisecond, commit: pick(r, 20*time.Millisecond, 200*time.Millisecond),
		watchdog: pick(r, time.Second, 4*time.Second), window: pick(r, time.Second, 6*time.Second),
		horizon: time.Duration(4+r.IntN(12)) * time.Second, assignor: assign.Sticky{},
	}
	if r.IntN(4) == 0 {
		s.sweep = pick(r, time.Second, 5*time.Second)
	}
	switch r.IntN(8) {
	case 0:
		s.assignor = assign.FairShare{}
	case 1:
		s.assignor = assign.RoundRobin{}
	}
	if s.weighted = r.IntN(6) == 0; s.weighted {
		for range s.units {
			s.zones = append(s.zones, string(rune('x'+r.IntN(3))))
		}
	}
	// Few kinds at a time: a history with all of them explores little of each. Some have only
	// members that come and go, and then nothing at all may be repeated.
	many := r.IntN(5)
	s.has[Membership] = many == 0 || r.IntN(3) == 0
	for range many {
		s.has[r.IntN(int(faultKinds))] = true
	}
	if r.IntN(3) == 0 {
		for _, f := range together[r.IntN(len(together))] {
			s.has[f] = true
		}
	}
	if s.has[Growth] = s.has[Growth] || r.IntN(3) == 0; s.has[Growth] {
		s.has[Seeks] = s.has[Seeks] || r.IntN(4) == 0
		for range 1 + r.IntN(2) {
			more := 1 + r.IntN(5)
			if r.IntN(2) == 0 {
				more = s.units * (1 + r.IntN(2))
			}
			s.more = append(s.more, more)
		}
	}
	if s.has[Slow] {
		s.records *= 5
	}
	if s.has[Suspend] {
		// Clocks that drift are within the margin of a lease, and so is the time that a member takes to
		// notice a suspension: a commit interval. Both in one lease can be more than the margin, and the
		// member can't find out how fast its clock is.
		s.has[Skew] = false
	}
	return s
}

func (s *scenario) kinds() (kinds []Fault) {
	for f := range faultKinds {
		if s.has[f] {
			kinds = append(kinds, f)
		}
	}
	return kinds
}

func (s scenario) String() string {
	names := []string{}
	for _, f := range s.kinds() {
		names = append(names, f.String())
	}
	return fmt.Sprintf("%d units %v of %d inputs, %d members, %d records each, %s, ttl %s, drain %s: %s",
		s.units, s.more, max(1, s.inputs), s.members, s.records, s.assignor.Name(), s.ttl, s.drain, strings.Join(names, " "))
}

func pick(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)+1))
}
