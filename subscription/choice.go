package subscription

import (
	"bytes"
	"slices"
	"time"

	"github.com/ringfence/ringfence/subscription/core"
	"github.com/ringfence/ringfence/subscription/filter"
)

// Choice selects dead letters; the zero value selects all.
type Choice struct {
	IDs   []string
	Key   []byte    // nil: any
	Since time.Time // only those whose first failure was then or later; zero: any
	// Decided makes DeadLetters list also what was decided about: redriven, edited, skipped, discarded.
	Decided bool
	// Filter is an expression about dead letters, see package filter. One that it can't be computed for is
	// not chosen. "": all.
	Filter string
	DryRun bool   // Order changes nothing: it only says about how many it would be
	By     string // the user that orders; default user@host of this process
}

// chooses returns what reports whether an entry matches; fault.Invalid for an invalid filter.
func (o *Choice) chooses(topic string) (func(*entry) bool, error) {
	matches := func(l *entry) bool { return o.match(l, l.ID.String()) }
	if o == nil || o.Filter == "" {
		return matches, nil
	}
	f, err := filter.CompileForDeadLetters(o.Filter)
	return func(l *entry) bool {
		if !matches(l) {
			return false
		}
		d := deadLetterOf(topic, l)
		yes, err := f.MatchDeadLetter(&l.Record, filter.Origin{Topic: topic, Partition: d.Partition, Offset: d.Offset},
			filter.Details{Status: string(d.Status), Reason: d.Reason, Answer: d.Answer, Attempts: d.Attempts})
		return err == nil && yes
	}, err
}

// choose returns the matching entries; fault.Invalid, and no entries, for an invalid filter.
func (o *Choice) choose(topic string, all []entry) ([]entry, error) {
	wanted, err := o.chooses(topic)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(l entry) bool { return !wanted(&l) }), nil
}

// namesParked reports whether a parked record that waits behind no dead letter is chosen by its ID, or it failed and is
// chosen by its key.
func (o *Choice) namesParked(it *core.Item) bool {
	return o != nil && (slices.Contains(o.IDs, it.ID.String()) || o.Key != nil && it.Since > 0)
}

func (o *Choice) match(l *entry, name string) bool {
	return o == nil || (len(o.IDs) == 0 || slices.Contains(o.IDs, name)) && (o.Key == nil || l.Key != nil && bytes.Equal(o.Key, l.Key)) &&
		(o.Since.IsZero() || l.Since > 0 && !time.UnixMilli(l.Since).Before(o.Since.Truncate(time.Millisecond)))
}
