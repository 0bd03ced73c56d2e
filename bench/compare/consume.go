package compare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/bench/measure"
	"github.com/ringfence/ringfence/bench/peer"
	"github.com/ringfence/ringfence/commitlog"
)

const (
	consumeRecords = 1_000_000
	consumeFloor   = 20e6 // records a second, from a warm page cache
	neighbors      = 16   // partitions that share the log in the second reading
	perFrame       = 16   // records written to one partition at a time
)

// Consume measures reading records back, warm: one partition, and one of several that were
// written in turn. Every store was filled by itself with the same number of records.
func Consume(ctx context.Context, c Config, emit func(measure.Report) error) (err error) {
	c = c.withDefaults()
	if c.Records == 0 {
		c.Records = consumeRecords
	}
	stores, err := c.open(ctx, c.available(nil, []string{"raw", "seedfile"}), peer.Options{Durability: peer.OS, InFlight: 1, KeepAll: true})
	if err != nil {
		return err
	}
	defer closeAll(c.Progress, stores)
	for _, o := range stores {
		fmt.Fprintf(c.Progress, "filling %s with %d records …\n", o.name, c.Records)
		if err := c.fill(ctx, o.Store, c.Records); err != nil {
			return fmt.Errorf("fill %s: %w", o.name, err)
		}
	}
	shared, done, err := c.interleaved(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()

	contestants := []measure.Contestant{{Name: "one of 16", Run: func(ctx context.Context) (measure.Sample, error) {
		return c.scan(func() (int64, int64, error) { return peer.ScanPartition(ctx, shared, neighbors/2, c.Records) })
	}}}
	for _, o := range stores {
		sc, ok := o.Store.(peer.Scanner)
		if !ok {
			continue
		}
		contestants = append(contestants, measure.Contestant{Name: o.name, Run: func(ctx context.Context) (measure.Sample, error) {
			return c.scan(func() (int64, int64, error) { return sc.Scan(ctx, c.Records) })
		}})
	}
	fmt.Fprintln(c.Progress, "reading …")
	series, err := measure.Interleave(ctx, c.Rounds, contestants, c.rest)
	if err != nil {
		return err
	}
	need := map[string]float64{"nats": 40, "tidwall": 2.5}
	for i, what := range []string{"one of 16 interleaved partitions, 16 records a frame", "one partition"} {
		all := series[1:]
		if i == 0 {
			all = append([]measure.Series{{Name: peer.Ringfence, Samples: series[0].Samples}}, series[2:]...)
		}
		r := measure.Compare(fmt.Sprintf("read, warm, checksums verified, %s, %d B", what, c.Size), "records/s", false, all, nil, need)
		r.Bounds = append(r.Bounds, bound("records a second", r.Rows[0].Median, consumeFloor, false))
		if err := emit(r); err != nil {
			return err
		}
	}
	return nil
}

// fill appends n records in the quickest way the store has.
func (c Config) fill(ctx context.Context, store peer.Store, n int64) error {
	if st, ok := store.(peer.Streamer); ok {
		var asked atomic.Int64
		_, err := st.Stream(ctx, payload(c.Size), window, func() bool { return asked.Add(1) > n })
		return err
	}
	add, err := store.Appender()
	if err != nil {
		return err
	}
	values := make([][]byte, 1000)
	for i := range values {
		values[i] = payload(c.Size)
	}
	for done := int64(0); done < n; done += int64(len(values)) {
		if err := add(ctx, values); err != nil {
			return err
		}
	}
	return nil
}

// interleaved fills a topic of several partitions in turn, some records to each at a time.
func (c Config) interleaved(ctx context.Context) (_ *commitlog.Topic, done func() error, err error) {
	dir, err := c.folder()
	if err != nil {
		return nil, nil, err
	}
	log, topic, err := peer.OpenTopic(ctx, peer.Options{Dir: dir, Durability: peer.OS}, commitlog.TopicConfig{Partitions: neighbors})
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	done = func() error { return errors.Join(log.Close(), os.RemoveAll(dir)) }
	records := make([]commitlog.Record, perFrame)
	for i := range records {
		records[i].Value = payload(c.Size)
	}
	fmt.Fprintf(c.Progress, "filling %d interleaved partitions with %d records each …\n", neighbors, c.Records)
	for written := int64(0); written < c.Records; written += perFrame {
		for p := range neighbors {
			if _, err := topic.Append(ctx, p, records, nil); err != nil {
				return nil, nil, errors.Join(err, done())
			}
		}
	}
	return topic, done, nil
}

// scan reads everything again and again for the length of a turn.
func (c Config) scan(once func() (records, bytes int64, err error)) (measure.Sample, error) {
	var total int64
	start := time.Now()
	for {
		records, bytes, err := once()
		if err != nil {
			return measure.Sample{}, err
		}
		if bytes != records*int64(c.Size) {
			return measure.Sample{}, fmt.Errorf("read %d bytes in %d records of %d bytes", bytes, records, c.Size)
		}
		total += records
		if elapsed := time.Since(start); elapsed >= c.Turn {
			return measure.Sample{Value: float64(total) / elapsed.Seconds()}, nil
		}
	}
}
