package delivery

import (
	"bytes"
	"slices"
	"time"

	"github.com/ringfence/ringfence/subscription"
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

// choose are those of the letters that match; fault.Invalid when the filter is none, and then there are none.
func (o *Choice) choose(topic string, all []subscription.Letter) ([]subscription.Letter, error) {
	wanted := func(*subscription.Letter) bool { return true }
	if o != nil && o.Filter != "" {
		f, err := filter.CompileForDeadLetters(o.Filter)
		if err != nil {
			return nil, err
		}
		wanted = func(l *subscription.Letter) bool {
			d := deadLetterOf(topic, l)
			yes, err := f.MatchDeadLetter(&l.Record, filter.Origin{Topic: topic, Partition: d.Partition, Offset: d.Offset},
				filter.Details{Status: string(d.Status), Reason: d.Reason, Answer: d.Answer, Attempts: d.Attempts})
			return err == nil && yes
		}
	}
	return slices.DeleteFunc(all, func(l subscription.Letter) bool { return !o.match(&l, subscription.Name(l.ID)) || !wanted(&l) }), nil
}

func (o *Choice) match(l *subscription.Letter, name string) bool {
	return o == nil || (len(o.IDs) == 0 || slices.Contains(o.IDs, name)) && (o.Key == nil || l.Item.Key != nil && bytes.Equal(o.Key, l.Item.Key)) &&
		(o.Since.IsZero() || l.Item.Since > 0 && !time.UnixMilli(l.Item.Since).Before(o.Since.Truncate(time.Millisecond)))
}
