package compare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/ringfence/ringfence/bench/peer"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/measure"
)

const (
	consumeRecords = 1_000_000
	consumeFloor   = 20e6 // records a second, from a warm page cache
	neighbors      = 16   // partitions that share the log in the second reading
	perFrame       = 16   // records written to one partition at a time
)

// Consume measures reading records back, warm: one partition, and one of several that were
// written in turn. Every store was filled by itself with the same number of records.
func Consume(ctx context.Context, c Config, emit func(Report) error) (err error) {
	if c.Records == 0 {
		c.Records = consumeRecords
	}
	stores, err := c.open(ctx, c.available(nil, []string{"raw", "seedfile"}), peer.Options{Durability: peer.OS, InFlight: 1, KeepAll: true})
	if err != nil {
		return err
	}
	defer func() { closeAll(c.Progress, stores) }()
	game := c.contest()
	add := func(name string, scan func() (records, bytes int64, err error)) {
		game.Add(measure.Entry{Name: name, Turn: func(*measure.Histogram) (float64, error) { return c.scan(scan) }})
	}
	shared, done, err := c.interleaved(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	add(peer.Ringfence, func() (int64, int64, error) { return peer.ScanPartition(ctx, shared, neighbors/2, c.Records) })
	for _, o := range stores {
		fmt.Fprintf(c.Progress, "filling %s with %d records …\n", o.name, c.Records)
		if err := c.fill(ctx, o.Store); err != nil {
			return fmt.Errorf("fill %s: %w", o.name, err)
		}
		if sc, ok := o.Store.(peer.Scanner); ok {
			add(o.name, func() (int64, int64, error) { return sc.Scan(ctx, c.Records) })
		}
	}
	fmt.Fprintln(c.Progress, "reading …")
	if err := game.Run(c.Rounds); err != nil {
		return err
	}
	rows := game.Rows() // Ringfence stands there twice
	for i, what := range []string{"one of 16 interleaved partitions, 16 records a frame", "one partition"} {
		r := NewReport(fmt.Sprintf("read, warm, checksums verified, %s, %d B", what, c.Size), "records/s", false,
			slices.Concat(rows[i:i+1], rows[2:]), map[string]float64{"nats": 40, "tidwall": 2.5}, nil)
		r.bound("records a second", r.Rows[0].Median, consumeFloor, false)
		if err := emit(r); err != nil {
			return err
		}
	}
	return nil
}

// fill appends the records in the quickest way the store has.
func (c Config) fill(ctx context.Context, store peer.Store) error {
	if st, ok := store.(peer.Streamer); ok {
		_, err := st.Stream(ctx, payload(c.Size), window, upTo(c.Records))
		return err
	}
	add, err := store.Appender()
	if err != nil {
		return err
	}
	values := slices.Repeat([][]byte{payload(c.Size)}, 1000)
	for done := int64(0); done < c.Records; done += int64(len(values)) {
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
	records := slices.Repeat([]commitlog.Record{{Value: payload(c.Size)}}, perFrame)
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
func (c Config) scan(once func() (records, bytes int64, err error)) (float64, error) {
	var total int64
	start := time.Now()
	for {
		records, bytes, err := once()
		if err != nil {
			return 0, err
		}
		if bytes != records*int64(c.Size) {
			return 0, fmt.Errorf("read %d bytes in %d records of %d bytes", bytes, records, c.Size)
		}
		total += records
		if elapsed := time.Since(start); elapsed >= c.Turn {
			return float64(total) / elapsed.Seconds(), nil
		}
	}
}
