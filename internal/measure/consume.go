package measure

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
)

// consume measures reads through commitlog and through Consume with an empty handler.
type consume struct{ Records, Size, Keys, Partitions, Concurrency int }

func (c *consume) flags(fl *pflag.FlagSet, common *Common) {
	common.turnsVar(fl)
	numberVar(fl, &c.Records, "records", 2_000_000, 1, "records of each topic")
	numberVar(fl, &c.Size, "size", 100, 1, "`bytes` of a record's value")
	numberVar(fl, &c.Keys, "keys", 1000, 0, "different keys (0: records without one)")
	numberVar(fl, &c.Partitions, "partitions", 8, 0, "partitions of a second topic, for the handlers (0: leave it out)")
	numberVar(fl, &c.Concurrency, "concurrency", 0, 0, "handlers at the same time (0: the default of consume)")
}

func (c *consume) measure(ctx context.Context, r *run) {
	rf := r.open(ctx, "/data", ringfence.OS)
	raw := r.Add(Entry{Name: "raw pread + CRC32C of as many bytes", Unit: "records/s", Turn: func(t *Turn) float64 {
		return float64(c.Records) / RawRead(t.Script, r.dir+"/raw", int64(c.Records)*int64(c.Size)).Seconds()
	}})
	r.fill(ctx, rf, "one", 1, c.Records, 1000, c.record)
	read := r.Add(Entry{Name: "read one partition", Unit: "records/s", To: raw, Turn: func(t *Turn) float64 {
		return readAgain(ctx, storage(ctx, t.Script, rf, "one"), r.For/2)
	}})
	groups := 0
	handle := func(topic, kind string, partitions int) {
		r.Add(Entry{Name: "Consume, empty handler, " + Many(partitions, "partition"), Unit: "records/s", To: read, Kind: kind, Turn: func(*Turn) float64 {
			groups++
			return consumeAll(ctx, rf, topic, fmt.Sprintf("group-%d", groups), c.Records/partitions*partitions, c.Concurrency)
		}})
	}
	handle("one", "", 1)
	if c.Partitions > 0 {
		r.fill(ctx, rf, "some", c.Partitions, c.Records, 1000, c.record)
		handle("some", "consume", c.Partitions)
	}
	r.play()
	r.done("%s of %d bytes a topic, %s, warm, checksums verified, %s taken in turn",
		Many(c.Records, "record"), c.Size, Many(c.Keys, "key"), Many(r.Rounds, "round"))
}

func (c *consume) record(i int) commitlog.Record {
	r := commitlog.Record{Value: make([]byte, c.Size)}
	if c.Keys > 0 {
		r.Key = fmt.Appendf(nil, "key-%d", i%c.Keys)
	}
	return r
}

// readAgain reads partition 0 from begin to end, at least for so long, into one buffer: the records a second.
func readAgain(ctx context.Context, topic *commitlog.Topic, d time.Duration) float64 {
	opts := commitlog.ReadOptions{MaxBytes: 256 << 10, Buf: make([]byte, 512<<10)}
	n, began := 0, time.Now()
	for n == 0 || time.Since(began) < d {
		readAll(ctx, topic, 0, &opts, func(recs []commitlog.Record) { n += len(recs) })
	}
	return float64(n) / time.Since(began).Seconds()
}
