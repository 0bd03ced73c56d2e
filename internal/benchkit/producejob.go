package benchkit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
)

// keepBytes is what is kept of a topic: older segments are used again, as in a log that has run
// for a while.
const keepBytes = 160 << 20

// produceJob is what one process does.
type produceJob struct {
	Dir        string
	Partitions int
	InFlight   int
	Async      bool
	Size       int
	Batch      int
	Durability driver.Durability
	For        time.Duration
}

// run produces for a while. With ready it says that it is set up and waits for the start.
func (j *produceJob) run(ctx context.Context, at Stores, ready func() error) (out message, err error) {
	rf, err := at.open(ctx, j.Dir, j.Durability)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, rf.Close()) }()
	name := fmt.Sprintf("bench-%d", j.Partitions)
	if err := rf.EnsureTopic(ctx, name, ringfence.TopicConfig{Partitions: j.Partitions, RetentionBytes: keepBytes}); err != nil {
		return out, err
	}
	topic, err := storage(ctx, rf, name)
	if err != nil {
		return out, err
	}
	if ready != nil {
		if err := ready(); err != nil {
			return out, err
		}
	}
	if j.Async {
		return j.stream(ctx, topic)
	}
	return j.callers(ctx, topic)
}

func (j *produceJob) records() []commitlog.Record {
	recs := make([]commitlog.Record, j.Batch)
	value := make([]byte, j.Size)
	for i := range recs {
		recs[i].Value = value
	}
	return recs
}

// callers are goroutines that each wait for their append before the next one.
func (j *produceJob) callers(ctx context.Context, topic *commitlog.Topic) (message, error) {
	var total atomic.Int64
	var wg sync.WaitGroup
	hists, errs := make([]histogram, j.InFlight), make([]error, j.InFlight)
	began := time.Now()
	for i := range j.InFlight {
		wg.Go(func() {
			recs := j.records()
			n := int64(0)
			for last := began; last.Sub(began) < j.For; {
				if _, errs[i] = topic.Append(ctx, i%j.Partitions, recs, nil); errs[i] != nil {
					return
				}
				now := time.Now()
				hists[i].add(now.Sub(last))
				last = now
				n++
			}
			total.Add(n)
		})
	}
	wg.Wait()
	took := time.Since(began)
	var all histogram
	for i := range hists {
		all.merge(hists[i].sparse())
	}
	return message{PerSecond: float64(total.Load()) * float64(j.Batch) / took.Seconds(), Latency: all.sparse()}, errors.Join(errs...)
}

// stream is one goroutine that keeps a window of appends under way.
func (j *produceJob) stream(ctx context.Context, topic *commitlog.Topic) (message, error) {
	window := make(chan struct{}, j.InFlight)
	var failed atomic.Pointer[error]
	done := func(_ int64, err error) {
		if err != nil {
			failed.Store(&err)
		}
		<-window
	}
	// Records must stay untouched until they are stored; these are never touched.
	recs := j.records()
	n, began := 0, time.Now()
	for ; n%64 != 0 || time.Since(began) < j.For; n++ {
		window <- struct{}{}
		topic.AppendAsync(ctx, n%j.Partitions, recs, nil, done)
	}
	for range j.InFlight {
		window <- struct{}{}
	}
	took := time.Since(began)
	if err := failed.Load(); err != nil {
		return message{}, *err
	}
	return message{PerSecond: float64(n) * float64(j.Batch) / took.Seconds()}, nil
}
