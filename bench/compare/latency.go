package compare

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence/bench/measure"
	"github.com/ringfence/ringfence/bench/peer"
)

const (
	roleServe   = "serve"
	roleProduce = "produce"
	roleConsume = "consume"

	latencyLimit = 100.0 // microseconds, median, in the operating system's cache
	latencyNATS  = 2.0   // NATS over TCP takes at least so many times as long
	latencySync  = 0.5   // one fdatasync takes at least this share of a durable hand-over

	logReader = "ringfence, Read" // without a consumer group
)

// Latency measures from just before the produce call of one process to the handler in another,
// at a steady rate, beside NATS over TCP with its server in a third process, and beside a single
// write and fdatasync at the same rate.
func Latency(ctx context.Context, c Config, emit func(measure.Report) error) error {
	c = c.withDefaults()
	for _, level := range c.Durability {
		title := fmt.Sprintf("produce to handler in another process, %s, %d/s, %d B", words(level), c.Rate, c.Size)
		fmt.Fprintf(c.Progress, "%s …\n", title)
		need := map[string]float64{"raw": latencySync}
		if level == peer.OS {
			need = map[string]float64{"nats": latencyNATS}
		}
		series, err := measure.Interleave(ctx, c.Rounds, c.latencies(level), c.rest)
		if err != nil {
			return err
		}
		r := measure.Compare(title, "µs, median", true, series, nil, need)
		if level == peer.OS {
			r.Bounds = append(r.Bounds, bound("microseconds, median", r.Rows[0].Median, latencyLimit, true))
		}
		if err := emit(r); err != nil {
			return err
		}
	}
	return nil
}

func (c Config) latencies(level peer.Durability) []measure.Contestant {
	run := func(name string) func(context.Context) (measure.Sample, error) {
		return func(ctx context.Context) (_ measure.Sample, err error) {
			dir, err := c.folder()
			if err != nil {
				return measure.Sample{}, err
			}
			defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
			j := job{Peer: name, Dir: dir, Durability: level, Size: max(c.Size, 8), Rate: c.Rate, Turn: c.Turn}
			j.Records = max(int64(float64(c.Rate)*c.Turn.Seconds()), 1)
			if name == "raw" {
				return rawLatency(ctx, j)
			}
			return handOver(ctx, j)
		}
	}
	names := []string{peer.Ringfence, logReader}
	for _, p := range c.available([]string{"nats", "raw"}, nil) {
		if p.Name != "raw" || level == peer.Sync {
			names = append(names, p.Name)
		}
	}
	var all []measure.Contestant
	for _, n := range names {
		all = append(all, measure.Contestant{Name: n, Run: run(n)})
	}
	return all
}

// handOver runs a consuming and a producing process, and for NATS its server.
func handOver(ctx context.Context, j job) (s measure.Sample, err error) {
	if j.Peer == "nats" {
		j.Role = roleServe
		server, first, err := start(ctx, j)
		if err != nil {
			return s, err
		}
		defer func() { err = errors.Join(err, server.stop()) }()
		j.URL = first.URL
	}
	j.Role = roleConsume
	consumer, _, err := start(ctx, j)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, consumer.stop()) }()
	j.Role = roleProduce
	producer, _, err := start(ctx, j)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, producer.stop()) }()
	a, err := consumer.hear()
	if err != nil {
		return s, err
	}
	if a.Count != j.Records {
		return s, fmt.Errorf("%s handed over %d of %d records", j.Peer, a.Count, j.Records)
	}
	return sampleOf(a), nil
}

func sampleOf(a answer) measure.Sample {
	return measure.Sample{Value: float64(a.P50) / float64(time.Microsecond), P50: a.P50, P99: a.P99}
}

// start spawns a child and waits until it is ready.
func start(ctx context.Context, j job) (*child, answer, error) {
	p, err := spawn(ctx, j)
	if err != nil {
		return nil, answer{}, err
	}
	a, err := p.hear()
	if err != nil {
		return nil, a, errors.Join(err, p.kill())
	}
	return p, a, nil
}

// now is a clock that all processes of a machine share, in nanoseconds.
func now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return ts.Nano()
}

// stamped is a value that says when it was handed to the producer.
func stamped(size int) (value []byte, stamp func()) {
	value = payload(max(size, 8))
	return value, func() { binary.LittleEndian.PutUint64(value, uint64(now())) }
}

// pace calls once for every record, at the rate of the job, until all were sent or ctx ends.
func pace(ctx context.Context, j job, once func() error) error {
	tick := time.NewTicker(time.Second / time.Duration(j.Rate))
	defer tick.Stop()
	for range j.Records {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := once(); err != nil {
				return err
			}
		}
	}
	return nil
}

// stopwatch gathers the latencies of records with stamps.
type stopwatch struct {
	latency measure.Histogram
	want    int64
}

// arrive takes one value; true when it was the last.
func (w *stopwatch) arrive(value []byte) bool {
	w.latency.Record(time.Duration(now() - int64(binary.LittleEndian.Uint64(value))))
	return w.latency.Count() >= w.want
}

func (w *stopwatch) answer() answer {
	return answer{Count: w.latency.Count(), P50: w.latency.Quantile(0.5), P99: w.latency.Quantile(0.99)}
}

// rawLatency is one write and one fdatasync at the same rate.
func rawLatency(ctx context.Context, j job) (measure.Sample, error) {
	found, err := peer.Named([]string{"raw"})
	if err != nil {
		return measure.Sample{}, err
	}
	store, err := found[0].Open(ctx, peer.Options{Dir: j.Dir, Durability: j.Durability})
	if err != nil {
		return measure.Sample{}, err
	}
	defer store.Close()
	add, err := store.Appender()
	if err != nil {
		return measure.Sample{}, err
	}
	value, stamp := stamped(j.Size)
	w := &stopwatch{want: j.Records}
	err = pace(ctx, j, func() error {
		stamp()
		if err := add(ctx, [][]byte{value}); err != nil {
			return err
		}
		w.arrive(value)
		return nil
	})
	return sampleOf(w.answer()), err
}
