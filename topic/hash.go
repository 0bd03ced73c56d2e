package topic

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/ringfence/ringfence/internal/fault"
)

// Hash names a fixed function from keys to unsigned 64-bit numbers. It is stored with the topic
// and never changes for it: a function that gave other numbers would get another name.
type Hash string

const (
	// XXHash64 is the default: xxHash, 64 bits, seed 0.
	XXHash64 Hash = "xxhash64"
	// Murmur2 is the 32-bit MurmurHash2 of Kafka's default partitioner without its sign bit: with
	// router modulo, K 1, a key goes to the partition that a Kafka producer gives it. It has 31
	// bits only, so router range does not take it.
	Murmur2 Hash = "murmur2"
	// FNV1a is FNV-1a, 64 bits: the simplest one, for producers in any language.
	FNV1a Hash = "fnv1a"
)

// Sum returns the number of a key.
func (h Hash) Sum(key []byte) uint64 {
	switch h {
	case Murmur2:
		return uint64(murmur2(key) & 0x7fffffff)
	case FNV1a:
		return fnv1a(key)
	}
	return xxhash.Sum64(key)
}

func (h Hash) validate() error {
	switch h {
	case XXHash64, Murmur2, FNV1a:
		return nil
	}
	return fmt.Errorf("hash %q: expected %q, %q or %q: %w", h, XXHash64, Murmur2, FNV1a, fault.Invalid)
}

// murmur2 is Austin Appleby's MurmurHash2 with the seed that Kafka uses.
func murmur2(key []byte) uint32 {
	const seed, m, r = 0x9747b28c, 0x5bd1e995, 24
	h := uint32(seed) ^ uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		k := binary.LittleEndian.Uint32(key) * m
		k = (k ^ k>>r) * m
		h = h*m ^ k
	}
	switch len(key) {
	case 3:
		h ^= uint32(key[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(key[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(key[0])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}

// fnv1a is the 64-bit FNV-1a of Fowler, Noll and Vo.
func fnv1a(key []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range key {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return h
}
