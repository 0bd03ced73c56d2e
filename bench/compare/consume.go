package compare

import (
	"context"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/bench/peer"
	"github.com/ringfence/ringfence/internal/measure"
	"github.com/ringfence/ringfence/internal/script"
)

// Consume measures reading one partition back, warm, after each store was filled by itself.
func Consume(ctx context.Context, s *script.Script, c Config, emit func(*measure.Report)) {
	stores := c.open(ctx, s, c.available("redis", "pebble", "postgres"), peer.Options{InFlight: 1, KeepAll: true})
	game := c.contest("read", "records/s")
	for _, o := range stores {
		sc := o.Store.(peer.Scanner)
		fmt.Fprintf(c.Progress, "filling %s with %d records …\n", o.name, c.Records)
		c.fill(ctx, o.Store, c.Size, c.Records, time.Now().Add(time.Hour))
		game.enter(o.name, c.scan(func() (int64, int64) { return sc.Scan(ctx, int64(c.Records)) }))
	}
	fmt.Fprintln(c.Progress, "reading …")
	emit(game.report(c.Rounds, "%s of %d bytes, warm, checksums verified, %s", measure.Many(c.Records, "record"), c.Size, measure.Many(c.Rounds, "round")))
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
