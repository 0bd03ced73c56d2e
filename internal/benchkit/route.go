package benchkit

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/ringfence/ringfence/internal/measure"
	"github.com/ringfence/ringfence/topic"
)

// routes measures what it takes to find the partition of a key, its hash included, in a storage topic
// that grew.
type routes struct{ Partitions, K, KeySize int }

func (c *routes) settings(s *settings) {
	s.rounds("rounds of each measurement, taken in turn")
	s.time(100*time.Millisecond, "time of one measurement in one round")
	s.number(&c.Partitions, "partitions", 24, 1, "partitions of the storage topic")
	s.number(&c.K, "k", 3, 1, "how many times its base they are")
	s.number(&c.KeySize, "key-size", 16, 8, "`bytes` of a key")
	s.also(func() {
		s.that(c.K < 1 || c.Partitions%c.K == 0, "--k is %d; expected a divisor of --partitions %d", c.K, c.Partitions)
		s.that(c.KeySize <= 1<<10, "--key-size is %d; expected 8 to %d", c.KeySize, 1<<10)
	})
}

func (c *routes) measure(ctx context.Context, r *run) error {
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
		r.Add(measure.Entry{Name: name, Unit: "ns a key", Kind: kind, Turn: func(*measure.Histogram) (float64, error) {
			return measure.Each(r.For, len(keys), batch), ctx.Err()
		}})
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
	if err := r.play(); err != nil {
		return err
	}
	return r.done("%s, K %d, keys of %s, %s", measure.Many(c.Partitions, "partition"), c.K, measure.Many(c.KeySize, "byte"), measure.Many(r.Rounds, "round"))
}
