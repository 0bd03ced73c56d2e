package measure

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
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

// Compare makes a report. series[0] is Ringfence; scale multiplies a peer's value before it is
// compared (16 in flight against 16 times one raw write); need holds the required ratios.
func Compare(title, unit string, lower bool, series []Series, scale, need map[string]float64) Report {
	r := Report{Title: title, Unit: unit, Lower: lower}
	if len(series) == 0 {
		return r
	}
	own := series[0]
	r.Rounds = len(series[0].Samples)
	for i, s := range series {
		m := s.Median()
		row := Row{Name: s.Name, Median: m.Value, Min: s.Min(), Max: s.Max(), P50us: us(m.P50), P99us: us(m.P99), OK: true}
		if i > 0 {
			row.Ratio = ratio(own, s, lower)
			if f := scale[s.Name]; f > 0 {
				row.Ratio /= f
			}
			row.Need = need[s.Name]
			row.OK = row.Ratio >= row.Need
		}
		r.Rows = append(r.Rows, row)
	}
	return r
}

// ratio is the median over the rounds of the ratio within one round: what drifts slowly, as a
// disk does, falls out.
func ratio(own, peer Series, lower bool) float64 {
	var all Series
	for i := range min(len(own.Samples), len(peer.Samples)) {
		a, b := own.Samples[i].Value, peer.Samples[i].Value
		if lower {
			a, b = b, a
		}
		if b > 0 {
			all.Samples = append(all.Samples, Sample{Value: a / b})
		}
	}
	return all.Median().Value
}

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

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

// Text writes the report as a table.
func (r Report) Text(w io.Writer) error {
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
			ratio = number(row.Ratio) + "x"
		}
		if row.Need > 0 {
			need, verdict = number(row.Need)+"x", mark(row.OK)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", row.Name, number(row.Median), number(row.Min), number(row.Max),
			micros(row.P50us), micros(row.P99us), ratio, need, verdict)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, b := range r.Bounds {
		fmt.Fprintf(w, "  %s: %s, asked %s: %s\n", b.What, number(b.Got), number(b.Need), mark(b.OK))
	}
	return nil
}

// JSON writes the report as one line.
func (r Report) JSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

func mark(ok bool) string {
	if ok {
		return "ok"
	}
	return "MISSED"
}

func micros(us float64) string {
	if us == 0 {
		return ""
	}
	return (time.Duration(us*1000) * time.Nanosecond).Round(100 * time.Nanosecond).String()
}

// number writes three significant digits, and thousands with commas.
func number(v float64) string {
	switch {
	case v >= 1000:
		s := fmt.Sprintf("%.0f", v)
		var parts []string
		for len(s) > 3 {
			parts = append([]string{s[len(s)-3:]}, parts...)
			s = s[:len(s)-3]
		}
		return strings.Join(append([]string{s}, parts...), ",")
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
