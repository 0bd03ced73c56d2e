package benchkit

import (
	"context"
	"fmt"
	"runtime"

	"github.com/cespare/xxhash/v2"

	"github.com/ringfence/ringfence/internal/measure"
	"github.com/ringfence/ringfence/topic"
)

// routes measures what it takes to find the partition of a key, its hash included, in a storage topic
// that grew.
type routes struct {
	Partitions int `default:"24" usage:"partitions of the storage topic"`
	K          int `default:"3" usage:"how many times its base they are"`
	KeySize    int `default:"16" least:"8" usage:"<bytes> of a key"`
}

func (c *routes) demands(s *settings) {
	s.that(c.K < 1 || c.Partitions%c.K == 0, "--k is %d; expected a divisor of --partitions %d", c.K, c.Partitions)
	s.that(c.KeySize <= 1<<10, "--key-size is %d; expected 8 to %d", c.KeySize, 1<<10)
}

func (c *routes) measure(ctx context.Context, r *run) {
	keys := make([][]byte, 1024)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "%0*d", c.KeySize, i)
	}
	add := func(kind, name string, of func(key []byte) int) (batch func()) {
		batch = func() {
			sum := 0
			for _, key := range keys {
				sum += of(key)
			}
			runtime.KeepAlive(sum)
		}
		r.enterCalls(ctx, kind, name, "ns a key", len(keys), batch)
		return batch
	}
	add("", "hash xxhash64 alone", func(key []byte) int { return int(xxhash.Sum64(key)) })
	var allocations []float64
	for _, router := range []topic.Router{topic.Modulo, topic.RangeRouter} {
		routing := router.For(topic.XXHash64, c.Partitions, c.K)
		batch := add("route", fmt.Sprintf("router %s, hash %s", router, topic.XXHash64), routing.Partition)
		allocations = append(allocations, measure.Allocations(100, batch))
	}
	r.Show("route allocations", "allocs", 0, allocations)
	r.play()
	r.done("%s, K %d, keys of %s, %s", measure.Many(c.Partitions, "partition"), c.K, measure.Many(c.KeySize, "byte"), measure.Many(r.Rounds, "round"))
}

// enterCalls enters how long one call of a batch takes.
func (r *run) enterCalls(ctx context.Context, kind, name, unit string, calls int, batch func()) {
	r.Add(measure.Entry{Name: name, Unit: unit, Kind: kind, Turn: func(*measure.Turn) float64 {
		took := measure.Each(r.For, calls, batch)
		check(ctx.Err())
		return took
	}})
}
