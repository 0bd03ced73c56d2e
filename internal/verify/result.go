package verify

import (
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/internal/history"
)

// Result is what came of a run.
type Result struct {
	Verdict  Verdict `json:"verdict"`
	Seed     uint64  `json:"seed"`
	Command  string  `json:"command"` // that repeats the schedule
	Version  string  `json:"version"`
	Log      string  `json:"log"` // URLs, without what is secret
	Registry string  `json:"registry"`
	Topic    string  `json:"topic"`
	Group    string  `json:"group"`
	// Subscription: the group is that of a subscription, which has its name.
	Subscription bool    `json:"subscription,omitempty"`
	Seconds      float64 `json:"seconds"`
	BeganAt      int64   `json:"began_at"` // the load, on the clock of the events: nanoseconds

	Figures  Figures    `json:"figures"`
	Promises []Promise  `json:"promises"`
	Faults   []Takeover `json:"faults"`
	Schedule []*Fault   `json:"schedule"`

	// Deaths are the processes that ended by themselves, Notes what else was out of the ordinary.
	// Away counts starts that ended because the store was away.
	Deaths []string `json:"deaths"`
	Notes  []string `json:"notes"`
	Away   int      `json:"away"`

	Began     bool   `json:"began"`               // the load
	Complete  bool   `json:"complete"`            // all was processed, or could have been
	Kept      bool   `json:"-"`                   // the topic and the group are still there
	Left      string `json:"left,omitempty"`      // directory with the data, when it is kept
	Histories string `json:"histories,omitempty"` // and with the histories
}

// Verdict is the judgement in a word.
type Verdict string

// The verdicts.
const (
	AllKept    Verdict = "kept"
	Broken     Verdict = "broken"
	Unfinished Verdict = "unfinished" // nothing is known to be broken, and not all was seen
)

// Figures count what happened.
type Figures struct {
	Sent       int64 `json:"sent"`       // records that producers were about to append
	Acked      int64 `json:"acked"`      // records that the log acknowledged
	Handled    int64 `json:"handled"`    // records that a handler finished
	Deliveries int64 `json:"deliveries"` // times that a handler was given one
	Unhandled  int64 `json:"unhandled"`  // acknowledged and not finished, when it ended early
	Lost       int64 `json:"lost"`       // acknowledged and never finished
	Doubled    int64 `json:"doubled"`    // stored twice
	Reordered  int64 `json:"reordered"`  // against the order of their key
	Skipped    int64 `json:"skipped"`    // times that a checkpoint passed an unfinished record
	// Repeated are records that a handler finished again after a fault. That is allowed: at least
	// once, and never more than the RepeatBound that were under way when an owner was replaced.
	Repeated    int64 `json:"repeated"`
	RepeatBound int64 `json:"repeat_bound"`
	Commits     int64 `json:"commits"`
	Refused     int64 `json:"refused_commits"` // under an old epoch
	Takeovers   int64 `json:"takeovers"`
	Handoffs    int64 `json:"handoffs"`
	Grown       int64 `json:"grown"`   // storage topics that took over from the one before
	Retired     int64 `json:"retired"` // storage topics that were finished, and are gone
	// Of a run with a subscription: the poison that was given up, what was redriven of it, how often another
	// shard set went on, and the longest time that a shard delivered nothing for that.
	DeadLetters int64 `json:"dead_letters,omitempty"`
	Redriven    int64 `json:"redriven,omitempty"`
	Turns       int64 `json:"turns,omitempty"`
	PauseMillis int64 `json:"pause_ms,omitempty"`
}

// Promise is one promise, how often it was broken, and the first examples.
type Promise struct {
	Promise  history.Promise `json:"promise"`
	Broken   int64           `json:"broken"`
	Examples []Example       `json:"examples,omitempty"`
}

// Example is one break of a promise, and the events that show it.
type Example struct {
	Detail string          `json:"detail"`
	Events []history.Event `json:"events"`
}

// Takeover is how long the partitions of hurt consumers waited for their next owners.
type Takeover struct {
	Kind         string  `json:"kind"`
	Planned      int     `json:"planned"`
	Done         int     `json:"done"`
	Takeovers    int     `json:"takeovers"` // faults after which partitions changed their owner
	MedianMillis float64 `json:"median_ms"`
	MaxMillis    float64 `json:"max_ms"`
}

// examples of each promise that are shown.
const examples = 3

// verdict has the histories judged, and reports. rest is the judgement of what is stored; nil: it was not read again.
func (r *run) verdict(rest *history.Report) error {
	report, promises, err := r.judge(r.result.Complete)
	if err != nil {
		return err
	}
	if rest == nil {
		r.result.Complete = false
	} else {
		report.Include(rest)
		promises = append(slices.Clip(promises), history.ReadAgain)
		if !slices.Contains(promises, history.OneValue) {
			promises = append(promises, history.OneValue)
		}
	}
	r.result.tellReport(report, promises)
	r.result.Faults = takeovers(r.Kinds(), r.result.Schedule)
	broken := len(r.result.Deaths) > 0
	for _, p := range r.result.Promises {
		broken = broken || p.Broken > 0
	}
	switch {
	case broken:
		r.result.Verdict = Broken
		return fmt.Errorf("%d times, and %d processes ended by themselves: %w", report.Violated, len(r.result.Deaths), ErrBroken)
	case !r.result.Complete:
		r.result.Verdict = Unfinished
	default:
		r.result.Verdict = AllKept
	}
	return nil
}

func (r *Result) tellReport(h *history.Report, promises []history.Promise) {
	f := &r.Figures
	r.Figures = Figures{
		Grown: f.Grown, Retired: f.Retired, DeadLetters: f.DeadLetters, Redriven: f.Redriven, Turns: f.Turns, PauseMillis: f.PauseMillis,
		Sent: h.Sent, Acked: h.Produced, Handled: h.Delivered, Deliveries: h.Deliveries, Unhandled: h.Lag,
		Lost: h.Lost, Doubled: h.Doubled, Reordered: h.Reordered, Skipped: h.Broken[history.NotSkipped] + h.Broken[history.NotPast],
		Repeated: h.Duplicated, RepeatBound: h.InFlight + h.Stale,
		Commits: h.Commits, Refused: h.Refused, Takeovers: h.Takeovers, Handoffs: h.Handoffs,
	}
	for _, name := range promises {
		p := Promise{Promise: name, Broken: h.Broken[name]}
		for _, v := range h.Violations {
			if v.Promise == name && len(p.Examples) < examples {
				p.Examples = append(p.Examples, Example{v.Detail, v.Events})
			}
		}
		r.Promises = append(r.Promises, p)
	}
}

// takeovers sums the schedule up, by kind.
func takeovers(kinds []string, schedule []*Fault) (all []Takeover) {
	for _, kind := range kinds {
		sum := Takeover{Kind: kind}
		var times []float64
		for _, f := range schedule {
			if f.Kind != kind {
				continue
			}
			sum.Planned++
			if f.Done {
				sum.Done++
			}
			if f.TakeoverMillis > 0 {
				times = append(times, f.TakeoverMillis)
			}
		}
		if sum.Planned == 0 {
			continue
		}
		if sum.Takeovers = len(times); len(times) > 0 {
			slices.Sort(times)
			sum.MedianMillis, sum.MaxMillis = (times[(len(times)-1)/2]+times[len(times)/2])/2, times[len(times)-1]
		}
		all = append(all, sum)
	}
	return all
}
