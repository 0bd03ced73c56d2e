package compare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/bench/measure"
	"github.com/ringfence/ringfence/bench/peer"
)

const (
	window     = 4096    // appends in flight of an asynchronous producer
	batchSize  = 100     // records of a batch
	batchers   = 16      // producers of batches
	largeSize  = 1024    // bytes of the records whose bandwidth is measured
	bandwidth  = 1 << 20 // bytes of one raw write when bandwidth is measured
	bandwidthR = 0.8     // of that, at least
	ageRecords = 400_000 // of largeSize bytes are written before the first turn, at most,
	ageTurns   = 3       // within the time of so many turns
)

// scenario is one comparison of ways to append.
type scenario struct {
	title    string
	level    peer.Durability
	inFlight int
	batch    int
	async    bool
	size     int
	need     map[string]float64 // asked ratio by peer
	scale    map[string]float64 // the peer's figure is multiplied by this before it is compared
	without  []string
	only     []string // nil: all but without
}

// scenarios are all comparisons that c asks for, with the ratios that the project promises.
func (c Config) scenarios() []scenario {
	var all []scenario
	for _, level := range c.Durability {
		for _, n := range c.InFlight {
			all = append(all, blocking(level, n, c.Size))
		}
		all = append(all, pipelined(level, c.Size), batched(level, c.Size))
		if level == peer.Sync {
			all = append(all, large())
		}
	}
	return all
}

func blocking(level peer.Durability, inFlight, size int) scenario {
	s := scenario{
		title: fmt.Sprintf("produce, %s, %d in flight, %d B", words(level), inFlight, size),
		level: level, inFlight: inFlight, batch: 1, size: size,
	}
	switch {
	case level == peer.OS:
		s.without = []string{"raw"}
		if inFlight == 16 {
			s.need = map[string]float64{"nats": 2, "redis": 2, "pebble": 2, "tidwall": 2, "postgres": 2, "seedfile": 2}
		}
	case inFlight == 1:
		s.need = map[string]float64{"raw": 0.95}
	case inFlight == 16:
		s.need, s.scale = map[string]float64{"raw": 0.85}, map[string]float64{"raw": 16}
	case inFlight == 256:
		s.without = []string{"raw"}
		s.need = map[string]float64{"nats": 100, "redis": 9, "pebble": 2, "tidwall": 1.3, "postgres": 10, "seedfile": 300}
	default:
		s.without = []string{"raw"}
	}
	return s
}

func pipelined(level peer.Durability, size int) scenario {
	s := scenario{
		title: fmt.Sprintf("produce, %s, asynchronous with %d in flight, %d B", words(level), window, size),
		level: level, inFlight: window, batch: 1, async: true, size: size, without: []string{"raw"},
	}
	if level == peer.Sync {
		s.need = map[string]float64{"nats": 500}
	}
	return s
}

func batched(level peer.Durability, size int) scenario {
	s := scenario{
		title: fmt.Sprintf("produce, %s, batches of %d, %d in flight, %d B", words(level), batchSize, batchers, size),
		level: level, inFlight: batchers, batch: batchSize, size: size, without: []string{"raw", "seedfile"},
	}
	if level == peer.OS {
		s.need = map[string]float64{"pebble": 4}
	}
	return s
}

// large compares with the bandwidth of the disk, not with other systems.
func large() scenario {
	return scenario{
		title: fmt.Sprintf("produce, durable, asynchronous with %d in flight, %d B, against synced writes of %d KiB", window, largeSize, bandwidth>>10),
		level: peer.Sync, inFlight: window, batch: 1, async: true, size: largeSize,
		need: map[string]float64{"raw": bandwidthR}, only: []string{peer.Ringfence, "raw"},
	}
}

func words(level peer.Durability) string {
	if level == peer.Sync {
		return "durable"
	}
	return "in the operating system's cache"
}

// Produce measures every scenario and hands each report to emit as soon as it is there.
func Produce(ctx context.Context, c Config, emit func(measure.Report) error) error {
	c = c.withDefaults()
	for _, s := range c.scenarios() {
		fmt.Fprintf(c.Progress, "%s …\n", s.title)
		series, err := c.produce(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
		if err := emit(measure.Compare(s.title, "records/s", false, series, s.scale, s.need)); err != nil {
			return err
		}
	}
	return nil
}

func (c Config) produce(ctx context.Context, s scenario) ([]measure.Series, error) {
	stores, err := c.open(ctx, c.available(s.only, s.without), peer.Options{Durability: s.level, InFlight: s.inFlight})
	if err != nil {
		return nil, err
	}
	defer closeAll(c.Progress, stores)
	if err := c.age(ctx, stores); err != nil {
		return nil, err
	}
	var contestants []measure.Contestant
	for _, o := range stores {
		if run := c.turn(o, s); run != nil {
			contestants = append(contestants, measure.Contestant{Name: o.name, Run: run})
		}
	}
	return measure.Interleave(ctx, c.Rounds, contestants, c.rest)
}

// age writes to every store that pipelines what it would have after some minutes of use: Pebble
// and Ringfence write to files that they use again, and only a store that has rolled has those.
func (c Config) age(ctx context.Context, stores []opened) error {
	for _, o := range stores {
		st, ok := o.Store.(peer.Streamer)
		if !ok {
			continue
		}
		c.rest()
		var asked atomic.Int64
		end := time.Now().Add(ageTurns * c.Turn)
		stop := func() bool { return asked.Add(1) > ageRecords || time.Now().After(end) }
		if _, err := st.Stream(ctx, payload(largeSize), window, stop); err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
	}
	return nil
}

// turn is what a store does in one round; nil when it has no way to do it.
func (c Config) turn(o opened, s scenario) func(ctx context.Context) (measure.Sample, error) {
	st, pipelines := o.Store.(peer.Streamer)
	switch {
	case o.name == "raw" && s.async:
		return func(ctx context.Context) (measure.Sample, error) { return c.bandwidth(ctx, s.size) }
	case o.name == "raw":
		s.inFlight = 1 // a floor, not a competitor
		return func(ctx context.Context) (measure.Sample, error) { return c.appendAll(ctx, o.Store, s) }
	case s.async && pipelines:
		return func(ctx context.Context) (measure.Sample, error) { return c.stream(ctx, st, s) }
	case s.async:
		return nil
	}
	return func(ctx context.Context) (measure.Sample, error) { return c.appendAll(ctx, o.Store, s) }
}

// appendAll runs s.inFlight producers, each waiting for its ack before the next append.
func (c Config) appendAll(ctx context.Context, store peer.Store, s scenario) (measure.Sample, error) {
	workers := make([]worker, s.inFlight)
	for i := range workers {
		add, err := store.Appender()
		if err != nil {
			return measure.Sample{}, err
		}
		values := make([][]byte, s.batch)
		for j := range values {
			values[j] = payload(s.size)
		}
		workers[i] = worker{add: add, values: values}
	}
	var stop atomic.Bool
	timer := time.AfterFunc(c.Turn, func() { stop.Store(true) })
	defer timer.Stop()
	start := time.Now()
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() { workers[i].run(ctx, &stop) })
	}
	wg.Wait()
	elapsed := time.Since(start)
	var all measure.Histogram
	for i := range workers {
		if workers[i].err != nil {
			return measure.Sample{}, workers[i].err
		}
		all.Merge(&workers[i].latency)
	}
	rate := float64(all.Count()) * float64(s.batch) / elapsed.Seconds()
	return measure.Sample{Value: rate, P50: all.Quantile(0.5), P99: all.Quantile(0.99)}, nil
}

// worker is one producer.
type worker struct {
	add     peer.Append
	values  [][]byte
	latency measure.Histogram
	err     error
}

func (w *worker) run(ctx context.Context, stop *atomic.Bool) {
	last := time.Now()
	for !stop.Load() {
		if w.err = w.add(ctx, w.values); w.err != nil {
			return
		}
		now := time.Now()
		w.latency.Record(now.Sub(last))
		last = now
	}
}

// stream runs one asynchronous producer.
func (c Config) stream(ctx context.Context, st peer.Streamer, s scenario) (measure.Sample, error) {
	var stop atomic.Bool
	timer := time.AfterFunc(c.Turn, func() { stop.Store(true) })
	defer timer.Stop()
	start := time.Now()
	acked, err := st.Stream(ctx, payload(s.size), s.inFlight, stop.Load)
	return measure.Sample{Value: float64(acked) / time.Since(start).Seconds()}, err
}

// bandwidth is how many records of size bytes a second would fill the synced writes of the disk.
func (c Config) bandwidth(ctx context.Context, size int) (_ measure.Sample, err error) {
	dir, err := c.folder()
	if err != nil {
		return measure.Sample{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	store, err := peer.NewRawBandwidth(dir, bandwidth)
	if err != nil {
		return measure.Sample{}, err
	}
	defer store.Close()
	c.rest()
	s, err := c.appendAll(ctx, store, scenario{inFlight: 1, batch: 1, size: bandwidth})
	s.Value *= bandwidth / float64(size)
	return s, err
}
