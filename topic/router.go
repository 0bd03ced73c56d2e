package topic

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/cespare/xxhash/v2"

	"github.com/ringfence/ringfence/internal/fault"
)

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
// divides p. For many hashes use For.
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

// Routing is a Router prepared for one storage topic: the same numbers, for keys by the million. It
// multiplies by inverses, as a division of 64-bit numbers takes ten times as long.
type Routing struct {
	hash    Hash
	usual   bool // the hash is XXHash64: names are slow to compare
	ranged  bool
	p, k    uint64
	base    uint64
	cycle   uint64 // P·K: after so many hashes the partitions repeat
	inverse uint64 // of cycle, scaled by 2⁶⁴
	byP     uint64 // inverses scaled by 2⁴⁰
	byBase  uint64
}

// For prepares a router for keys with that hash and a storage topic of p partitions, at most
// commitlog.MaxPartitions, with factor k, which divides p.
func (r Router) For(h Hash, p, k int) Routing {
	k = max(k, 1)
	x := Routing{hash: h, usual: h == XXHash64, ranged: r == RangeRouter, p: uint64(p), k: uint64(k), base: uint64(p / k), cycle: uint64(p) * uint64(k)}
	x.inverse = math.MaxUint64 / x.cycle
	x.byP, x.byBase = (1<<40+x.p-1)/x.p, (1<<40+x.base-1)/x.base
	return x
}

// Partition returns the partition of a key.
func (x *Routing) Partition(key []byte) int {
	if x.usual {
		return x.Route(xxhash.Sum64(key))
	}
	return x.Route(x.hash.Sum(key))
}

// Route returns what Router.Route does.
func (x *Routing) Route(h uint64) int {
	if x.ranged {
		hi, _ := bits.Mul64(h, x.p)
		return int(hi)
	}
	// h mod cycle: the quotient is at most one too small. Correcting it needs no branch, which
	// would be unpredictable.
	q, _ := bits.Mul64(h, x.inverse)
	h -= q * x.cycle
	h -= x.cycle & ((h-x.cycle)>>63 - 1)
	// It is below 2²⁴, where inverses that are scaled by 2⁴⁰ and rounded up give exact quotients.
	rest := h - h*x.byBase>>40*x.base
	return int(x.k*rest + h*x.byP>>40)
}

func (r Router) validate() error {
	if r != Modulo && r != RangeRouter {
		return fmt.Errorf("router %q: expected %q or %q: %w", r, Modulo, RangeRouter, fault.Invalid)
	}
	return nil
}

// Parents are the partitions From, From+Step, … below To of a storage topic: those that can hold
// earlier records of the keys of one partition of the next storage topic.
type Parents struct{ From, To, Step int }

// parents returns which partitions of the storage topic old can hold keys of partition p of the
// next one: exactly those where the counts determine it, else all.
func (r Router) parents(old, next Storage, p int) Parents {
	all := Parents{0, old.Partitions, 1}
	if r == RangeRouter {
		// Partition p holds the hashes in [p, p+1)·2⁶⁴/P, and partitions of the old one overlap them.
		from := p * old.Partitions / next.Partitions
		to := ((p+1)*old.Partitions + next.Partitions - 1) / next.Partitions
		return Parents{from, to, 1}
	}
	oldBase, nextBase := old.Partitions/old.K, next.Partitions/next.K
	group := p / next.K // h mod nextBase
	switch {
	case oldBase == nextBase:
		return Parents{group * old.K, (group + 1) * old.K, 1}
	case old.K == 1: // h mod oldBase is known modulo the divisor that both bases have
		d := gcd(oldBase, nextBase)
		return Parents{group % d, old.Partitions, d}
	case nextBase%oldBase == 0:
		group %= oldBase
		return Parents{group * old.K, (group + 1) * old.K, 1}
	}
	return all
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
