package measure

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Of says what of a row is promised.
type Of int

// What can be promised of a row.
const (
	Value    Of = iota // the median of its rounds
	Ratio              // the median of the ratios to the row that it is compared with
	P99                // the 99th percentile of its latencies, in microseconds
	P99Ratio           // the ratio of that to that of the row that it is compared with
	Longer             // by how much it exceeds the row that it is compared with
	Tail               // the 99th percentile of its values
	Sum                // all of its values together
)

// Promise is a figure that a project promises of the rows of one kind.
type Promise struct {
	Kind   string
	Name   string // of the figure: a format for the Args of a row, or its name
	Of     Of
	AtMost bool    // Need is a ceiling and no floor
	Need   float64 // and Each times the Size of a row
	Each   float64
	Where  []string // the stores on which it is promised; none: on all
}

// Figure is what became of a promise: what was measured, beside what is required.
type Figure struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit"` // "x": a ratio
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Need   float64 `json:"required"`
	AtMost bool    `json:"at_most"` // Need is a ceiling and no floor
	OK     bool    `json:"ok"`
}

// figure judges a promise of a row; other is the row that it is compared with, or nil.
func (p *Promise) figure(e, other *Entry) Figure {
	f := Figure{Name: p.Name, Unit: e.Unit, Need: p.Need + p.Each*float64(e.Size), AtMost: p.AtMost}
	switch {
	case !strings.Contains(p.Name, "%"):
	case e.Args == nil:
		f.Name = fmt.Sprintf(p.Name, e.Name)
	default:
		f.Name = fmt.Sprintf(p.Name, e.Args...)
	}
	series, middle := e.Rounds, Median
	switch p.Of {
	case Value:
	case Ratio:
		f.Unit, series = "x", e.ratios
	case P99:
		f.Unit, series = "µs", e.p99s
	case P99Ratio:
		f.Unit, series = "x", Quotients(e.p99s, other.p99s, 1)
	case Longer:
		series = slices.Clone(series)
		for r := range series {
			series[r] -= other.Rounds[r]
		}
	case Tail:
		middle = func(values []float64) float64 { return quantile(values, 0.99) }
	case Sum:
		if len(series) > 0 {
			series = []float64{sum(series)}
		}
	}
	if len(series) == 0 {
		return f // nothing was seen: that is no success
	}
	f.Median, f.Min, f.Max = middle(series), slices.Min(series), slices.Max(series)
	f.OK = !math.IsNaN(f.Median) && (f.Median == f.Need || f.Median < f.Need == f.AtMost)
	return f
}

// Quotients are a / (scale * b), round by round: what drifts slowly, as a disk does, falls out.
func Quotients(a, b []float64, scale float64) []float64 {
	q := make([]float64, min(len(a), len(b)))
	for r := range q {
		q[r] = a[r] / (scale * b[r])
	}
	return q
}

// Median is the middle value, or the mean of the two in the middle; 0 of none.
func Median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	switch k := len(s) / 2; {
	case len(s) == 0:
		return 0
	case len(s)%2 == 0:
		return (s[k-1] + s[k]) / 2
	default:
		return s[k]
	}
}

// quantile is the smallest value that a share q of them does not exceed.
func quantile(values []float64, q float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return s[max(0, int(math.Ceil(q*float64(len(s))))-1)]
}

func sum(values []float64) (all float64) {
	for _, v := range values {
		all += v
	}
	return all
}
