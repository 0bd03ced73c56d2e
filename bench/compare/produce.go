package compare

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/bench/peer"
	"github.com/ringfence/ringfence/internal/measure"
	"github.com/ringfence/ringfence/internal/script"
)

const (
	ageSize    = 1024    // bytes of the records that age a store:
	ageRecords = 400_000 // so many are written before the first turn, at most,
	ageTurns   = 3       // within the time of so many turns
)

// Produce measures appends, each producer waiting for its ack before the next one.
func Produce(ctx context.Context, _ *script.Script, c Config, emit func(*measure.Report)) {
	for _, n := range c.InFlight {
		what := fmt.Sprintf("durable, %d in flight", n) // as promised
		fmt.Fprintf(c.Progress, "produce, %s …\n", what)
		err := script.Try(func(s *script.Script) { emit(c.produce(ctx, s, what, n)) })
		if err != nil {
			check(fmt.Errorf("%s: %w", what, err))
		}
	}
}

func (c Config) produce(ctx context.Context, s *script.Script, what string, inFlight int) *measure.Report {
	game := c.contest(what, "records/s")
	for _, o := range c.open(ctx, s, c.available(), peer.Options{InFlight: inFlight}) {
		// A store has after some minutes of use files that it writes to again: Pebble, PostgreSQL and Ringfence do.
		measure.Rest(c.Dir)
		c.fill(ctx, o.Store, ageSize, ageRecords, time.Now().Add(ageTurns*c.Turn))
		game.enter(o.name, func(t *measure.Turn) float64 {
			adds := make([]peer.Append, inFlight)
			for i := range adds {
				adds[i] = o.Appender()
			}
			value := [][]byte{payload(c.Size)}
			return measure.Callers(inFlight, c.Turn, &t.Latency, func(i int) { adds[i](ctx, value) })
		})
	}
	return game.report(c.Rounds, "%s under way, %d-byte values, %s", measure.Many(inFlight, "append"), c.Size, measure.Many(c.Rounds, "round"))
}

// fill appends so many values, a thousand at a time, unless that takes too long.
func (c Config) fill(ctx context.Context, store peer.Store, size, records int, end time.Time) {
	add := store.Appender()
	values := slices.Repeat([][]byte{payload(size)}, 1000)
	for done := 0; done < records && time.Now().Before(end); done += len(values) {
		add(ctx, values[:min(len(values), records-done)])
	}
}
