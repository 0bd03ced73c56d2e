package compare

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/bench/peer"
	"github.com/ringfence/ringfence/internal/measure"
)

const (
	window     = 4096    // appends in flight of an asynchronous producer
	batchSize  = 100     // records of a batch
	batchers   = 16      // producers of batches
	ageSize    = 1024    // bytes of the records that age a store:
	ageRecords = 400_000 // so many are written before the first turn, at most,
	ageTurns   = 3       // within the time of so many turns
)

// scenario is one comparison of ways to append.
type scenario struct {
	what     string // as promised
	level    peer.Durability
	inFlight int
	batch    int
	async    bool
}

// scenarios are all comparisons that c asks for.
func (c Config) scenarios() []scenario {
	var all []scenario
	for _, level := range c.Durability {
		words := "durable, "
		if level == peer.OS {
			words = "page cache, "
		}
		for _, n := range c.InFlight {
			all = append(all, scenario{fmt.Sprint(words, n, " in flight"), level, n, 1, false})
		}
		all = append(all, scenario{words + "asynchronous", level, window, 1, true}, scenario{words + "batches", level, batchers, batchSize, false})
	}
	return all
}

// Produce measures every scenario.
func Produce(ctx context.Context, _ *measure.Script, c Config, emit func(*measure.Report)) {
	for _, sc := range c.scenarios() {
		fmt.Fprintf(c.Progress, "produce, %s …\n", sc.what)
		err := measure.Try(func(s *measure.Script) { emit(c.produce(ctx, s, sc)) })
		if err != nil {
			check(fmt.Errorf("%s: %w", sc.what, err))
		}
	}
}

func (c Config) produce(ctx context.Context, s *measure.Script, sc scenario) *measure.Report {
	var without []string
	if sc.batch > 1 {
		without = append(without, "seedfile")
	}
	stores := c.open(ctx, s, c.available(without...), peer.Options{Durability: sc.level, InFlight: sc.inFlight})
	c.age(ctx, stores)
	game := c.contest(sc.what, "records/s")
	for _, o := range stores {
		if !sc.async {
			game.enter(o.name, func(t *measure.Turn) float64 { return c.appendAll(ctx, o.Store, sc, t) })
		} else if st, pipelines := o.Store.(peer.Streamer); pipelines {
			game.enter(o.name, func(*measure.Turn) float64 { return c.stream(ctx, st) })
		}
	}
	return game.report(c.Rounds, "%s under way, %d an append, %d-byte values, %s", measure.Many(sc.inFlight, "append"), sc.batch, c.Size, measure.Many(c.Rounds, "round"))
}

// age writes to every store what it would have after some minutes of use: Pebble, PostgreSQL and Ringfence
// write to files that they use again, and only a store that has rolled has those. A file per message has none.
func (c Config) age(ctx context.Context, stores []opened) {
	for _, o := range stores {
		if o.name != "seedfile" {
			measure.Rest(c.Dir)
			c.fill(ctx, o.Store, ageSize, ageRecords, time.Now().Add(ageTurns*c.Turn))
		}
	}
}

// fill appends so many values, a thousand at a time, unless that takes too long.
func (c Config) fill(ctx context.Context, store peer.Store, size, records int, end time.Time) {
	add := store.Appender()
	values := slices.Repeat([][]byte{payload(size)}, 1000)
	for done := 0; done < records && time.Now().Before(end); done += len(values) {
		add(ctx, values[:min(len(values), records-done)])
	}
}

// appendAll runs sc.inFlight producers, each waiting for its ack before the next append.
func (c Config) appendAll(ctx context.Context, store peer.Store, sc scenario, t *measure.Turn) float64 {
	adds, values := make([]peer.Append, sc.inFlight), make([][][]byte, sc.inFlight)
	for i := range adds {
		adds[i] = store.Appender()
		for range sc.batch {
			values[i] = append(values[i], payload(c.Size))
		}
	}
	return float64(sc.batch) * measure.Callers(sc.inFlight, c.Turn, &t.Latency, func(i int) { adds[i](ctx, values[i]) })
}

// stream runs one asynchronous producer.
func (c Config) stream(ctx context.Context, st peer.Streamer) float64 {
	start := time.Now()
	acked := st.Stream(ctx, payload(c.Size), window, func() bool { return time.Since(start) >= c.Turn })
	return float64(acked) / time.Since(start).Seconds()
}
