package subscription

import (
	"bytes"
	"slices"
	"time"

	"github.com/ringfence/ringfence/subscription/filter"
)

// Choice is a choice among dead letters; the zero value chooses all.
type Choice struct {
	IDs   []string
	Key   []byte    // nil: any
	Since time.Time // only those that failed for the first time then or later; zero: any
	// Decided has DeadLetters list those too of which somebody has decided: redriven, skipped, discarded, edited.
	Decided bool
	// Filter is an expression about dead letters, see package filter: those that it can't be computed for are
	// not chosen. "": all.
	Filter string
	DryRun bool // Order gives none: it only says about how many it would be
}

// choose are those that match; fault.Invalid when the filter is none, and then there are none.
func (o *Choice) choose(topic string, all []entry) ([]entry, error) {
	wanted := func(*entry) bool { return true }
	if o != nil && o.Filter != "" {
		f, err := filter.CompileForDeadLetters(o.Filter)
		if err != nil {
			return nil, err
		}
		wanted = func(l *entry) bool {
			d := deadLetterOf(topic, l)
			yes, err := f.MatchDeadLetter(&l.Record, filter.Origin{Topic: topic, Partition: d.Partition, Offset: d.Offset},
				filter.Details{Status: string(d.Status), Reason: d.Reason, Answer: d.Answer, Attempts: d.Attempts})
			return err == nil && yes
		}
	}
	return slices.DeleteFunc(all, func(l entry) bool { return !o.match(&l, l.ID.String()) || !wanted(&l) }), nil
}

func (o *Choice) match(l *entry, name string) bool {
	return o == nil || (len(o.IDs) == 0 || slices.Contains(o.IDs, name)) && (o.Key == nil || l.Key != nil && bytes.Equal(o.Key, l.Key)) &&
		(o.Since.IsZero() || l.Since > 0 && !time.UnixMilli(l.Since).Before(o.Since.Truncate(time.Millisecond)))
}
