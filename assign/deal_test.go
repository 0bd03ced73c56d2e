package assign

import (
	"slices"
	"testing"
)

// With one bucket more, slots move to it and nowhere else, at most its share; and all have the same
// number, or one more.
func TestABucketMoreTakesItsShareAndNothingElseMoves(t *testing.T) {
	t.Parallel()
	before := deal(1)
	for n := 2; n <= 300; n++ {
		after := deal(n)
		moved := 0
		for s, b := range after {
			switch was := before[s*len(before)/len(after)]; {
			case was == b:
			case int(b) == n-1:
				moved++
			default:
				t.Fatalf("%d buckets: slot %d of %d moved from bucket %d to %d", n, s, len(after), was, b)
			}
		}
		if share := len(after) / n; moved != share {
			t.Fatalf("%d buckets: the last one took %d of %d slots; want %d", n, moved, len(after), share)
		}
		count := make([]int, n)
		for _, b := range after {
			count[b]++
		}
		if least, most := slices.Min(count), slices.Max(count); least < leastSlots || most > 2*leastSlots || most > least+1 {
			t.Fatalf("%d buckets have %d to %d slots", n, least, most)
		}
		before = after
	}
}

func TestTheLargestRingIsDealt(t *testing.T) {
	t.Parallel()
	count := make([]int, MaxAnchorMembers)
	for _, b := range deal(MaxAnchorMembers) {
		count[b]++
	}
	if least, most := slices.Min(count), slices.Max(count); least != leastSlots || most != leastSlots {
		t.Errorf("%d to %d slots", least, most)
	}
}

func BenchmarkDeal(b *testing.B) {
	for b.Loop() {
		_ = deal(100)
	}
}
