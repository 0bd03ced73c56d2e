package subscription

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ringfence/ringfence/subscription/core"
	"github.com/ringfence/ringfence/topic"
)

// Whatever the numbers: the heir of a key's parked records is the shard that reads its next ones, and it waits
// for the shard that has them; and each shard has somebody who waits for it.
func TestTheHeirOfAKeyReadsItsNextRecords(t *testing.T) {
	t.Parallel()
	storage := func(partitions, k int) topic.Storage { return topic.Storage{Partitions: partitions, K: k} }
	for _, router := range []topic.Router{topic.Modulo, topic.RangeRouter} {
		for _, now := range []topic.Storage{storage(8, 2), storage(4, 1), storage(6, 1), storage(3, 1), storage(1, 1)} {
			main := &topic.Document{Storage: []topic.Storage{storage(4, 1), now}, Router: router, Hash: topic.XXHash64}
			was := router.For(main.Hash, 4, 1)
			next := router.For(main.Hash, now.Partitions, now.K)
			for shards := 1; shards <= now.Partitions; shards++ {
				for _, old := range []int{1, 3, 4} {
					h := parentsOf(main, Set{Shards: old}, Set{Storage: 1, Shards: shards})
					for k := range 200 {
						key := fmt.Append(nil, k)
						at := core.Origin{Partition: int32(was.Partition(key))}
						holder := topic.Shard(int(at.Partition), 4, old)
						want := topic.Shard(next.Partition(key), now.Partitions, shards)
						if got := h.Heir(holder, at, key); got != want || !slices.Contains(h.After[got], holder) {
							t.Fatalf("%s, 4 partitions in %d shards to %d in %d: key %s goes from %d to %d; expected %d, which waits for %v", router, old, now.Partitions, shards, key, holder, got, want, h.After[want])
						}
					}
					for holder := range old {
						if got := h.Heir(holder, core.Origin{Partition: 3}, nil); got < 0 {
							t.Errorf("%s, 4 partitions in %d shards to %d in %d: nobody takes over from shard %d", router, old, now.Partitions, shards, holder)
						}
					}
				}
			}
		}
	}
}

// A reset of some partitions leaves what came from earlier storage topics behind for none of them; and a reset
// follows nobody's end.
func TestAResetOfSomePartitionsLeavesNothingEarlierBehind(t *testing.T) {
	t.Parallel()
	main := &topic.Document{Storage: []topic.Storage{{Partitions: 2, K: 1}, {Partitions: 2, K: 1}}, Router: topic.Modulo, Hash: topic.XXHash64}
	for _, c := range []struct {
		starts []int64
		kept   bool
	}{{[]int64{5, AsItWas}, true}, {[]int64{5, 5}, false}} {
		next := Set{Storage: 1, Shards: 1, Starts: c.starts, Shed: true}
		h := parentsOf(main, Set{Storage: 1, Shards: 1}, next)
		if kept := h.Takes(0, 0)(core.Origin{}, []byte("k")); kept != c.kept {
			t.Errorf("from %v: what is parked of an earlier storage topic is kept: %t", c.starts, kept)
		}
		if next.Follows(Set{Shards: 1}) {
			t.Errorf("from %v: a reset waits until all is read that it passes over", c.starts)
		}
	}
}

// However many shards a set says that it has: the next one has as many as the limits allow, and as the storage
// topic needs.
func TestAGrowthKeepsToTheLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ shards, was, partitions, concurrency, want int }{
		{4, 4, 8, 0, 8}, // one for each partition
		{4, 4, 8, 8, 8},
		{4, 4, 8, 7, 4},
		{64, 128, 256, 4, 4}, // somebody wrote down more shards than the limits allow
		{64, 64, 256, 4, 4},
		{3, 4, 2, 3, 2},
		{1, 4, 4 * MaxShare, 2, 4}, // fewer can't read them
	} {
		d := Document{Name: "billing", Limits: LimitsOf(0, c.concurrency), Sets: []Set{{ID: "abcdefg3", Shards: c.shards, State: active}}}
		main := &topic.Document{Storage: []topic.Storage{{Partitions: c.was}, {Partitions: c.partitions}}}
		if got := d.ShardsFor(main, 1); got != c.want {
			t.Errorf("%+v: %d shards", c, got)
		}
	}
}
