package measure

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestQuantilesAreWithinThreePercent(t *testing.T) {
	t.Parallel()
	var a, b Histogram
	for i := 1; i <= 10_000; i++ {
		h := &a
		if i%2 == 0 {
			h = &b
		}
		h.Record(time.Duration(i) * time.Microsecond)
	}
	a.Merge(&b)
	if a.Count() != 10_000 {
		t.Fatalf("count %d; want 10000", a.Count())
	}
	for q, want := range map[float64]time.Duration{0.5: 5000 * time.Microsecond, 0.99: 9900 * time.Microsecond, 1: 10_000 * time.Microsecond} {
		got := a.Quantile(q)
		if diff := (got - want).Abs(); diff > want*3/100 {
			t.Errorf("quantile %v: %v; want %v within 3 %%", q, got, want)
		}
	}
}

func TestBucketsHoldTheirValues(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Uint64Range(0, 1<<62).Draw(t, "v")
		i := bucket(v)
		if bucket(middle(i)) != i {
			t.Fatalf("the middle of bucket %d lies in bucket %d", i, bucket(middle(i)))
		}
		if v > 0 && bucket(v-1) > i {
			t.Fatalf("bucket(%d) > bucket(%d)", v-1, v)
		}
	})
}

func TestEmptyHistogramHasNoQuantile(t *testing.T) {
	t.Parallel()
	var h Histogram
	if got := h.Quantile(0.5); got != 0 {
		t.Errorf("got %v; want 0", got)
	}
	h.Record(-time.Second)
	if got := h.Quantile(0.99); got != 0 {
		t.Errorf("a negative duration counts as %v; want 0", got)
	}
}
