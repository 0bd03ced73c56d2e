// Package measure is the kit of all benchmarks, and the measurements of the bench commands.
//
// The kit is the latencies of single operations, loads, the bare disk to compare with, contests whose measurements
// take turns, and tables. The module bench, which compares Ringfence with other systems, stands on it too.
// figures.go names what the project promises of itself.
//
// Machines drift, so no figure stands alone: measurements take turns, and a ratio is the median of the
// ratios of each round.
package measure

import (
	"math"
	"slices"
	"time"
)

// Samples are how long single operations took. Each goroutine has its own; as JSON they go between processes.
type Samples []time.Duration

// Add adds one operation.
func (s *Samples) Add(d time.Duration) { *s = append(*s, d) }

// Micros is the time that a share q of them does not exceed, 1 for the longest, in microseconds; 0 of none.
func (s Samples) Micros(q float64) float64 { return float64(quantile(s, q)) / 1e3 }

// quantile is the smallest value that a share q of them does not exceed; 0 of none.
func quantile[T time.Duration | float64](values []T, q float64) T {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	return s[max(0, int(math.Ceil(q*float64(len(s))))-1)]
}
