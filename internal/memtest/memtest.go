// Package memtest fails tests of decoders that take more memory than they may.
package memtest

import (
	"runtime/metrics"
	"testing"
)

// slack is what the runtime counts late, and what goes on beside: in sum over all sizes of objects.
const slack = 1 << 20

// tries: what others allocate meanwhile counts, too, so the least of some runs does.
const tries = 5

// AtMost fails when f, which decodes input, allocates more than most bytes. It runs f again, up to five
// times, when it seems to be too much. What it counts is of the whole process: a parallel test can't call it.
func AtMost(t testing.TB, most int, input any, f func()) {
	t.Helper()
	t.Setenv("RINGFENCE_ALONE", "1") // refuses parallel tests
	var least uint64
	for i := range tries {
		before := allocated()
		f()
		n := allocated() - before
		if i == 0 || n < least {
			least = n
		}
		if least <= uint64(most)+slack { //nolint:gosec // not negative
			return
		}
	}
	t.Fatalf("%d bytes were allocated, at most %d are allowed, for %.200q", least, most, input)
}

func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
