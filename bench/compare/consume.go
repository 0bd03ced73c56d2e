package compare

import (
	"context"
	"fmt"
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
func Consume(ctx context.Context, s *measure.Script, c Config, emit func(*measure.Report)) {
	stores := c.open(ctx, s, c.available("redis", "pebble", "postgres", "seedfile"), peer.Options{Durability: peer.OS, InFlight: 1, KeepAll: true})
	game := c.contest("read", "records/s")
	for _, o := range stores {
		sc, ok := o.Store.(peer.Scanner)
		if !ok {
			continue
		}
		fmt.Fprintf(c.Progress, "filling %s with %d records …\n", o.name, c.Records)
		c.fill(ctx, o.Store, c.Size, c.Records, time.Now().Add(time.Hour))
		game.enter(o.name, c.scan(func() (int64, int64) { return sc.Scan(ctx, int64(c.Records)) }))
	}
	shared := c.interleaved(ctx, s)
	one := game.Add(measure.Entry{Name: fmt.Sprintf("ringfence, one of %d interleaved", neighbors), Unit: game.unit,
		Turn: c.scan(func() (int64, int64) { return peer.ScanPartition(ctx, shared, neighbors/2, int64(c.Records)) })})
	fmt.Fprintln(c.Progress, "reading …")
	check(game.Run(c.Rounds))
	for _, e := range game.others {
		game.Show(kind(among, e.Name), "x", 0, measure.Quotients(one.Rounds, e.Rounds, 1), e.Name)
	}
	emit(game.done("%s of %d bytes, warm, checksums verified, %s", measure.Many(c.Records, "record"), c.Size, measure.Many(c.Rounds, "round")))
}

// interleaved fills a topic of several partitions in turn, some records to each at a time.
func (c Config) interleaved(ctx context.Context, s *measure.Script) *commitlog.Topic {
	topic := peer.OpenTopic(ctx, s, peer.Options{Dir: c.folder(s), Durability: peer.OS}, commitlog.TopicConfig{Partitions: neighbors})
	records := slices.Repeat([]commitlog.Record{{Value: payload(c.Size)}}, perFrame)
	fmt.Fprintf(c.Progress, "filling %d interleaved partitions with %d records each …\n", neighbors, c.Records)
	for written := 0; written < c.Records; written += perFrame {
		for p := range neighbors {
			must(topic.Append(ctx, p, records, nil))
		}
	}
	return topic
}

// scan reads everything again and again for the length of a turn.
func (c Config) scan(once func() (records, bytes int64)) func(*measure.Turn) float64 {
	return func(*measure.Turn) float64 {
		var total int64
		for start := time.Now(); ; {
			records, bytes := once()
			if bytes != records*int64(c.Size) {
				check(fmt.Errorf("read %d bytes in %d records of %d bytes", bytes, records, c.Size))
			}
			total += records
			if elapsed := time.Since(start); elapsed >= c.Turn {
				return float64(total) / elapsed.Seconds()
			}
		}
	}
}
