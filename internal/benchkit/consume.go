package benchkit

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
)

// ConsumeConfig says what to measure; zero fields have defaults.
type ConsumeConfig struct {
	Common
	Records     int // in one partition; default 2,000,000
	Size        int // bytes of a value; default 100
	Keys        int // different ones; default 1,000; negative: records have none
	Interleaved int // partitions of a second topic, written in turn, 16 records a frame; default 16; negative: none
	Concurrency int // handlers at once; default that of Consume
}

func (c ConsumeConfig) withDefaults() (ConsumeConfig, error) {
	c.Common = c.Common.withDefaults()
	setDefault(&c.Records, 2_000_000)
	setDefault(&c.Size, 100)
	setDefault(&c.Keys, 1000)
	setDefault(&c.Interleaved, 16)
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
	dir, remove, err := c.tempDir()
	if err != nil {
		return nil, err
	}
	defer remove()
	rf, err := ringfence.Open(ctx, ringfence.Config{Dir: dir + "/data", Durability: ringfence.OS})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rf.Close()) }()
	c.Logf("writing %d records", c.Records)
	if err := c.fill(ctx, rf, "one", 1, 1000); err != nil {
		return nil, err
	}
	var game contest
	rawName := "raw pread + CRC32C of as many bytes"
	game.add(rawName, "records/s", "", 1, func(*histogram) (float64, error) {
		return rawRead(dir+"/raw", int64(c.Records)*int64(c.Size), c.Size)
	})
	read := func(name, topic string) {
		game.add(name, "records/s", rawName, 1, func(*histogram) (float64, error) { return c.read(ctx, rf, topic) })
	}
	read("read one partition", "one")
	if c.Interleaved > 0 {
		if err := c.fill(ctx, rf, "many", c.Interleaved, 16); err != nil {
			return nil, err
		}
		read(fmt.Sprintf("read one of %d interleaved", c.Interleaved), "many")
	}
	var heap heapUse
	round := 0
	game.add("Consume, empty handler", "records/s", rawName, 1, func(*histogram) (float64, error) {
		round++
		return c.consume(ctx, rf, fmt.Sprintf("group-%d", round), &heap)
	})
	rows, err := game.run(c.Rounds, c.Logf)
	if err != nil {
		return nil, err
	}
	return &Result{Bench: "consume", Rows: rows,
		About: fmt.Sprintf("%d records of %d bytes, %d keys, warm, checksums verified, %d rounds taken in turn", c.Records, c.Size, max(0, c.Keys), c.Rounds),
		Notes: []string{fmt.Sprintf("most heap in use during Consume: %.1f MiB in the first tenth of the records, %.1f MiB later",
			float64(heap.early.Load())/(1<<20), float64(heap.late.Load())/(1<<20))}}, nil
}

// fill writes the records of partition 0, and as many to each of the others, in turn.
func (c *ConsumeConfig) fill(ctx context.Context, rf *ringfence.Client, name string, partitions, batch int) error {
	if err := rf.EnsureTopic(ctx, name, ringfence.TopicConfig{Partitions: partitions}); err != nil {
		return err
	}
	topic, err := storage(ctx, rf, name)
	if err != nil {
		return err
	}
	defer func() { _ = topic.Close() }() // only this handle
	value := make([]byte, c.Size)
	window := make(chan error, 64)
	for range cap(window) {
		window <- nil
	}
	records := c.Records / partitions
	for at := 0; at < records; at += batch {
		recs := make([]commitlog.Record, min(batch, records-at))
		for i := range recs {
			recs[i].Value = value
			if c.Keys > 0 {
				recs[i].Key = fmt.Appendf(nil, "key-%d", (at+i)%c.Keys)
			}
		}
		for p := range partitions {
			if err := <-window; err != nil {
				return err
			}
			topic.AppendAsync(ctx, p, recs, nil, func(_ int64, err error) { window <- err })
		}
	}
	for range cap(window) {
		if err := <-window; err != nil {
			return err
		}
	}
	return nil
}

// storage opens the only storage topic of a topic.
func storage(ctx context.Context, rf *ringfence.Client, name string) (*commitlog.Topic, error) {
	d, err := rf.DescribeTopic(ctx, name)
	if err != nil {
		return nil, err
	}
	return rf.Log().Topic(ctx, d.Storage[0].Name)
}

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
	opts := commitlog.ReadOptions{Buf: make([]byte, 256<<10)}
	var recs []commitlog.Record
	n, began := 0, time.Now()
	for at := b.First; at < b.Next; {
		recs, at, err = topic.Read(ctx, 0, at, recs[:0], &opts)
		if err != nil {
			return 0, err
		}
		n += len(recs)
	}
	return float64(n) / time.Since(began).Seconds(), nil
}

func (c *ConsumeConfig) consume(ctx context.Context, rf *ringfence.Client, group string, heap *heapUse) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var n atomic.Int64
	var began, ended atomic.Int64
	err := rf.Consume(ctx, "one", group, func(context.Context, *ringfence.Message) error {
		switch k := n.Add(1); {
		case k == 1:
			began.Store(time.Now().UnixNano())
		case k == int64(c.Records):
			ended.Store(time.Now().UnixNano())
			cancel()
		case k%max(1, int64(c.Records)/50) == 0:
			heap.note(k <= int64(c.Records)/10)
		}
		return nil
	}, &ringfence.ConsumeOptions{Concurrency: c.Concurrency})
	if err != nil || ended.Load() == 0 {
		return 0, errors.Join(err, ctx.Err())
	}
	return float64(c.Records) / (float64(ended.Load()-began.Load()) / 1e9), nil
}

// heapUse is the most heap that was in use early and late in a run: what grows with the records
// shows as a difference.
type heapUse struct{ early, late atomic.Uint64 }

func (h *heapUse) note(early bool) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	most := &h.late
	if early {
		most = &h.early
	}
	most.Store(max(most.Load(), m.HeapInuse))
}
