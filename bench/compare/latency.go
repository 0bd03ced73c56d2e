package compare

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ringfence/ringfence/bench/peer"
	"github.com/ringfence/ringfence/internal/history"
	"github.com/ringfence/ringfence/internal/measure"
)

const (
	latencyLimit = 100.0 // microseconds, median, in the operating system's cache
	latencyNATS  = 2.0   // NATS over TCP takes at least so many times as long
	latencySync  = 0.5   // one fdatasync takes at least this share of a durable hand-over

	logReader = "ringfence, Read" // without a consumer group
)

// Latency measures from just before the produce call of one process to the handler in another,
// at a steady rate, beside NATS over TCP with its server in a third process, and beside a single
// write and fdatasync at the same rate.
func Latency(ctx context.Context, c Config, emit func(Report) error) error {
	for _, level := range c.Durability {
		title := fmt.Sprintf("produce to handler in another process, %s, %d/s, %d B", words(level), c.Rate, c.Size)
		fmt.Fprintf(c.Progress, "%s …\n", title)
		names := []string{peer.Ringfence, logReader}
		for _, p := range c.available([]string{"nats", "raw"}, nil) {
			if p.Name != "raw" || level == peer.Sync {
				names = append(names, p.Name)
			}
		}
		game := c.contest()
		for _, name := range names {
			game.Add(measure.Entry{Name: name, Turn: func(h *measure.Histogram) (float64, error) {
				err := c.latency(ctx, name, level, h)
				return h.Micros(0.5), err
			}})
		}
		if err := game.Run(c.Rounds); err != nil {
			return err
		}
		need := map[string]float64{"raw": latencySync}
		if level == peer.OS {
			need = map[string]float64{"nats": latencyNATS}
		}
		r := NewReport(title, "µs, median", true, game.Rows(), need, nil)
		if level == peer.OS {
			r.bound("microseconds, median", r.Rows[0].Median, latencyLimit, true)
		}
		if err := emit(r); err != nil {
			return err
		}
	}
	return nil
}

// latency lets one contestant hand records over for a turn, in a folder of its own.
func (c Config) latency(ctx context.Context, name string, level peer.Durability, h *measure.Histogram) (err error) {
	dir, err := c.folder()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	t := task{Peer: name, Dir: dir, Durability: level, Size: max(c.Size, 8), Rate: c.Rate, Records: max(int64(float64(c.Rate)*c.Turn.Seconds()), 1)}
	if name != "raw" {
		return handOver(ctx, t, h)
	}
	raw, err := measure.NewRaw(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, raw.Close()) }()
	return t.pace(ctx, func([]byte) error {
		began := time.Now()
		err := raw.Write(measure.RawBlock, true)
		h.Add(time.Since(began))
		return err
	})
}

// handOver runs a consuming and a producing process, and for NATS its server.
func handOver(ctx context.Context, t task, h *measure.Histogram) error {
	if t.Peer == "nats" {
		server, first, err := start(ctx, &serveJob{t})
		if err != nil {
			return err
		}
		defer server.End()
		t.URL = first.URL
	}
	consumer, _, err := start(ctx, &consumeJob{task: t})
	if err != nil {
		return err
	}
	defer consumer.End()
	producer, _, err := start(ctx, &produceJob{t})
	if err != nil {
		return err
	}
	defer producer.End()
	var a answer
	if err := consumer.Hear(&a); err != nil {
		return err
	}
	h.Merge(&a.Latency)
	if a.Latency.Count() != t.Records {
		return fmt.Errorf("%s handed over %d of %d records", t.Peer, a.Latency.Count(), t.Records)
	}
	return nil
}

// pace hands over a record with the moment of that in it, at the rate of the task.
func (t *task) pace(ctx context.Context, once func([]byte) error) error {
	value := payload(t.Size)
	return measure.Pace(ctx, time.Second/time.Duration(t.Rate), int(t.Records), func(int) error {
		binary.LittleEndian.PutUint64(value, uint64(history.Now()))
		return once(value)
	})
}
