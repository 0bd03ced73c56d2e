package topic

import (
	"fmt"
	"math/bits"

	"github.com/cespare/xxhash/v2"

	"github.com/ringfence/ringfence/internal/fault"
)

// Hash names a fixed function from keys to unsigned 64-bit numbers. It is stored with the topic
// and never changes for it.
type Hash string

// XXHash64 is the default: xxHash, 64 bits, seed 0.
const XXHash64 Hash = "xxhash64"

func (h Hash) sum(key []byte) uint64 { return xxhash.Sum64(key) }

// Router names a rule from a hash to a partition. It is stored with the topic.
type Router string

const (
	// Modulo, for a storage topic of P partitions with factor K, is K·(h mod P/K) + (h div P) mod K.
	// It keeps keys in their shard exactly when the shard count divides the base P/K.
	Modulo Router = "modulo"
	// RangeRouter is ⌊h·P / 2⁶⁴⌋: it keeps keys in their shard for every shard count that divides P.
	RangeRouter Router = "range"
)

// Route returns the partition of hash h in a storage topic of p partitions with factor k, which
// divides p.
func (r Router) Route(h uint64, p, k int) int {
	if r == RangeRouter {
		hi, _ := bits.Mul64(h, uint64(p))
		return int(hi)
	}
	if k <= 1 {
		return int(h % uint64(p))
	}
	base, factor := uint64(p/k), uint64(k)
	return int(factor*(h%base) + (h/uint64(p))%factor)
}

func (r Router) validate() error {
	if r != Modulo && r != RangeRouter {
		return fmt.Errorf("router %q: expected %q or %q: %w", r, Modulo, RangeRouter, fault.Invalid)
	}
	return nil
}

func (h Hash) validate() error {
	if h != XXHash64 {
		return fmt.Errorf("hash %q: expected %q: %w", h, XXHash64, fault.Invalid)
	}
	return nil
}
