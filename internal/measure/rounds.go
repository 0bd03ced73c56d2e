package measure

import (
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/internal/script"
)

// Row is one measurement over all rounds.
type Row struct {
	Name   string    `json:"name"`
	Unit   string    `json:"unit"`
	Rounds []float64 `json:"rounds"`
	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
	// Ratio to the row named To: the median of the ratios of each round. Reverse: that row's to this.
	Ratio   float64 `json:"ratio,omitempty"`
	To      string  `json:"to,omitempty"`
	Reverse bool    `json:"reverse,omitempty"`
	// Latency of single operations, in microseconds, over all rounds; 0: not measured.
	P50   float64 `json:"p50_us,omitempty"`
	P99   float64 `json:"p99_us,omitempty"`
	Worst float64 `json:"max_us,omitempty"`
}

// Turn is one measurement of one round, as a script.
type Turn struct {
	*script.Script
	Latency Samples // of single operations, if there are any
}

// Entry is what takes part in a contest.
type Entry struct {
	Name, Unit string
	To         *Entry                // what it is compared with; nil: nothing
	Scale      float64               // and how many times that; 0: once
	Reverse    bool                  // the ratio is how many times this one To is
	Turn       func(t *Turn) float64 // measures once, for about the length of a round

	Kind string // for the promises

	Rounds  []float64
	ratios  []float64
	latency Samples
}

// Contest is measurements that take turns.
type Contest struct {
	Promises []Promise
	Where    string // the store
	Rest     func() // before each turn; nil: nothing
	Logf     func(format string, args ...any)

	entries []*Entry // that take turns
	shown   []*Entry // all with figures, in the order in which they were added
}

// Add enters a measurement.
func (c *Contest) Add(e Entry) *Entry {
	if e.Scale == 0 {
		e.Scale = 1
	}
	c.entries, c.shown = append(c.entries, &e), append(c.shown, &e)
	return &e
}

// Show adds what was measured otherwise: its figures, but no row.
func (c *Contest) Show(kind, unit string, values ...float64) {
	c.shown = append(c.shown, &Entry{Kind: kind, Unit: unit, Rounds: values})
}

// Run plays the rounds. A first round that does not count warms up files, caches and processes; the
// order shifts from round to round, so that no measurement always follows the same neighbour.
func (c *Contest) Run(rounds int) error {
	for r := -1; r < rounds; r++ {
		for turn := range c.entries {
			e := c.entries[(turn+max(r, 0))%len(c.entries)]
			if c.Rest != nil {
				c.Rest()
			}
			var t Turn
			var v float64
			if err := script.Try(func(s *script.Script) { t.Script = s; v = e.Turn(&t) }); err != nil {
				return fmt.Errorf("%s, round %d: %w", e.Name, r+1, err)
			}
			if r < 0 {
				continue
			}
			if c.Logf != nil {
				c.Logf("round %d of %d: %-42s %s %s", r+1, rounds, e.Name, Number(v), e.Unit)
			}
			e.Rounds = append(e.Rounds, v)
			e.latency = append(e.latency, t.Latency...)
		}
	}
	return nil
}

// Rows are the measurements, summed up.
func (c *Contest) Rows() []Row {
	var rows []Row
	for _, e := range c.entries {
		row := NewRow(e.Name, e.Unit, e.Rounds)
		if len(e.latency) > 0 {
			row.P50, row.P99, row.Worst = e.latency.Micros(0.5), e.latency.Micros(0.99), e.latency.Micros(1)
		}
		if e.To != nil {
			if e.ratios = quotients(e.Rounds, e.To.Rounds, e.Scale); e.Reverse {
				e.ratios = quotients(e.To.Rounds, e.Rounds, 1)
			}
			row.Ratio, row.To, row.Reverse = Median(e.ratios), e.To.Name, e.Reverse
			if e.Scale != 1 {
				row.To = fmt.Sprintf("%g x %s", e.Scale, e.To.Name)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// Figures are what became of the promises; Rows comes before.
func (c *Contest) Figures() []Figure {
	var figures []Figure
	for _, e := range c.shown {
		for i := range c.Promises {
			p := &c.Promises[i]
			if p.Kind == e.Kind && (p.Where == nil || slices.Contains(p.Where, c.Where)) {
				figures = append(figures, p.figure(e))
			}
		}
	}
	return figures
}

// NewRow sums values up.
func NewRow(name, unit string, values []float64) Row {
	return Row{Name: name, Unit: unit, Rounds: values, Median: Median(values), Min: slices.Min(values), Max: slices.Max(values)}
}

// SampleRow is NewRow of milliseconds that each were measured by themselves: it has their quantiles.
func SampleRow(name string, ms []float64) Row {
	r := NewRow(name, "ms", ms)
	r.P50, r.P99, r.Worst = 1000*r.Median, 1000*quantile(ms, 0.99), 1000*r.Max
	return r
}
