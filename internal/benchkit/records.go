package benchkit

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/measure"
)

// fill makes a topic and writes records, so many at a time to each partition in turn, record i as record
// says.
func fill(ctx context.Context, rf *ringfence.Client, name string, partitions, records, batch int, record func(i int) commitlog.Record) error {
	if err := rf.EnsureTopic(ctx, name, ringfence.TopicConfig{Partitions: partitions}); err != nil {
		return err
	}
	topic, err := storage(ctx, rf, name)
	if err != nil {
		return err
	}
	defer func() { _ = topic.Close() }() // only this handle
	return appendAll(ctx, topic, records/partitions*partitions, batch, record)
}

// fillKeys fills a topic with records of 100 bytes, of the keys that key says.
func fillKeys(ctx context.Context, rf *ringfence.Client, name string, partitions, records int, key func(i int) string) error {
	return fill(ctx, rf, name, partitions, records, max(1, min(1000, records/partitions)), func(i int) commitlog.Record {
		return commitlog.Record{Key: []byte(key(i)), Value: make([]byte, 100)}
	})
}

// storage opens the only storage topic of a topic.
func storage(ctx context.Context, rf *ringfence.Client, name string) (*commitlog.Topic, error) {
	d, err := rf.DescribeTopic(ctx, name)
	if err != nil {
		return nil, err
	}
	return rf.Log().Topic(ctx, d.Storage[0].Name)
}

// appendAll appends so many records, a batch to each partition in turn, record i as record says.
func appendAll(ctx context.Context, t *commitlog.Topic, records, batch int, record func(i int) commitlog.Record) error {
	w := measure.NewWindow(64)
	at := 0
	_, err := w.Fill(func(int) bool { return at < records }, func(n int) {
		recs := make([]commitlog.Record, min(batch, records-at))
		for i := range recs {
			recs[i] = record(at + i)
		}
		at += len(recs)
		t.AppendAsync(ctx, n%t.Config().Partitions, recs, nil, func(_ int64, err error) { w.Leave(err) })
	})
	return err
}

func nothing(context.Context, *ringfence.Message) error { return nil }

// consumeAll handles all records of a topic as a new group whose handler does nothing, with checkpoints and
// order per key: the records a second.
func consumeAll(ctx context.Context, rf *ringfence.Client, topic, group string, records, concurrency int) (float64, error) {
	return rate(ctx, records, nothing, func(ctx context.Context, h ringfence.Handler) error {
		return rf.Consume(ctx, topic, group, h, &ringfence.ConsumeOptions{Concurrency: concurrency})
	})
}

// rate runs a member until its handler succeeded so often: how often a second that was, from its first
// call on.
func rate(ctx context.Context, good int, h ringfence.Handler, member func(context.Context, ringfence.Handler) error) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var n, began, ended atomic.Int64
	err := member(ctx, func(ctx context.Context, m *ringfence.Message) error {
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
	})
	if err != nil || ended.Load() == 0 {
		return 0, errors.Join(err, ctx.Err())
	}
	return float64(good) / (float64(max(1, ended.Load()-began.Load())) / 1e9), nil
}

// deliverers starts members of a subscription, each with a client of its own, in this process; leave ends
// them.
func (r *run) deliverers(ctx context.Context, dir, name string, members int, h ringfence.Handler) (leave func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	errs := make([]error, members)
	leave = func() error {
		cancel()
		running.Wait()
		return errors.Join(errs...)
	}
	for i := range members {
		rf, err := r.Stores.open(ctx, r.dir+dir, ringfence.OS)
		if err != nil {
			return nil, errors.Join(err, leave())
		}
		running.Go(func() { errs[i] = errors.Join(rf.Subscribe(ctx, name, h, nil), rf.Close()) })
	}
	return leave, nil
}
