package assign_test

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/assign"
)

// The hash is part of stored formats: these values must never change.
func TestTheHashOfAKeyNeverChanges(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]uint64{
		"": 0x323dec24d398adb, "a": 0x82c2de3bd40dddbb, "abc": 0x3627449567b8d56c, "acct": 0xb3eee6fe01e7571e, "acct-42": 0x5fe75d8c81a0d673, "user-123": 0x64fbf1c6ce012bde, "0123456789abcdef": 0xabac049d8ef7e617,
		"0123456789abcdefg": 0x54128d3d322ae5b5, strings.Repeat("ringfence ", 7): 0x2f0658c383122177,
	} {
		if got := assign.HashKey(key); got != want {
			t.Errorf("HashKey(%q) = %#x; want %#x", key, got, want)
		}
	}
}

// One bit of the key changes each bit of the hash half of the time.
func TestEachBitOfTheKeyChangesHalfTheHash(t *testing.T) {
	t.Parallel()
	const samples = 400
	for _, n := range []int{1, 3, 4, 7, 8, 15, 16, 17, 33, 100} {
		for bit := range 8 * n {
			var flips [64]int
			for s := range samples {
				key := []byte(strings.Repeat(fmt.Sprintf("%d|", s*7919), n))[:n]
				before := assign.HashKey(string(key))
				key[bit/8] ^= 1 << (bit % 8)
				for d := before ^ assign.HashKey(string(key)); d != 0; d &= d - 1 {
					flips[bits.TrailingZeros64(d)]++
				}
			}
			for out, got := range flips {
				distinct := math.Min(samples, math.Pow(10, float64(n))) // short keys repeat
				if off := math.Abs(float64(got)/samples - 0.5); off > 0.5*6/math.Sqrt(distinct) {
					t.Fatalf("%d bytes: bit %d changes bit %d of the hash %d of %d times", n, bit, out, got, samples)
				}
			}
		}
	}
}

func TestSlotsAreFilledEvenly(t *testing.T) {
	t.Parallel()
	const slots, n = 256, 256_000
	var count [slots]int
	for i := range n {
		count[assign.Slot(assign.HashKey(fmt.Sprintf("user-%d", i)), slots)]++
	}
	chi := 0.0
	for _, c := range count {
		d := float64(c) - n/slots
		chi += d * d / (n / slots)
	}
	if free := float64(slots - 1); chi > free+5*math.Sqrt(2*free) {
		t.Errorf("chi-squared %.0f for %.0f degrees of freedom", chi, free)
	}
}
