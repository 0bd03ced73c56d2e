package measure

import (
	"errors"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/script"
)

func TestQuantilesOfSamples(t *testing.T) {
	t.Parallel()
	var s Samples
	if got := s.Micros(0.5); got != 0 {
		t.Errorf("got %v of none; expected 0", got)
	}
	for i := range 1000 {
		s.Add(time.Duration(1000-i) * time.Microsecond)
	}
	for q, want := range map[float64]float64{0.5: 500, 0.99: 990, 1: 1000} {
		if got := s.Micros(q); got != want {
			t.Errorf("quantile %g is %g; expected %g", q, got, want)
		}
	}
}

func TestContestComparesRoundByRound(t *testing.T) {
	t.Parallel()
	c := Contest{Promises: []Promise{
		{Kind: "ours", Name: "ratio", Need: 1}, {Kind: "ours", Name: "elsewhere", Where: []string{"etcd"}},
		{Kind: "shown", Name: "value", Need: 2, AtMost: true},
	}, Where: "file"}
	series := func(values ...float64) func(*Turn) float64 {
		turn := -1
		return func(t *Turn) float64 {
			turn++
			t.Latency.Add(time.Duration(values[turn]) * time.Microsecond)
			return values[turn]
		}
	}
	raw := c.Add(Entry{Name: "raw", Unit: "x", Turn: series(1, 10, 20, 10)})
	c.Add(Entry{Name: "ours", Unit: "ms", To: raw, Scale: 2, Kind: "ours", Turn: series(1, 40, 20, 20)})
	c.Add(Entry{Name: "peer", Unit: "ms", Kind: "peer", To: raw, Reverse: true, Turn: series(1, 2, 4, 5)})
	c.Show("shown", "times", 3)
	if err := c.Run(3); err != nil {
		t.Fatal(err)
	}
	rows := c.Rows()
	if rows[1].Ratio != 1 || rows[1].Median != 20 || rows[1].To != "2 x raw" || len(rows[0].Rounds) != 3 || rows[1].P99 < 38 {
		t.Errorf("%+v", rows)
	}
	if rows[2].Ratio != 5 || rows[2].To != "raw" {
		t.Errorf("raw is %v times %s; expected 5: the median of 10/2, 20/4, 10/5", rows[2].Ratio, rows[2].Name)
	}
	want := []Figure{
		{Name: "ratio", Unit: "x", Median: 1, Min: 0.5, Max: 2, Need: 1, OK: true},
		{Name: "value", Unit: "times", Median: 3, Min: 3, Max: 3, Need: 2, AtMost: true},
	}
	if got := c.Figures(); !slices.Equal(got, want) {
		t.Errorf("%+v; expected %+v", got, want)
	}
}

func TestContestShiftsTurnsAndDropsTheWarmUp(t *testing.T) {
	t.Parallel()
	rests, order := 0, ""
	c := Contest{Rest: func() { rests++ }, Logf: t.Logf}
	for _, name := range []string{"a", "b", "c"} {
		n := 0.0
		c.Add(Entry{Name: name, Unit: "x", Turn: func(*Turn) float64 { order += name; n++; return n }})
	}
	if err := c.Run(3); err != nil || order != "abc"+"abc"+"bca"+"cab" || rests != 12 {
		t.Errorf("%v, %s, %d rests", err, order, rests)
	}
	for _, r := range c.Rows() {
		if len(r.Rounds) != 3 || r.Min != 2 || r.Max != 4 || r.Median != 3 {
			t.Errorf("%+v; want 2, 3, 4", r)
		}
	}
	boom := errors.New("boom")
	c.Add(Entry{Name: "d", Turn: func(*Turn) float64 { script.Check(boom); return 0 }})
	if err := c.Run(1); !errors.Is(err, boom) || !strings.Contains(err.Error(), "d, round 0") {
		t.Errorf("got %v", err)
	}
}

func TestFigureIsMissedBeyondItsLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		series []float64
		need   float64
		atMost bool
		ok     bool
	}{
		{[]float64{1, 2, 3}, 2, false, true},
		{[]float64{1, 2, 3}, 2, true, true},
		{[]float64{1, 2, 3}, 2.5, false, false},
		{[]float64{1, 2, 3}, 1.5, true, false},
		{[]float64{0}, 0, true, true},
		{[]float64{math.NaN()}, 0, true, false},
		{nil, 1, true, false},
	} {
		p := Promise{Need: c.need, AtMost: c.atMost}
		if f := p.figure(&Entry{Rounds: c.series}); f.OK != c.ok {
			t.Errorf("%+v of %v: expected ok %t", f, c.series, c.ok)
		}
	}
}

func TestTableLeavesOutEmptyColumnsAndTrailingBlanks(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	figures := []Figure{{Name: "speed", Unit: "x", Median: 1, Need: 2}, {Name: "pause", Unit: "ms", Median: 1, Need: 2, AtMost: true, OK: true}}
	rows := []Row{{Name: "row", Unit: "ms", Median: 1234, Min: 1, Max: 2000}, {Name: "peer", Median: 1, Min: 1, Max: 1, Ratio: 7, To: "ours", Reverse: true}}
	err := errors.Join(writeRows(&text, rows), writeFigures(&text, figures), writeRows(&text, nil))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		if strings.HasSuffix(line, " \n") {
			t.Errorf("%q ends with a blank", line)
		}
	}
	for _, want := range []string{"1,234", "≥ 2.00    MISSED", "≤ 2.00    ok", "ours: 7.00 of it"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "p99") || strings.Count(text.String(), "median") != 2 {
		t.Errorf("an empty column or table is shown:\n%s", text.String())
	}
	for v, want := range map[float64]string{0.954: "0.95", 12.34: "12.3", 123.4: "123", 1234: "1,234", 12345678: "12,345,678", 1000: "1,000"} {
		if got := Number(v); got != want {
			t.Errorf("%v: %s; want %s", v, got, want)
		}
	}
}

func TestWindowBoundsWhatIsUnderWayAndStopsAtAnError(t *testing.T) {
	t.Parallel()
	w := NewWindow(3)
	results := make(chan error, 100)
	var under, most atomic.Int64
	go func() {
		for err := range results {
			under.Add(-1)
			w.Leave(err)
		}
	}()
	defer close(results)
	send := func(n int) {
		most.Store(max(most.Load(), under.Add(1)))
		if n == 60 {
			results <- errors.ErrUnsupported
		} else {
			results <- nil
		}
	}
	if acked := w.Fill(func(n int) bool { return n < 50 }, send); acked != 50 || most.Load() > 3 {
		t.Errorf("%d came through, %d at once", acked, most.Load())
	}
	err := script.Try(func(*script.Script) { w.Fill(func(n int) bool { return true }, func(int) { send(60) }) })
	if !errors.Is(err, errors.ErrUnsupported) || w.acked != 50 {
		t.Errorf("%d came through, %v", w.acked, err)
	}
}

func TestLoadsCountAndStop(t *testing.T) {
	t.Parallel()
	var h Samples
	if rate := Callers(3, 10*time.Millisecond, &h, func(int) {}); rate <= 0 || len(h) < 3 {
		t.Errorf("%g a second, %d calls", rate, len(h))
	}
	err := script.Try(func(*script.Script) { Callers(2, time.Hour, &h, func(int) { script.Check(errors.ErrUnsupported) }) })
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	calls := 0
	if Pace(t.Context(), time.Microsecond, 5, func(i int) { calls += i }); calls != 10 {
		t.Errorf("%d", calls)
	}
	w := NewWindow(2)
	if err := script.Try(func(*script.Script) {
		calls = int(w.Pace(t.Context(), time.Microsecond, 5, func(int) { w.Leave(nil) }))
	}); err != nil || calls != 5 {
		t.Errorf("%d came through, %v", calls, err)
	}
	err = script.Try(func(*script.Script) {
		w.Pace(t.Context(), time.Microsecond, math.MaxInt, func(int) { w.Leave(errors.ErrUnsupported) })
	})
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	err = script.Try(func(s *script.Script) {
		if rate := NewRaw(s, t.TempDir()).Measure(time.Millisecond, RawBlock, &h); rate <= 0 {
			t.Errorf("%g writes a second", rate)
		}
	})
	if err != nil {
		t.Error(err)
	}
}
