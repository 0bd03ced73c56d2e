package measure

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/script"
)

// fill makes a topic and writes records, a batch to each partition in turn, record i as record says.
func (r *run) fill(ctx context.Context, rf *ringfence.Client, name string, partitions, records, batch int, record func(i int) commitlog.Record) {
	r.Logf("writing %s to %s", Many(records, "record"), Many(partitions, "partition"))
	script.Check(rf.EnsureTopic(ctx, name, ringfence.TopicConfig{Partitions: partitions}))
	appendAll(ctx, storage(ctx, r.Script, rf, name), records/partitions*partitions, batch, record)
}

// fillKeys fills a topic with records of 100 bytes, of the keys that key says.
func (r *run) fillKeys(ctx context.Context, rf *ringfence.Client, name string, partitions, records int, key func(i int) string) {
	r.fill(ctx, rf, name, partitions, records, max(1, min(1000, records/partitions)), func(i int) commitlog.Record {
		return commitlog.Record{Key: []byte(key(i)), Value: make([]byte, 100)}
	})
}

// storage opens the only storage topic of a topic.
func storage(ctx context.Context, s *script.Script, rf *ringfence.Client, name string) *commitlog.Topic {
	d := script.Must(rf.Admin().DescribeTopic(ctx, name))
	t := script.Must(rf.Log().Topic(ctx, d.Storage[0].Name))
	s.Later(t.Close)
	return t
}

// appendAll appends so many records, a batch to each partition in turn, record i as record says.
func appendAll(ctx context.Context, t *commitlog.Topic, records, batch int, record func(i int) commitlog.Record) {
	w := NewWindow(64)
	at := 0
	w.Fill(func(int) bool { return at < records }, func(n int) {
		recs := make([]commitlog.Record, min(batch, records-at))
		for i := range recs {
			recs[i] = record(at + i)
		}
		at += len(recs)
		t.AppendAsync(ctx, n%t.Config().Partitions, recs, nil, func(_ int64, err error) { w.Leave(err) })
	})
}

// readAll reads a partition from its first record to the end that it has now.
func readAll(ctx context.Context, t *commitlog.Topic, partition int, o *commitlog.ReadOptions, use func([]commitlog.Record)) {
	b := script.Must(t.Bounds(ctx, partition))
	var recs []commitlog.Record
	var err error
	for at := b.First; at < b.Next; {
		recs, at, err = t.Read(ctx, partition, at, recs[:0], o)
		script.Check(err)
		use(recs)
	}
}

func nothing(context.Context, *ringfence.Message) error { return nil }

// consumeAll handles all records of a topic as a new group whose handler does nothing: the records a second.
func consumeAll(ctx context.Context, rf *ringfence.Client, topic, group string, records, concurrency int) float64 {
	return rate(ctx, records, nothing, func(ctx context.Context, h ringfence.Handler) error {
		return rf.Consume(ctx, topic, group, h, &ringfence.ConsumeOptions{Concurrency: concurrency})
	})
}

// rate runs a member until its handler succeeded so often: how often a second, from its first call on.
func rate(ctx context.Context, good int, h ringfence.Handler, member func(context.Context, ringfence.Handler) error) float64 {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var n, began, ended atomic.Int64
	script.Check(member(ctx, func(ctx context.Context, m *ringfence.Message) error {
		if began.Load() == 0 {
			began.CompareAndSwap(0, time.Now().UnixNano())
		}
		if err := h(ctx, m); err != nil {
			return err
		}
		if n.Add(1) == int64(good) {
			ended.Store(time.Now().UnixNano())
			cancel()
		}
		return nil
	}))
	if ended.Load() == 0 {
		script.Check(ctx.Err())
	}
	return float64(good) / (float64(max(1, ended.Load()-began.Load())) / 1e9)
}
