package compare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/bench/peer"
	"github.com/ringfence/ringfence/internal/measure"
)

const (
	window     = 4096    // appends in flight of an asynchronous producer
	batchSize  = 100     // records of a batch
	batchers   = 16      // producers of batches
	largeSize  = 1024    // bytes of the records whose bandwidth is measured
	ageRecords = 400_000 // of largeSize bytes are written before the first turn, at most,
	ageTurns   = 3       // within the time of so many turns
)

// promised are the ratios that the project promises, by scenario. The raw disk takes part only where
// it has one: it is a floor, not a competitor.
var promised = map[string]map[string]float64{
	"durable, 1 in flight":                                          {"raw": 0.95},
	"durable, 16 in flight":                                         {"raw": 0.85}, // of 16 times that
	"durable, 256 in flight":                                        {"nats": 100, "redis": 9, "pebble": 2, "tidwall": 1.3, "postgres": 10, "seedfile": 300},
	"durable, asynchronous with 4096 in flight":                     {"nats": 500},
	"durable, records of 1 KiB":                                     {"raw": 0.8}, // of the bandwidth of its synced writes
	"in the operating system's cache, 16 in flight":                 {"nats": 2, "redis": 2, "pebble": 2, "tidwall": 2, "postgres": 2, "seedfile": 2},
	"in the operating system's cache, batches of 100, 16 in flight": {"pebble": 4},
}

// scenario is one comparison of ways to append.
type scenario struct {
	title    string
	level    peer.Durability
	inFlight int
	batch    int
	async    bool
	size     int
	need     map[string]float64 // asked ratio by peer
	only     []string           // nil: all but without
	without  []string
}

// scenarios are all comparisons that c asks for.
func (c Config) scenarios() []scenario {
	var all []scenario
	for _, level := range c.Durability {
		add := func(what, title string, s scenario) {
			what = words(level) + ", " + what
			s.level, s.need = level, promised[what]
			if s.title = "produce, " + what + title; s.need["raw"] == 0 {
				s.without = append(s.without, "raw")
			}
			all = append(all, s)
		}
		bytes := fmt.Sprintf(", %d B", c.Size)
		for _, n := range c.InFlight {
			add(fmt.Sprintf("%d in flight", n), bytes, scenario{inFlight: n, batch: 1, size: c.Size})
		}
		add(fmt.Sprintf("asynchronous with %d in flight", window), bytes, scenario{inFlight: window, batch: 1, async: true, size: c.Size})
		add(fmt.Sprintf("batches of %d, %d in flight", batchSize, batchers), bytes, scenario{inFlight: batchers, batch: batchSize, size: c.Size, without: []string{"seedfile"}})
		if level == peer.Sync {
			add("records of 1 KiB", "", scenario{inFlight: window, batch: 1, async: true, size: largeSize, only: []string{peer.Ringfence, "raw"}})
			all[len(all)-1].title = fmt.Sprintf("produce, durable, asynchronous with %d in flight, %d B, against synced writes of %d KiB", window, largeSize, measure.RawLarge>>10)
		}
	}
	return all
}

func words(level peer.Durability) string {
	if level == peer.Sync {
		return "durable"
	}
	return "in the operating system's cache"
}

// Produce measures every scenario.
func Produce(ctx context.Context, c Config, emit func(Report) error) error {
	for _, s := range c.scenarios() {
		fmt.Fprintf(c.Progress, "%s …\n", s.title)
		r, err := c.produce(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
		if err := emit(r); err != nil {
			return err
		}
	}
	return nil
}

func (c Config) produce(ctx context.Context, s scenario) (r Report, err error) {
	stores, err := c.open(ctx, c.available(s.only, s.without), peer.Options{Durability: s.level, InFlight: s.inFlight})
	if err != nil {
		return r, err
	}
	defer func() { closeAll(c.Progress, stores) }()
	if err := c.age(ctx, stores); err != nil {
		return r, err
	}
	times := map[string]float64{}
	game := c.contest()
	for _, o := range stores {
		st, pipelines := o.Store.(peer.Streamer)
		turn := func(h *measure.Histogram) (float64, error) { return c.appendAll(ctx, o.Store, s, h) }
		switch {
		case o.name == "raw" && s.async:
			turn = func(h *measure.Histogram) (float64, error) { return c.bandwidth(ctx, s.size, h) }
		case o.name == "raw": // one at a time
			times["raw"] = float64(s.inFlight)
			turn = func(h *measure.Histogram) (float64, error) {
				return c.appendAll(ctx, o.Store, scenario{inFlight: 1, batch: s.batch, size: s.size}, h)
			}
		case s.async && pipelines:
			turn = func(*measure.Histogram) (float64, error) { return c.stream(ctx, st, s) }
		case s.async:
			continue
		}
		game.Add(measure.Entry{Name: o.name, Turn: turn})
	}
	if err := game.Run(c.Rounds); err != nil {
		return r, err
	}
	return NewReport(s.title, "records/s", false, game.Rows(), s.need, times), nil
}

// age writes to every store that pipelines what it would have after some minutes of use: Pebble
// and Ringfence write to files that they use again, and only a store that has rolled has those.
func (c Config) age(ctx context.Context, stores []opened) error {
	for _, o := range stores {
		st, ok := o.Store.(peer.Streamer)
		if !ok {
			continue
		}
		measure.Rest(c.Dir)
		end := time.Now().Add(ageTurns * c.Turn)
		stop := upTo(ageRecords)
		if _, err := st.Stream(ctx, payload(largeSize), window, func() bool { return stop() || time.Now().After(end) }); err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
	}
	return nil
}

// upTo says when a stream of so many records is to stop.
func upTo(records int64) (stop func() bool) {
	var asked atomic.Int64
	return func() bool { return asked.Add(1) > records }
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
			values[i] = append(values[i], payload(s.size))
		}
	}
	rate, err := measure.Callers(s.inFlight, c.Turn, h, func(i int) error { return adds[i](ctx, values[i]) })
	return rate * float64(s.batch), err
}

// stream runs one asynchronous producer.
func (c Config) stream(ctx context.Context, st peer.Streamer, s scenario) (float64, error) {
	var stop atomic.Bool
	timer := time.AfterFunc(c.Turn, func() { stop.Store(true) })
	defer timer.Stop()
	start := time.Now()
	acked, err := st.Stream(ctx, payload(s.size), s.inFlight, stop.Load)
	return float64(acked) / time.Since(start).Seconds(), err
}

// bandwidth is how many records of size bytes a second would fill the synced writes of the disk.
func (c Config) bandwidth(ctx context.Context, size int, h *measure.Histogram) (_ float64, err error) {
	dir, err := c.folder()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	store, err := peer.NewRawBandwidth(dir)
	if err != nil {
		return 0, err
	}
	defer store.Close()
	measure.Rest(c.Dir)
	writes, err := c.appendAll(ctx, store, scenario{inFlight: 1, batch: 1, size: 1}, h)
	return writes * measure.RawLarge / float64(size), err
}
