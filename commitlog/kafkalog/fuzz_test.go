package kafkalog

import (
	"errors"
	"slices"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
)

// A stored hold only lowers what is held; one that is not understood is an error, and holds as
// before.
func FuzzHold(f *testing.F) {
	f.Add([]byte("[3,-1]"), int64(7), int64(-1))
	f.Add([]byte("[3]"), int64(7), int64(5))
	f.Add([]byte("null"), int64(7), int64(5))
	f.Add([]byte(`["3",4]`), int64(7), int64(5))
	f.Fuzz(func(t *testing.T, value []byte, a, b int64) {
		before := []int64{max(a, -1), max(b, -1)}
		held := slices.Clone(before)
		err := lower(held, "k", value)
		if err != nil && (!errors.Is(err, fault.Corrupt) || !slices.Equal(held, before)) {
			t.Fatalf("%v, and %v is held after %v", err, held, before)
		}
		for p, at := range held {
			if at < -1 || before[p] >= 0 && (at < 0 || at > before[p]) {
				t.Fatalf("%q raises what is held from %v to %v", value, before, held)
			}
		}
	})
}
