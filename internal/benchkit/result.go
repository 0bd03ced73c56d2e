package benchkit

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Result is what a command measured.
type Result struct {
	Bench   string   `json:"bench"`
	About   string   `json:"about"` // the settings, in words
	Rows    []Row    `json:"rows"`
	Figures []Figure `json:"figures,omitempty"`
	Notes   []string `json:"notes,omitempty"`
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

	ratios []float64 // by round
}

// Figure is something that the project promises: what was measured, beside what is required.
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

func newFigure(name, unit string, series []float64, need float64, atMost bool) Figure {
	f := Figure{Name: name, Unit: unit, Need: need, AtMost: atMost}
	if len(series) == 0 {
		return f // nothing was seen: that is no success
	}
	f.Median, f.Min, f.Max = median(series), slices.Min(series), slices.Max(series)
	f.OK = !math.IsNaN(f.Median) && (f.Median == need || f.Median < need == atMost)
	return f
}

// Missed are the figures that are not what is required.
func (r *Result) Missed() int { return missed(r.Figures) }

func missed(figures []Figure) int {
	n := 0
	for _, f := range figures {
		if !f.OK {
			n++
		}
	}
	return n
}

// Text prints a result for people.
func (r *Result) Text(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "bench %s: %s\n", r.Bench, r.About); err != nil {
		return err
	}
	if err := r.table(w); err != nil {
		return err
	}
	for _, n := range r.Notes {
		if _, err := fmt.Fprintln(w, "  "+n); err != nil {
			return err
		}
	}
	return writeFigures(w, r.Figures)
}

func (r *Result) table(w io.Writer) error {
	if len(r.Rows) == 0 {
		return nil
	}
	t := [][]string{{"", "median", "min – max", "unit", "p50 µs", "p99 µs", "max µs", "ratio"}}
	for _, x := range r.Rows {
		ratio := ""
		if x.To != "" {
			ratio = fmt.Sprintf("%s of %s", figure(x.Ratio), x.To)
		}
		t = append(t, []string{x.Name, figure(x.Median), spread(x.Min, x.Max), x.Unit, orBlank(x.P50), orBlank(x.P99), orBlank(x.Worst), ratio})
	}
	return writeTable(w, t)
}

func writeFigures(w io.Writer, figures []Figure) error {
	if len(figures) == 0 {
		return nil
	}
	t := [][]string{{"promised", "median", "min – max", "unit", "required", "verdict"}}
	for _, f := range figures {
		sign, verdict := "≥ ", "ok"
		if f.AtMost {
			sign = "≤ "
		}
		if !f.OK {
			verdict = "MISSED"
		}
		t = append(t, []string{f.Name, figure(f.Median), spread(f.Min, f.Max), f.Unit, sign + figure(f.Need), verdict})
	}
	return writeTable(w, t)
}

// writeTable aligns columns and leaves out those that hold nothing.
func writeTable(w io.Writer, rows [][]string) error {
	width := make([]int, len(rows[0]))
	for _, row := range rows[1:] {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			if width[i] > 0 {
				line.WriteString("  " + cell + strings.Repeat(" ", max(width[i], utf8.RuneCountInString(rows[0][i]))-utf8.RuneCountInString(cell)))
			}
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

func spread(least, most float64) string { return figure(least) + " – " + figure(most) }

func orBlank(v float64) string {
	if v == 0 {
		return ""
	}
	return figure(v)
}
