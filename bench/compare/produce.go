package compare

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
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
func Produce(ctx context.Context, c Config, emit func(*measure.Report) error) error {
	for _, s := range c.scenarios() {
		fmt.Fprintf(c.Progress, "produce, %s …\n", s.what)
		r, err := c.produce(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
		if err := emit(r); err != nil {
			return err
		}
	}
	return nil
}

func (c Config) produce(ctx context.Context, s scenario) (*measure.Report, error) {
	var without []string
	if s.batch > 1 {
		without = append(without, "seedfile")
	}
	stores, err := c.open(ctx, c.available(without...), peer.Options{Durability: s.level, InFlight: s.inFlight})
	if err != nil {
		return nil, err
	}
	defer func() { closeAll(c.Progress, stores) }()
	if err := c.age(ctx, stores); err != nil {
		return nil, err
	}
	game := c.contest(s.what, "records/s")
	for _, o := range stores {
		if !s.async {
			game.enter(o.name, func(h *measure.Histogram) (float64, error) { return c.appendAll(ctx, o.Store, s, h) })
		} else if st, pipelines := o.Store.(peer.Streamer); pipelines {
			game.enter(o.name, func(*measure.Histogram) (float64, error) { return c.stream(ctx, st) })
		}
	}
	return game.report(c.Rounds, "%s under way, %d an append, %d-byte values, %s", measure.Many(s.inFlight, "append"), s.batch, c.Size, measure.Many(c.Rounds, "round"))
}

// age writes to every store what it would have after some minutes of use: Pebble, PostgreSQL and Ringfence
// write to files that they use again, and only a store that has rolled has those. A file per message has none.
func (c Config) age(ctx context.Context, stores []opened) error {
	for _, o := range stores {
		if o.name == "seedfile" {
			continue
		}
		measure.Rest(c.Dir)
		if err := c.fill(ctx, o.Store, ageSize, ageRecords, time.Now().Add(ageTurns*c.Turn)); err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
	}
	return nil
}

// fill appends so many values, a thousand at a time, unless that takes too long.
func (c Config) fill(ctx context.Context, store peer.Store, size, records int, end time.Time) error {
	add, err := store.Appender()
	values := slices.Repeat([][]byte{payload(size)}, 1000)
	for done := 0; err == nil && done < records && time.Now().Before(end); done += len(values) {
		err = add(ctx, values[:min(len(values), records-done)])
	}
	return err
}

// appendAll runs s.inFlight producers, each waiting for its ack before the next append.
func (c Config) appendAll(ctx context.Context, store peer.Store, s scenario, h *measure.Histogram) (float64, error) {
	adds, values := make([]peer.Append, s.inFlight), make([][][]byte, s.inFlight)
	for i := range adds {
		var err error
		if adds[i], err = store.Appender(); err != nil {
			return 0, err
		}
		for range s.batch {
			values[i] = append(values[i], payload(c.Size))
		}
	}
	rate, err := measure.Callers(s.inFlight, c.Turn, h, func(i int) error { return adds[i](ctx, values[i]) })
	return rate * float64(s.batch), err
}

// stream runs one asynchronous producer.
func (c Config) stream(ctx context.Context, st peer.Streamer) (float64, error) {
	var stop atomic.Bool
	timer := time.AfterFunc(c.Turn, func() { stop.Store(true) })
	defer timer.Stop()
	start := time.Now()
	acked, err := st.Stream(ctx, payload(c.Size), window, stop.Load)
	return float64(acked) / time.Since(start).Seconds(), err
}
