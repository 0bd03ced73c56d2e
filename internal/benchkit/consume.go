package benchkit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
)

// ConsumeConfig says what to measure; zero fields have defaults.
type ConsumeConfig struct {
	Common
	Records     int // of each topic; default 2,000,000
	Size        int // bytes of a value; default 100
	Keys        int // different ones; default 1,000; negative: records have none
	Interleaved int // partitions of a second topic, written in turn, 16 records a frame; default 16; negative: none
	Partitions  int // of a third topic, for the handlers; default 8; negative: none
	Concurrency int // handlers at once; default that of Consume
}

func (c ConsumeConfig) withDefaults() (ConsumeConfig, error) {
	c.Common = c.Common.withDefaults()
	setDefault(&c.Records, 2_000_000)
	setDefault(&c.Size, 100)
	setDefault(&c.Keys, 1000)
	setDefault(&c.Interleaved, 16)
	setDefault(&c.Partitions, 8)
	var d demand
	d.positive("--records", c.Records)
	d.positive("--size", c.Size)
	d.that(c.Concurrency >= 0, "--concurrency is negative")
	return c, errors.Join(d.errs...)
}

// Consume measures reads through commitlog and through Consume with an empty handler.
func Consume(ctx context.Context, c ConsumeConfig) (_ *Result, err error) {
	c, err = c.withDefaults()
	if err != nil {
		return nil, err
	}
	c.Stores = c.apart()
	dir, remove, err := c.tempDir()
	if err != nil {
		return nil, err
	}
	defer remove()
	rf, err := c.open(ctx, dir+"/data", ringfence.OS)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.clean(ctx, rf), rf.Close()) }()
	game := contest{rest: c.rest}
	game.add(rawReadName, "records/s", "", 1, func(*histogram) (float64, error) {
		return rawRead(dir+"/raw", int64(c.Records)*int64(c.Size), c.Size)
	})
	if err := c.enterReads(ctx, &game, rf); err != nil {
		return nil, err
	}
	if err := c.enterHandlers(ctx, &game, rf); err != nil {
		return nil, err
	}
	rows, figures, err := game.run(c.Rounds, c.Logf)
	if err != nil {
		return nil, err
	}
	return &Result{Bench: "consume", Rows: rows, Figures: figures,
		About: fmt.Sprintf("%s of %d bytes a topic, %s, warm, checksums verified, %s taken in turn%s",
			many(c.Records, "record"), c.Size, many(max(0, c.Keys), "key"), many(c.Rounds, "round"), c.about())}, nil
}

const (
	rawReadName = "raw pread + CRC32C of as many bytes"

	readFloor    = 20e6 // records a second through commitlog
	consumeFloor = 2e6  // and through Consume
)

// enterReads fills the topics that are read through commitlog and enters the reads.
func (c *ConsumeConfig) enterReads(ctx context.Context, game *contest, rf *ringfence.Client) error {
	for _, t := range []struct {
		topic, name       string
		partitions, batch int
	}{
		{"one", "read one partition", 1, 1000},
		{"many", fmt.Sprintf("read one of %d interleaved", c.Interleaved), c.Interleaved, 16},
	} {
		if t.partitions < 1 {
			continue
		}
		if err := c.fill(ctx, rf, t.topic, t.partitions, t.batch); err != nil {
			return err
		}
		e := game.add(t.name, "records/s", rawReadName, 1, func(*histogram) (float64, error) { return c.read(ctx, rf, t.topic) })
		if c.Size <= 100 {
			e.atLeast(t.name+", warm, verified", readFloor)
		}
	}
	return nil
}

// enterHandlers enters Consume with an empty handler, on one partition and on several.
func (c *ConsumeConfig) enterHandlers(ctx context.Context, game *contest, rf *ringfence.Client) error {
	round := 0
	enter := func(topic string, partitions int) {
		name := "Consume, empty handler, " + many(partitions, "partition")
		records := c.Records / partitions * partitions
		e := game.add(name, "records/s", rawReadName, 1, func(*histogram) (float64, error) {
			round++
			return c.consume(ctx, rf, topic, fmt.Sprintf("group-%d", round), records)
		})
		if c.Size <= 100 {
			e.atLeast(name, consumeFloor)
		}
	}
	enter("one", 1)
	if c.Partitions < 1 {
		return nil
	}
	enter("some", c.Partitions)
	return c.fill(ctx, rf, "some", c.Partitions, 1000)
}

// fill makes a topic and writes its records, so many at a time to each partition in turn.
func (c *ConsumeConfig) fill(ctx context.Context, rf *ringfence.Client, name string, partitions, batch int) error {
	c.Logf("writing %s to %s", many(c.Records, "record"), many(partitions, "partition"))
	if err := rf.EnsureTopic(ctx, name, ringfence.TopicConfig{Partitions: partitions}); err != nil {
		return err
	}
	topic, err := storage(ctx, rf, name)
	if err != nil {
		return err
	}
	defer func() { _ = topic.Close() }() // only this handle
	return appendAll(ctx, topic, c.Records/partitions*partitions, batch, c.record)
}

// record is the i-th record of a topic.
func (c *ConsumeConfig) record(i int) commitlog.Record {
	r := commitlog.Record{Value: make([]byte, c.Size)}
	if c.Keys > 0 {
		r.Key = fmt.Appendf(nil, "key-%d", i%c.Keys)
	}
	return r
}

// storage opens the only storage topic of a topic.
func storage(ctx context.Context, rf *ringfence.Client, name string) (*commitlog.Topic, error) {
	d, err := rf.DescribeTopic(ctx, name)
	if err != nil {
		return nil, err
	}
	return rf.Log().Topic(ctx, d.Storage[0].Name)
}

// read reads partition 0 into a buffer that is used again and again, from the beginning to the end
// and for at least a round's time.
func (c *ConsumeConfig) read(ctx context.Context, rf *ringfence.Client, name string) (float64, error) {
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
	for n == 0 || time.Since(began) < c.For/2 {
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

// consume handles all records of a topic as a new group, with checkpoints and order per key.
func (c *ConsumeConfig) consume(ctx context.Context, rf *ringfence.Client, topic, group string, records int) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var n, began, ended atomic.Int64
	err := rf.Consume(ctx, topic, group, func(context.Context, *ringfence.Message) error {
		switch n.Add(1) {
		case 1:
			began.Store(time.Now().UnixNano())
		case int64(records):
			ended.Store(time.Now().UnixNano())
			cancel()
		}
		return nil
	}, &ringfence.ConsumeOptions{Concurrency: c.Concurrency})
	if err != nil || ended.Load() == 0 {
		return 0, errors.Join(err, ctx.Err())
	}
	return float64(records) / (float64(ended.Load()-began.Load()) / 1e9), nil
}
