// Package measure is the kit of all benchmarks, and the measurements of the bench commands.
//
// The kit is scripts that end at what goes wrong, histograms that cost nothing while the clock runs,
// loads, the bare disk to compare with, contests whose measurements take turns, and tables. The module
// bench, which compares Ringfence with other systems, stands on it too. figures.go names what the
// project promises of itself.
//
// Machines drift, so no figure stands alone: measurements take turns, and a ratio is the median of the
// ratios of each round.
package measure

import (
	"math"
	"math/bits"
	"time"
)

// subBits is how many bits of a value a bucket keeps: 5 bits bound the error to 3 %.
const subBits = 5

// Histogram counts durations in buckets whose width grows with the value. The zero value is empty.
// It is not safe for concurrent use: each goroutine has its own, and Merge adds them up. As JSON it
// goes from one process to another.
type Histogram struct {
	Counts [64 << subBits]int64 // by bucket
	N      int64                // how many were added
	Most   time.Duration
}

// Add counts one duration; negative ones count as zero.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	h.Counts[bucket(uint64(d))]++
	h.N++
	h.Most = max(h.Most, d)
}

// Merge adds the counts of o; nil has none.
func (h *Histogram) Merge(o *Histogram) {
	if o == nil {
		return
	}
	for i, c := range &o.Counts {
		h.Counts[i] += c
	}
	h.N += o.N
	h.Most = max(h.Most, o.Most)
}

// Quantile is the duration that a share q of the added ones does not exceed, 1 for the longest; 0
// when nothing was added.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := max(1, int64(math.Ceil(q*float64(h.N))))
	for i, c := range &h.Counts {
		if rank -= c; rank <= 0 && q < 1 {
			return min(h.Most, time.Duration(middle(i)))
		}
	}
	return h.Most
}

// Micros is a quantile in microseconds.
func (h *Histogram) Micros(q float64) float64 { return float64(h.Quantile(q)) / 1e3 }

// bucket: values below 2^subBits have a bucket each; above, a power of two has 2^subBits of them.
func bucket(v uint64) int {
	if v < 1<<subBits {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return (shift+1)<<subBits + int(v>>shift) - 1<<subBits
}

// middle is a value from the middle of a bucket.
func middle(i int) uint64 {
	if i < 1<<subBits {
		return uint64(i)
	}
	shift := i>>subBits - 1
	return (uint64(i)&(1<<subBits-1)+1<<subBits)<<shift + (1<<shift)/2
}
