package benchkit

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/ringfence/ringfence/topic"
)

// RouteConfig says what to measure; zero fields have defaults.
type RouteConfig struct {
	Common         // For is of one router in one round
	Partitions int // default 24
	K          int // how often the topic grew to that: divides Partitions; default 3
	KeySize    int // bytes; default 16
}

// routeLimit is what finding the partition of a key may take, in ns.
const routeLimit = 15

// Route measures what it takes to find the partition of a key, its hash included, in a storage topic
// that grew.
func Route(ctx context.Context, c RouteConfig) (*Result, error) {
	c.Common = c.Common.withDefaults()
	setDefault(&c.Partitions, 24)
	setDefault(&c.K, 3)
	setDefault(&c.KeySize, 16)
	var d demand
	d.positive("--rounds", c.Rounds)
	d.positive("--partitions", c.Partitions)
	d.positive("--k", c.K)
	d.that(c.K > 0 && c.Partitions%c.K == 0, "--k is %d; expected a divisor of --partitions %d", c.K, c.Partitions)
	d.that(c.KeySize >= 8 && c.KeySize <= 1<<10, "--key-size is %d; expected 8 to %d", c.KeySize, 1<<10)
	if err := errors.Join(d.errs...); err != nil {
		return nil, err
	}
	keys := make([][]byte, 1024)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "%0*d", c.KeySize, i)
	}
	var game contest
	var allocations []float64
	game.add("hash xxhash64 alone", "ns a key", "", 1, func(*histogram) (float64, error) {
		return c.perKey(len(keys), func() (sum int) {
			for _, key := range keys {
				sum += int(xxhash.Sum64(key))
			}
			return sum
		}), ctx.Err()
	})
	for _, h := range []topic.Hash{topic.XXHash64, topic.FNV1a, topic.Murmur2} {
		for _, r := range []topic.Router{topic.Modulo, topic.RangeRouter} {
			if h == topic.Murmur2 && r == topic.RangeRouter {
				continue // it has too few bits for that
			}
			name := fmt.Sprintf("router %s, hash %s", r, h)
			routing := r.For(h, c.Partitions, c.K)
			batch := func() (sum int) {
				for _, key := range keys {
					sum += routing.Partition(key)
				}
				return sum
			}
			e := game.add(name, "ns a key", "", 1, func(*histogram) (float64, error) {
				return c.perKey(len(keys), batch), ctx.Err()
			})
			if h == topic.XXHash64 { // the default
				e.atMost(name, routeLimit)
			}
			allocations = append(allocations, allocationsOf(batch))
		}
	}
	rows, figures, err := game.run(c.Rounds, c.Logf)
	if err != nil {
		return nil, err
	}
	return &Result{
		Bench: "route", Rows: rows, Figures: append(figures, newFigure("allocations of 1,024 keys", "allocs", allocations, 0, true)),
		About: fmt.Sprintf("%s, K %d, keys of %s, %s", many(c.Partitions, "partition"), c.K, many(c.KeySize, "byte"), many(c.Rounds, "round")),
	}, nil
}

// perKey is the median of many batches, so that a pause of the machine is not taken for the work.
func (c *RouteConfig) perKey(keys int, batch func() int) float64 {
	var took []float64
	for began := time.Now(); time.Since(began) < c.For; {
		start := time.Now()
		runtime.KeepAlive(batch())
		took = append(took, float64(time.Since(start))/float64(keys))
	}
	return median(took)
}

// allocationsOf a batch, rounded down over many: the runtime allocates too.
func allocationsOf(batch func() int) float64 {
	const rounds = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		runtime.KeepAlive(batch())
	}
	runtime.ReadMemStats(&after)
	return float64((after.Mallocs - before.Mallocs) / rounds)
}
