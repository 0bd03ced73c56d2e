// Package measure holds what a fair comparison needs: histograms that cost nothing while the
// clock runs, rounds that visit the contestants in turn, medians, and tables with ratios.
package measure

import (
	"math/bits"
	"time"
)

// subBits is how many bits of a value a bucket keeps: 5 bits bound the error to 3 %.
const subBits = 5

// Histogram counts durations in buckets whose width grows with the value. The zero value is
// empty. It is not safe for concurrent use: each goroutine has its own, and Merge adds them up.
type Histogram struct {
	counts [64 << subBits]int64
	n      int64
}

// Record adds one duration; negative ones count as zero.
func (h *Histogram) Record(d time.Duration) {
	h.counts[bucket(uint64(max(d, 0)))]++
	h.n++
}

// Merge adds the counts of o.
func (h *Histogram) Merge(o *Histogram) {
	for i, c := range &o.counts {
		h.counts[i] += c
	}
	h.n += o.n
}

// Count is how many durations were recorded.
func (h *Histogram) Count() int64 { return h.n }

// Quantile is the duration that a share q of the recorded ones does not exceed, 0 when nothing
// was recorded.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := int64(q * float64(h.n))
	if rank >= h.n {
		rank = h.n - 1
	}
	var seen int64
	for i, c := range &h.counts {
		seen += c
		if c > 0 && seen > rank {
			return time.Duration(middle(i))
		}
	}
	return 0
}

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
	low := (uint64(i)&(1<<subBits-1) + 1<<subBits) << shift
	return low + (1<<shift)/2
}
