package compare

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/ringfence/ringfence/internal/measure"
)

// Row is one line of a report: a contestant, and how the first contestant, Ringfence, compares.
type Row struct {
	Name   string  `json:"name"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	P50us  float64 `json:"p50_us,omitempty"`
	P99us  float64 `json:"p99_us,omitempty"`
	// Ratio is how many times better Ringfence is, the median of the rounds; 0 in its own row.
	Ratio float64 `json:"ratio,omitempty"`
	// Need is the ratio that is asked for; 0: none.
	Need float64 `json:"need,omitempty"`
	OK   bool    `json:"ok"`
}

// Report is the outcome of one comparison.
type Report struct {
	Title string `json:"title"`
	Unit  string `json:"unit"`
	// Lower says that smaller values are better.
	Lower  bool  `json:"lower,omitempty"`
	Rounds int   `json:"rounds"`
	Rows   []Row `json:"rows"`
	// Bounds are promises about one figure by itself.
	Bounds []Bound `json:"bounds,omitempty"`
}

// Bound is a promise about one figure.
type Bound struct {
	What string  `json:"what"`
	Got  float64 `json:"got"`
	Need float64 `json:"need"`
	OK   bool    `json:"ok"`
}

// bound adds a promise about one figure: at least need, or with atMost at most.
func (r *Report) bound(what string, got, need float64, atMost bool) {
	r.Bounds = append(r.Bounds, Bound{What: what, Got: got, Need: need, OK: got > 0 && (got >= need) != atMost})
}

// NewReport compares the first row, which is Ringfence, with the others. need holds the required ratios;
// times multiplies a peer's values before they are compared (16 in flight against 16 raw writes).
func NewReport(title, unit string, lower bool, rows []measure.Row, need, times map[string]float64) Report {
	r := Report{Title: title, Unit: unit, Lower: lower, Rounds: len(rows[0].Rounds)}
	for i, m := range rows {
		row := Row{Name: m.Name, Median: m.Median, Min: m.Min, Max: m.Max, P50us: m.P50, P99us: m.P99, OK: true}
		if i > 0 {
			better, worse := rows[0].Rounds, m.Rounds
			if lower {
				better, worse = worse, better
			}
			row.Ratio, row.Need = measure.Median(measure.Quotients(better, worse, max(1, times[m.Name]))), need[m.Name]
			row.OK = row.Ratio >= row.Need
		}
		r.Rows = append(r.Rows, row)
	}
	return r
}

// OK says whether every required ratio and bound was reached.
func (r Report) OK() bool {
	for _, row := range r.Rows {
		if !row.OK {
			return false
		}
	}
	for _, b := range r.Bounds {
		if !b.OK {
			return false
		}
	}
	return true
}

// Write writes the report: as a line of JSON, or as a table.
func (r Report) Write(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	better := "higher is better"
	if r.Lower {
		better = "lower is better"
	}
	rounds := fmt.Sprintf("median of %d rounds", r.Rounds)
	if r.Rounds == 1 {
		rounds = "one round"
	}
	fmt.Fprintf(w, "\n%s  (%s, %s, %s)\n", r.Title, r.Unit, better, rounds)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "\tmedian\tmin\tmax\tp50\tp99\tRingfence is\tasked\t\t")
	for _, row := range r.Rows {
		ratio, need, verdict := "", "", ""
		if row.Ratio > 0 {
			ratio = measure.Number(row.Ratio) + "x"
		}
		if row.Need > 0 {
			need, verdict = measure.Number(row.Need)+"x", measure.Verdict(row.OK)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", row.Name, measure.Number(row.Median), measure.Number(row.Min), measure.Number(row.Max),
			micros(row.P50us), micros(row.P99us), ratio, need, verdict)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, b := range r.Bounds {
		fmt.Fprintf(w, "  %s: %s, asked %s: %s\n", b.What, measure.Number(b.Got), measure.Number(b.Need), measure.Verdict(b.OK))
	}
	return nil
}

func micros(us float64) string {
	if us == 0 {
		return ""
	}
	return (time.Duration(us*1000) * time.Nanosecond).Round(100 * time.Nanosecond).String()
}
