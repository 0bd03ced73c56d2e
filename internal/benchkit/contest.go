package benchkit

import (
	"fmt"
	"slices"
)

// contest is measurements that take turns.
type contest struct {
	rows []*entry
	rest func() // before each turn; nil: nothing
}

// entry is one measurement of a contest.
type entry struct {
	Row
	scale    float64 // the ratio is to scale times the other row
	latency  histogram
	p99s     []float64 // µs, by round
	measure  func(*histogram) (float64, error)
	promises []promise
}

// promise is a figure that the rounds of an entry show.
type promise struct {
	name, unit string
	need       float64
	atMost     bool
	of         func(*entry) []float64 // by round
}

// add enters a measurement; scale and to name what its ratio is to.
func (c *contest) add(name, unit, to string, scale float64, measure func(*histogram) (float64, error)) *entry {
	e := &entry{Row: Row{Name: name, Unit: unit, To: to}, scale: scale, measure: measure}
	c.rows = append(c.rows, e)
	return e
}

// ratioAtLeast promises the ratio of e.
func (e *entry) ratioAtLeast(name string, need float64) {
	e.promises = append(e.promises, promise{name: name, unit: "x", need: need, of: func(e *entry) []float64 { return e.ratios }})
}

func (e *entry) ratioAtMost(name string, need float64) {
	e.promises = append(e.promises, promise{name: name, unit: "x", need: need, atMost: true, of: func(e *entry) []float64 { return e.ratios }})
}

// atLeast promises the value of e.
func (e *entry) atLeast(name string, need float64) {
	e.promises = append(e.promises, promise{name: name, unit: e.Unit, need: need, of: func(e *entry) []float64 { return e.Rounds }})
}

func (e *entry) atMost(name string, need float64) {
	e.promises = append(e.promises, promise{name: name, unit: e.Unit, need: need, atMost: true, of: func(e *entry) []float64 { return e.Rounds }})
}

// longerAtMost promises by how much the value of e exceeds that of another entry in a round.
func (e *entry) longerAtMost(name string, need float64, to *entry) {
	e.promises = append(e.promises, promise{name: name, unit: e.Unit, need: need, atMost: true, of: func(e *entry) []float64 {
		more := make([]float64, len(e.Rounds))
		for r := range more {
			more[r] = e.Rounds[r] - to.Rounds[r]
		}
		return more
	}})
}

// p99AtMost promises the 99th percentile of e's latencies: in microseconds, or as a multiple of
// that of another entry.
func (e *entry) p99AtMost(name string, need float64, to *entry) {
	p := promise{name: name, unit: "µs", need: need, atMost: true, of: func(e *entry) []float64 { return e.p99s }}
	if to != nil {
		p.unit, p.of = "x", func(e *entry) []float64 { return quotients(e.p99s, to.p99s, 1) }
	}
	e.promises = append(e.promises, p)
}

// run plays the rounds and sums them up. A first round that does not count warms up files, caches
// and processes; the order shifts from round to round, so that nobody always follows the same
// neighbour.
func (c *contest) run(rounds int, logf func(string, ...any)) ([]Row, []Figure, error) {
	for r := -1; r < rounds; r++ {
		for turn := range c.rows {
			e := c.rows[(turn+max(r, 0))%len(c.rows)]
			if c.rest != nil {
				c.rest()
			}
			var h histogram
			v, err := e.measure(&h)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", e.Name, err)
			}
			if r < 0 {
				continue
			}
			logf("round %d of %d: %-42s %s %s", r+1, rounds, e.Name, figure(v), e.Unit)
			e.note(v, &h)
		}
	}
	rows, figures := c.sum()
	return rows, figures, nil
}

// note takes in one round.
func (e *entry) note(v float64, h *histogram) {
	e.Rounds = append(e.Rounds, v)
	e.p99s = append(e.p99s, h.micros(0.99))
	e.latency.merge(h.sparse())
}

func (c *contest) sum() (rows []Row, figures []Figure) {
	for _, e := range c.rows {
		e.Median, e.Min, e.Max = median(e.Rounds), slices.Min(e.Rounds), slices.Max(e.Rounds)
		if e.latency.count > 0 {
			e.P50, e.P99, e.Worst = e.latency.micros(0.5), e.latency.micros(0.99), e.latency.micros(1)
		}
		if i := slices.IndexFunc(c.rows, func(o *entry) bool { return o.Name == e.To }); i >= 0 {
			e.ratios = quotients(e.Rounds, c.rows[i].Rounds, e.scale)
			e.Ratio = median(e.ratios)
			if e.scale != 1 {
				e.To = fmt.Sprintf("%g x %s", e.scale, e.To)
			}
		}
		rows = append(rows, e.Row)
	}
	for _, e := range c.rows {
		for _, p := range e.promises {
			figures = append(figures, newFigure(p.name, p.unit, p.of(e), p.need, p.atMost))
		}
	}
	return rows, figures
}

// quotients are a / (scale * b), round by round: what drifts slowly, as a disk does, falls out.
func quotients(a, b []float64, scale float64) []float64 {
	q := make([]float64, len(a))
	for r := range q {
		q[r] = a[r] / (scale * b[r])
	}
	return q
}

// median is the middle value, or the mean of the two in the middle.
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
