package benchkit

import (
	"context"
	"fmt"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/measure"
)

// consume measures reads through commitlog and through Consume with an empty handler.
type consume struct {
	Records     int `default:"2000000" usage:"records of each topic"`
	Size        int `default:"100" usage:"<bytes> of a record's value"`
	Keys        int `default:"1000" least:"-1" usage:"different keys (-1: records without one)"`
	Interleaved int `default:"16" least:"-1" usage:"partitions of a second topic that is read one partition of (-1: leave it out)"`
	Partitions  int `default:"8" least:"-1" usage:"partitions of a third topic, for the handlers (-1: leave it out)"`
	Concurrency int `default:"0" least:"0" usage:"handlers at the same time (0: the default of consume)"`
}

func (c *consume) measure(ctx context.Context, r *run) {
	rf := r.open(ctx, "/data", ringfence.OS)
	raw := r.Add(measure.Entry{Name: "raw pread + CRC32C of as many bytes", Unit: "records/s", Turn: func(t *measure.Turn) float64 {
		return float64(c.Records) / measure.RawRead(t.Script, r.dir+"/raw", int64(c.Records)*int64(c.Size)).Seconds()
	}})
	add := func(kind, name string, turn func(t *measure.Turn) float64) {
		if c.Size > 100 {
			kind = ""
		}
		r.Add(measure.Entry{Name: name, Unit: "records/s", To: raw, Kind: kind, Turn: turn})
	}
	groups := 0
	handle := func(topic string, partitions int) {
		add("consume", "Consume, empty handler, "+measure.Many(partitions, "partition"), func(*measure.Turn) float64 {
			groups++
			return consumeAll(ctx, rf, topic, fmt.Sprintf("group-%d", groups), c.Records/partitions*partitions, c.Concurrency)
		})
	}
	read := func(topic string) func(t *measure.Turn) float64 {
		return func(t *measure.Turn) float64 { return readAgain(ctx, storage(ctx, t.Script, rf, topic), r.For/2) }
	}
	r.fill(ctx, rf, "one", 1, c.Records, 1000, c.record)
	add("read", "read one partition", read("one"))
	if c.Interleaved > 0 {
		r.fill(ctx, rf, "many", c.Interleaved, c.Records, 16, c.record)
		add("read", fmt.Sprintf("read one of %d interleaved", c.Interleaved), read("many"))
	}
	handle("one", 1)
	if c.Partitions > 0 {
		r.fill(ctx, rf, "some", c.Partitions, c.Records, 1000, c.record)
		handle("some", c.Partitions)
	}
	r.play()
	r.done("%s of %d bytes a topic, %s, warm, checksums verified, %s taken in turn",
		measure.Many(c.Records, "record"), c.Size, measure.Many(max(0, c.Keys), "key"), measure.Many(r.Rounds, "round"))
}

func (c *consume) record(i int) commitlog.Record {
	r := commitlog.Record{Value: make([]byte, c.Size)}
	if c.Keys > 0 {
		r.Key = fmt.Appendf(nil, "key-%d", i%c.Keys)
	}
	return r
}

// readAgain reads partition 0 into a buffer that is used again and again, from the beginning to the end
// and at least for so long: the records a second.
func readAgain(ctx context.Context, topic *commitlog.Topic, d time.Duration) float64 {
	opts := commitlog.ReadOptions{MaxBytes: 256 << 10, Buf: make([]byte, 512<<10)}
	n, began := 0, time.Now()
	for n == 0 || time.Since(began) < d {
		readAll(ctx, topic, 0, &opts, func(recs []commitlog.Record) { n += len(recs) })
	}
	return float64(n) / time.Since(began).Seconds()
}
