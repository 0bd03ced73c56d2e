package measure

import (
	"math"
	"slices"
)

// Promise is a figure that is promised of the rows of one kind: a ratio to another row or, without that, a value.
type Promise struct {
	Kind   string
	Name   string
	AtMost bool // Need is a ceiling; else a floor
	Need   float64
	Where  []string // the stores on which it is promised; none: on all
}

// Figure is what was measured, beside what is required.
type Figure struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit"` // "x": a ratio
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Need   float64 `json:"required"`
	AtMost bool    `json:"at_most"` // Need is a ceiling; else a floor
	OK     bool    `json:"ok"`
}

// figure judges a promise of a row. A row that was never measured misses it.
func (p *Promise) figure(e *Entry) Figure {
	f := Figure{Name: p.Name, Unit: e.Unit, Need: p.Need, AtMost: p.AtMost}
	series := e.Rounds
	if e.To != nil {
		f.Unit, series = "x", e.ratios
	}
	if len(series) == 0 {
		return f
	}
	f.Median, f.Min, f.Max = Median(series), slices.Min(series), slices.Max(series)
	f.OK = !math.IsNaN(f.Median) && (f.Median == f.Need || f.Median < f.Need == f.AtMost)
	return f
}

// quotients are a / (scale * b), round by round: a slow drift of the machine, as a disk has, cancels out.
func quotients(a, b []float64, scale float64) []float64 {
	q := make([]float64, min(len(a), len(b)))
	for r := range q {
		q[r] = a[r] / (scale * b[r])
	}
	return q
}

// Median is the middle value, or the mean of the two in the middle; 0 of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
