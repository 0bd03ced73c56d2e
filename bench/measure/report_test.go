package measure

import (
	"strings"
	"testing"
	"time"
)

func series(name string, values ...float64) Series {
	s := Series{Name: name}
	for _, v := range values {
		s.Samples = append(s.Samples, Sample{Value: v, P50: time.Millisecond})
	}
	return s
}

func TestCompareTellsRatiosAndWhatWasMissed(t *testing.T) {
	t.Parallel()
	all := []Series{series("ringfence", 100, 1600, 9000), series("raw", 100, 100, 110), series("peer", 50, 800, 9000)}
	r := Compare("durable", "records/s", false, all, map[string]float64{"raw": 16}, map[string]float64{"raw": 0.85, "peer": 3})
	if got := r.Rows[1].Ratio; got != 1 || !r.Rows[1].OK {
		t.Errorf("raw: ratio %v ok %t; want 1 true", got, r.Rows[1].OK)
	}
	if got := r.Rows[2].Ratio; got != 2 || r.Rows[2].OK || r.OK() {
		t.Errorf("peer: ratio %v ok %t; want 2 false", got, r.Rows[2].OK)
	}
	var text strings.Builder
	if err := r.Text(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1,600", "2.00x", "MISSED", "median of 3 rounds"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, text.String())
		}
	}
}

func TestCompareOfLatenciesPrefersTheSmaller(t *testing.T) {
	t.Parallel()
	r := Compare("latency", "µs", true, []Series{series("ringfence", 50), series("nats", 200)}, nil, map[string]float64{"nats": 2})
	if r.Rows[1].Ratio != 4 || !r.OK() {
		t.Errorf("got %+v; want ratio 4", r.Rows[1])
	}
}

func TestNumbersHaveThreeDigits(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0.954: "0.95", 12.34: "12.3", 123.4: "123", 1234: "1,234", 12345678: "12,345,678", 1000: "1,000"} {
		if got := number(v); got != want {
			t.Errorf("%v: %s; want %s", v, got, want)
		}
	}
}
