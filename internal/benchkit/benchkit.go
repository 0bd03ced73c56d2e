// Package benchkit measures Ringfence: the bodies of the bench commands.
//
// Machines drift, so no figure stands alone: each command measures Ringfence and a raw peer (the
// same bytes with bare system calls) in turn, several rounds of each, and reports medians and the
// median of the ratios of each round.
package benchkit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
)

// Common is what every command is told.
type Common struct {
	Dir     string        // where a temporary data directory is made; default "."
	Rounds  int           // default 5
	For     time.Duration // of one round of one measurement; default 1 s
	Logf    func(format string, args ...any)
	Command []string // starts this program as an agent: the program and the arguments before the agent's
}

func (c Common) withDefaults() Common {
	setDefault(&c.Dir, ".")
	setDefault(&c.Rounds, 5)
	setDefault(&c.For, time.Second)
	if c.Logf == nil {
		c.Logf = func(string, ...any) {}
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// tempDir makes a directory that remove takes away.
func (c *Common) tempDir() (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp(c.Dir, "ringfence-bench-")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, fmt.Errorf("--dir %q: expected a directory on the disk to be measured: %w", c.Dir, fault.NotFound)
	}
	if err != nil {
		return "", nil, fmt.Errorf("a directory for the measurement: %w", err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil // what is left is named after us
}

// Result is what a command measured.
type Result struct {
	Bench string   `json:"bench"`
	About string   `json:"about"` // the settings, in words
	Rows  []Row    `json:"rows"`
	Notes []string `json:"notes,omitempty"`
}

// Row is one measurement over all rounds.
type Row struct {
	Name   string    `json:"name"`
	Unit   string    `json:"unit"`
	Rounds []float64 `json:"rounds"`
	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
	// Ratio to the row named To: the median of the ratios of each round.
	Ratio float64 `json:"ratio,omitempty"`
	To    string  `json:"to,omitempty"`
	// Latency of single operations, in microseconds, over all rounds; 0: not measured.
	P50   float64 `json:"p50_us,omitempty"`
	P99   float64 `json:"p99_us,omitempty"`
	Worst float64 `json:"max_us,omitempty"`
}

// contest is measurements that take turns.
type contest struct {
	rows []*entry
}

type entry struct {
	Row
	scale   float64 // the ratio is to scale times the other row
	latency histogram
	measure func(*histogram) (float64, error)
}

// add enters a measurement; scale and to name what its ratio is to.
func (c *contest) add(name, unit, to string, scale float64, measure func(*histogram) (float64, error)) {
	c.rows = append(c.rows, &entry{Row: Row{Name: name, Unit: unit, To: to}, scale: scale, measure: measure})
}

// run plays the rounds and sums them up. A first round that does not count warms up files, caches
// and processes.
func (c *contest) run(rounds int, logf func(string, ...any)) ([]Row, error) {
	for _, e := range c.rows {
		if _, err := e.measure(new(histogram)); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name, err)
		}
	}
	for r := range rounds {
		for _, e := range c.rows {
			v, err := e.measure(&e.latency)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.Name, err)
			}
			logf("round %d of %d: %-42s %s %s", r+1, rounds, e.Name, figure(v), e.Unit)
			e.Rounds = append(e.Rounds, v)
		}
	}
	var out []Row
	for _, e := range c.rows {
		e.sum()
		if i := slices.IndexFunc(c.rows, func(o *entry) bool { return o.Name == e.To }); i >= 0 {
			ratios := make([]float64, len(e.Rounds))
			for r := range ratios {
				ratios[r] = e.Rounds[r] / (e.scale * c.rows[i].Rounds[r])
			}
			e.Ratio = median(ratios)
			if e.scale != 1 {
				e.To = fmt.Sprintf("%g x %s", e.scale, e.To)
			}
		}
		out = append(out, e.Row)
	}
	return out, nil
}

func (e *entry) sum() {
	e.Median, e.Min, e.Max = median(e.Rounds), slices.Min(e.Rounds), slices.Max(e.Rounds)
	if e.latency.count > 0 {
		e.P50, e.P99, e.Worst = e.latency.micros(0.5), e.latency.micros(0.99), e.latency.micros(1)
	}
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	if k := len(s) / 2; len(s)%2 == 0 {
		return (s[k-1] + s[k]) / 2
	}
	return s[len(s)/2]
}

// Text prints a result for people.
func (r *Result) Text(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "bench %s: %s\n", r.Bench, r.About); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	row := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format+"\n", args...) } // Flush tells
	row("  \tmedian\tmin – max\tunit\tp50 µs\tp99 µs\tmax µs\tratio")
	for _, x := range r.Rows {
		ratio := ""
		if x.To != "" {
			ratio = fmt.Sprintf("%s of %s", figure(x.Ratio), x.To)
		}
		row("  %s\t%s\t%s – %s\t%s\t%s\t%s\t%s\t%s", x.Name, figure(x.Median), figure(x.Min), figure(x.Max), x.Unit,
			orBlank(x.P50), orBlank(x.P99), orBlank(x.Worst), ratio)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, n := range r.Notes {
		if _, err := fmt.Fprintln(w, "  "+n); err != nil {
			return err
		}
	}
	return nil
}

func orBlank(v float64) string {
	if v == 0 {
		return ""
	}
	return figure(v)
}

// figure is a number with three digits that matter, and separators.
func figure(v float64) string {
	switch {
	case v >= 1000:
		n := int64(v + 0.5)
		s := ""
		for ; n >= 1000; n /= 1000 {
			s = fmt.Sprintf(",%03d", n%1000) + s
		}
		return fmt.Sprint(n) + s
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// demand collects faults of a configuration.
type demand struct{ errs []error }

func (d *demand) that(ok bool, format string, args ...any) {
	if !ok {
		d.errs = append(d.errs, fmt.Errorf("bench: %s: %w", fmt.Sprintf(format, args...), fault.Invalid))
	}
}

func (d *demand) positive(name string, v int) { d.that(v > 0, "%s is %d; expected 1 or more", name, v) }
