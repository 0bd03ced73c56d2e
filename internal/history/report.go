package history

import (
	"fmt"
	"strings"
)

// Promise names what a violation broke.
type Promise string

// The promises that are checked.
const (
	OneOwner       Promise = "one owner per unit and epoch"
	EpochsIncrease Promise = "epochs increase"
	Fence          Promise = "a commit under an old epoch is refused"
	OnlyOwners     Promise = "only the owner delivers and commits"
	NeverBack      Promise = "a checkpoint never goes back except by a seek"
	NotPast        Promise = "a checkpoint never passes an unfinished record"
	NotSkipped     Promise = "no record is skipped"
	NotLost        Promise = "no acknowledged record is lost"
	KeyOrder       Promise = "records of a key are processed in order, one at a time"
	TokenRises     Promise = "a receiver that fences by the token of a key takes what its owner delivers"
	NotAgain       Promise = "what a checkpoint covers is not delivered again"
	CleanHandoff   Promise = "a clean handoff repeats nothing"
	OneValue       Promise = "a position means one value for ever"
	StoredOnce     Promise = "a record is stored once"
	OnlySent       Promise = "only what was sent is delivered"
	DeniedIsAbsent Promise = "what was certainly not stored never appears"
)

// Promises are all that are checked, those about records before those about owners.
func Promises() []Promise {
	return []Promise{
		NotLost, StoredOnce, KeyOrder, NotSkipped, NotPast, OneValue, OnlySent, DeniedIsAbsent,
		TokenRises, NotAgain, CleanHandoff, NeverBack, Fence, EpochsIncrease, OneOwner, OnlyOwners,
	}
}

// Violation is one broken promise.
type Violation struct {
	Promise Promise
	Detail  string
	Events  []Event // that show it, as far as they are still known
}

func (v Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", v.Promise, v.Detail)
	for _, e := range v.Events {
		fmt.Fprintf(&b, "\n    %s", e)
	}
	return b.String()
}

// keptViolations bounds how many violations a report shows, besides the first of each promise; all are counted.
const (
	keptViolations = 50
	keptOfEach     = 3
)

// Report is the judgement of a history.
type Report struct {
	Produced   int64 // acknowledged records
	Delivered  int64 // records that a handler finished
	Deliveries int64 // times that a handler was given a record
	Failed     int64 // of these, ended by an error or a cancellation
	Duplicated int64 // times that a handler finished a record again, seeks aside
	InFlight   int64 // records started and not covered by the checkpoint at takeovers: the bound of Duplicated
	Lost       int64 // acknowledged and never finished, in a complete history
	Lag        int64 // the same, in a history that is not complete
	Reordered  int64 // violations of the order of a key
	Sent       int64 // records that producers were about to append, where the history tells
	Doubled    int64 // records that were seen at a second position
	Stale      int64 // deliveries by an owner that had already been replaced, as after SIGSTOP

	Commits, Refused, Unknown int64
	Takeovers, Handoffs       int64
	Seeks, Rollbacks          int64

	Violated   int64 // how often a promise was broken
	Broken     map[Promise]int64
	Violations []Violation // the first of them
}

// Err is nil when every promise was kept.
func (r *Report) Err() error {
	if r.Violated == 0 {
		return nil
	}
	return fmt.Errorf("%d broken promises, the first: %s", r.Violated, r.Violations[0])
}

// String is the report for people: the counts, and the violations that are kept.
func (r *Report) String() string {
	type counts Report // without this method
	c := counts(*r)
	c.Violations = nil
	var b strings.Builder
	fmt.Fprintf(&b, "%+v\n", c)
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "  %s\n", v)
	}
	if hidden := r.Violated - int64(len(r.Violations)); hidden > 0 {
		fmt.Fprintf(&b, "  and %d more\n", hidden)
	}
	return b.String()
}

func (r *Report) violate(p Promise, events []Event, format string, args ...any) {
	r.Violated++
	if r.Broken == nil {
		r.Broken = make(map[Promise]int64)
	}
	r.Broken[p]++
	if p == KeyOrder {
		r.Reordered++
	}
	if len(r.Violations) < keptViolations || r.Broken[p] <= keptOfEach {
		r.Violations = append(r.Violations, Violation{p, fmt.Sprintf(format, args...), events})
	}
}
