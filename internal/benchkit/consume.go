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
	Records     int
	Size        int
	Keys        int
	Interleaved int
	Partitions  int
	Concurrency int
}

func (c *consume) settings(s *settings) {
	s.turns()
	s.number(&c.Records, "records", 2_000_000, 1, "records of each topic")
	s.number(&c.Size, "size", 100, 1, "`bytes` of a record's value")
	s.number(&c.Keys, "keys", 1000, -1, "different keys (-1: records without one)")
	s.number(&c.Interleaved, "interleaved", 16, -1, "partitions of a second topic that is read one partition of (-1: leave it out)")
	s.number(&c.Partitions, "partitions", 8, -1, "partitions of a third topic, for the handlers (-1: leave it out)")
	s.number(&c.Concurrency, "concurrency", 0, 0, "handlers at the same time (0: the default of consume)")
}

func (c *consume) measure(ctx context.Context, r *run) error {
	rf, err := r.open(ctx, "/data", ringfence.OS)
	if err != nil {
		return err
	}
	raw := r.Add(measure.Entry{Name: "raw pread + CRC32C of as many bytes", Unit: "records/s", Turn: func(*measure.Histogram) (float64, error) {
		took, err := measure.RawRead(r.dir+"/raw", int64(c.Records)*int64(c.Size))
		return float64(c.Records) / took.Seconds(), err
	}})
	add := func(kind, name string, turn func() (float64, error)) {
		if c.Size > 100 {
			kind = ""
		}
		r.Add(measure.Entry{Name: name, Unit: "records/s", To: raw, Kind: kind, Turn: func(*measure.Histogram) (float64, error) { return turn() }})
	}
	groups := 0
	handle := func(topic string, partitions int) {
		add("consume", "Consume, empty handler, "+measure.Many(partitions, "partition"), func() (float64, error) {
			groups++
			return consumeAll(ctx, rf, topic, fmt.Sprintf("group-%d", groups), c.Records/partitions*partitions, c.Concurrency)
		})
	}
	add("read", "read one partition", func() (float64, error) { return c.read(ctx, rf, r.For, "one") })
	if c.Interleaved > 0 {
		add("read", fmt.Sprintf("read one of %d interleaved", c.Interleaved), func() (float64, error) { return c.read(ctx, rf, r.For, "many") })
	}
	handle("one", 1)
	if c.Partitions > 0 {
		handle("some", c.Partitions)
	}
	for _, t := range []struct {
		name              string
		partitions, batch int
	}{{"one", 1, 1000}, {"many", c.Interleaved, 16}, {"some", c.Partitions, 1000}} {
		if t.partitions < 1 {
			continue
		}
		r.Bench.Logf("writing %s to %s", measure.Many(c.Records, "record"), measure.Many(t.partitions, "partition"))
		if err := fill(ctx, rf, t.name, t.partitions, c.Records, t.batch, c.record); err != nil {
			return err
		}
	}
	if err := r.play(); err != nil {
		return err
	}
	return r.done("%s of %d bytes a topic, %s, warm, checksums verified, %s taken in turn",
		measure.Many(c.Records, "record"), c.Size, measure.Many(max(0, c.Keys), "key"), measure.Many(r.Rounds, "round"))
}

func (c *consume) record(i int) commitlog.Record {
	r := commitlog.Record{Value: make([]byte, c.Size)}
	if c.Keys > 0 {
		r.Key = fmt.Appendf(nil, "key-%d", i%c.Keys)
	}
	return r
}

// read reads partition 0 into a buffer that is used again and again, from the beginning to the end
// and for at least half a round's time.
func (c *consume) read(ctx context.Context, rf *ringfence.Client, d time.Duration, name string) (float64, error) {
	topic, err := storage(ctx, rf, name)
	if err != nil {
		return 0, err
	}
	defer func() { _ = topic.Close() }() // only this handle
	b, err := topic.Bounds(ctx, 0)
	if err != nil {
		return 0, err
	}
	opts := commitlog.ReadOptions{MaxBytes: 256 << 10, Buf: make([]byte, 512<<10)}
	var recs []commitlog.Record
	n, began := 0, time.Now()
	for n == 0 || time.Since(began) < d/2 {
		for at := b.First; at < b.Next; {
			recs, at, err = topic.Read(ctx, 0, at, recs[:0], &opts)
			if err != nil {
				return 0, err
			}
			n += len(recs)
		}
	}
	return float64(n) / time.Since(began).Seconds(), nil
}
