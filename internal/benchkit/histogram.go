package benchkit

import (
	"math"
	"math/bits"
	"time"
)

// histogram counts durations in buckets that are at most 1/32 wide relative to their value.
type histogram struct {
	counts [64 * 32]uint64
	count  uint64
	most   time.Duration
}

func bucketOf(ns uint64) int {
	if ns < 32 {
		return int(ns)
	}
	shift := bits.Len64(ns) - 6
	return (shift+1)*32 + int(ns>>shift) - 32
}

// lowest is the smallest value of a bucket.
func lowest(bucket int) uint64 {
	if bucket < 32 {
		return uint64(bucket)
	}
	return uint64(bucket%32+32) << (bucket/32 - 1)
}

func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	h.counts[bucketOf(uint64(d))]++
	h.count++
	h.most = max(h.most, d)
}

// micros is a quantile in microseconds; 1 is the maximum.
func (h *histogram) micros(q float64) float64 {
	if q >= 1 || h.count == 0 {
		return float64(h.most) / 1e3
	}
	rank := uint64(math.Ceil(q * float64(h.count)))
	for b, n := range &h.counts {
		if n >= rank {
			return float64(lowest(b)) / 1e3
		}
		rank -= n
	}
	return float64(h.most) / 1e3
}

// merge adds what another process counted.
func (h *histogram) merge(o sparse) {
	for _, bn := range o.Buckets {
		if bn[0] < uint64(len(h.counts)) {
			h.counts[bn[0]] += bn[1]
			h.count += bn[1]
		}
	}
	h.most = max(h.most, o.Most)
}

// sparse is a histogram on its way between processes.
type sparse struct {
	Buckets [][2]uint64   `json:"buckets"` // number and count
	Most    time.Duration `json:"most"`
}

func (h *histogram) sparse() sparse {
	s := sparse{Most: h.most}
	for b, n := range &h.counts {
		if n > 0 {
			s.Buckets = append(s.Buckets, [2]uint64{uint64(b), n})
		}
	}
	return s
}
