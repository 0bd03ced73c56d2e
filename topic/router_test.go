package topic_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/cespare/xxhash/v2"
	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/topic"
)

// The routes of stored topics may never change: these are golden.
func TestRoutesAreGolden(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key    string
		hash   uint64
		modulo int // of 8, K 1
		k4     int // of 8, K 4
		ranged int // of 8
	}{
		{"", 0xef46db3751d8e999, 1, 7, 7},
		{"acct-42", 17942489409424185332, 4, 2, 7},
		{"k0", 7788656780305523626, 2, 1, 3},
	} {
		h := xxhash.Sum64String(c.key)
		got := fmt.Sprint(h, topic.Modulo.Route(h, 8, 1), topic.Modulo.Route(h, 8, 4), topic.RangeRouter.Route(h, 8, 1))
		if want := fmt.Sprint(c.hash, c.modulo, c.k4, c.ranged); got != want {
			t.Errorf("key %q: %s; expected %s", c.key, got, want)
		}
	}
}

func TestEveryRouteIsAPartition(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, commitlog.MaxPartitions).Draw(t, "k")
		p := k * rapid.IntRange(1, commitlog.MaxPartitions/k).Draw(t, "base")
		edge := rapid.Uint64Range(0, 4096).Draw(t, "edge") * uint64(p)
		h := rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{
			0, 1, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64, edge - 1, edge, math.MaxUint64/uint64(p)*uint64(p) - edge, math.MaxUint64/uint64(p)*uint64(p) - edge - 1,
		})).Draw(t, "h")
		for _, r := range []topic.Router{topic.Modulo, topic.RangeRouter} {
			got := r.Route(h, p, k)
			if got < 0 || got >= p {
				t.Fatalf("%s routes %d to %d of %d", r, h, got, p)
			}
			routing := r.For(topic.XXHash64, p, k)
			if prepared := routing.Route(h); prepared != got {
				t.Fatalf("%s, prepared for %d partitions, K %d, routes %d to %d; expected %d", r, p, k, h, prepared, got)
			}
		}
	})
}

// A topic that grows K-fold keeps each key in its shard, for shard counts that divide the base
// (modulo) or the partitions (range).
func TestGrowthKeepsKeysInTheirShard(t *testing.T) {
	t.Parallel()
	shard := func(p, partitions, shards int) int { return p * shards / partitions }
	rapid.Check(t, func(t *rapid.T) {
		shards := rapid.IntRange(1, 8).Draw(t, "shards")
		base := shards * rapid.IntRange(1, 6).Draw(t, "times")
		k := rapid.IntRange(1, 8).Draw(t, "k")
		h := rapid.Uint64().Draw(t, "h")
		for _, r := range []topic.Router{topic.Modulo, topic.RangeRouter} {
			before, after := shard(r.Route(h, base, 1), base, shards), shard(r.Route(h, base*k, k), base*k, shards)
			if before != after {
				t.Fatalf("%s: hash %d is in shard %d of %d with %d partitions, in %d with %d", r, h, before, shards, base, after, base*k)
			}
		}
	})
}

func TestKeysSpreadEvenly(t *testing.T) {
	t.Parallel()
	const keys, partitions = 100_000, 24
	for _, r := range []topic.Router{topic.Modulo, topic.RangeRouter} {
		var count [partitions]int
		for i := range keys {
			count[r.Route(xxhash.Sum64String(fmt.Sprintf("account-%d", i)), partitions, 3)]++
		}
		for p, n := range count {
			if mean := keys / partitions; n < mean*9/10 || n > mean*11/10 {
				t.Errorf("%s: partition %d got %d keys of %d", r, p, n, keys)
			}
		}
	}
}

// What a produced key costs: its hash, and its partition in a storage topic that grew.
func BenchmarkRoute(b *testing.B) {
	keys := make([][]byte, 1024)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "account-%06d", i)
	}
	for _, h := range []topic.Hash{topic.XXHash64, topic.Murmur2, topic.FNV1a} {
		for _, r := range []topic.Router{topic.Modulo, topic.RangeRouter} {
			b.Run(string(h)+"/"+string(r), func(b *testing.B) {
				b.ReportAllocs()
				routing := r.For(h, 24, 3)
				sum, i := 0, 0
				for b.Loop() {
					sum += routing.Partition(keys[i&1023])
					i++
				}
				_ = sum
			})
		}
	}
}
