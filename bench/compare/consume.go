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
	neighbors = 16 // partitions that share the log in the second reading
	perFrame  = 16 // records written to one partition at a time
	among     = "read among others"
)

// Consume measures reading records back, warm: one partition, and one of several that were
// written in turn. Every store was filled by itself with the same number of records.
func Consume(ctx context.Context, c Config, emit func(*measure.Report) error) (err error) {
	stores, err := c.open(ctx, c.available("redis", "pebble", "postgres", "seedfile"), peer.Options{Durability: peer.OS, InFlight: 1, KeepAll: true})
	if err != nil {
		return err
	}
	defer func() { closeAll(c.Progress, stores) }()
	game := c.contest("read", "records/s")
	for _, o := range stores {
		sc, ok := o.Store.(peer.Scanner)
		if !ok {
			continue
		}
		fmt.Fprintf(c.Progress, "filling %s with %d records …\n", o.name, c.Records)
		if err := c.fill(ctx, o.Store, c.Size, c.Records, time.Now().Add(time.Hour)); err != nil {
			return fmt.Errorf("fill %s: %w", o.name, err)
		}
		game.enter(o.name, c.scan(func() (int64, int64, error) { return sc.Scan(ctx, int64(c.Records)) }))
	}
	shared, done, err := c.interleaved(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	one := game.Add(measure.Entry{Name: fmt.Sprintf("ringfence, one of %d interleaved", neighbors), Unit: game.unit,
		Turn: c.scan(func() (int64, int64, error) {
			return peer.ScanPartition(ctx, shared, neighbors/2, int64(c.Records))
		})})
	fmt.Fprintln(c.Progress, "reading …")
	if err := game.Run(c.Rounds); err != nil {
		return err
	}
	for _, e := range game.others {
		game.Show(kind(among, e.Name), "x", 0, measure.Quotients(one.Rounds, e.Rounds, 1), e.Name)
	}
	return emit(game.done("%s of %d bytes, warm, checksums verified, %s", measure.Many(c.Records, "record"), c.Size, measure.Many(c.Rounds, "round")))
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
	for written := 0; written < c.Records; written += perFrame {
		for p := range neighbors {
			if _, err := topic.Append(ctx, p, records, nil); err != nil {
				return nil, nil, errors.Join(err, done())
			}
		}
	}
	return topic, done, nil
}

// scan reads everything again and again for the length of a turn.
func (c Config) scan(once func() (records, bytes int64, err error)) measure.Turn {
	return func(*measure.Histogram) (float64, error) {
		var total int64
		for start := time.Now(); ; {
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
}
