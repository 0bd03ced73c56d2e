package kafkalog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A broker answers the requests of one connection one after another, so a long poll keeps its
// connection busy until something comes, and a partition that a reader begins to wait for
// meanwhile can't join it. So there are a few polls to a broker, each with its own connections: the first
// one polls for long and for nearly everything; the others take in what comes in between, and hand it
// over when the first one polls again.
const longPolls = 3

func longestWait(k int) time.Duration {
	return [longPolls]time.Duration{10 * time.Second, time.Second, 250 * time.Millisecond}[k]
}

// firstWait is how long the first request of a long poll takes; each one after it takes twice as long, up
// to longestWait.
const firstWait = 125 * time.Millisecond

// keepPolling is for how long after the last Wait a partition stays in the poll, so that a reader
// that comes back finds its records.
const keepPolling = 30 * time.Second

// interest is a partition's part in the long polls. It is guarded by reads.mu.
type interest struct {
	on     bool      // it belongs to one
	last   time.Time // of Wait
	beyond bool      // the reader waits for an offset above the end
}

// poller holds the long polls to one broker.
type poller struct {
	l      *kafkaLog
	broker int32

	mu    sync.Mutex
	polls [longPolls]longPoll
}

type longPoll struct {
	parts   map[*partition]struct{}
	polling bool
}

func (lp *longPoll) add(p *partition) {
	if lp.parts == nil {
		lp.parts = map[*partition]struct{}{}
	}
	lp.parts[p] = struct{}{}
}

// watch makes p part of a long poll.
func (l *kafkaLog) watch(p *partition) {
	p.read.mu.Lock()
	on := p.read.poll.on
	p.read.poll.on = true
	p.read.mu.Unlock()
	if on {
		return
	}
	broker := p.s.leader(p.index)
	l.mu.Lock()
	po := l.pollers[broker]
	if po == nil {
		po = &poller{l: l, broker: broker}
		l.pollers[broker] = po
	}
	l.mu.Unlock()
	po.add(p)
}

// add gives p to the first long poll that is idle, or else to the one that comes back soonest.
func (po *poller) add(p *partition) {
	po.mu.Lock()
	k := 0
	for k < longPolls-1 && po.polls[k].polling {
		k++
	}
	lp := &po.polls[k]
	lp.add(p)
	begin := !lp.polling
	lp.polling = true
	po.mu.Unlock()
	if begin && !po.l.start(func() { po.run(k) }) {
		po.mu.Lock()
		lp.polling = false
		po.mu.Unlock()
	}
}

// run is a long poll until no partition is left in it. It is joined by the log's Close.
func (po *poller) run(k int) {
	// The first polls are short: readers that begin to wait at the same time come together soon.
	wait := firstWait
	for n := 0; ; {
		list := po.gather(k)
		if len(list) == 0 {
			return
		}
		err := po.round(k, wait, list)
		if err == nil {
			n, wait = 0, min(2*wait, longestWait(k))
			continue
		}
		if po.l.ctx.Err() == nil {
			po.l.c.Logger.Debug("waiting for records", "broker", po.broker, "error", err)
		}
		sleep(po.l.ctx, n)
		n++
		po.scatter(k, list)
	}
}

// gather is what long poll k asks for next. The first one takes over what the others have.
func (po *poller) gather(k int) []want {
	po.mu.Lock()
	defer po.mu.Unlock()
	lp := &po.polls[k]
	for j := k + 1; k == 0 && j < longPolls; j++ {
		for p := range po.polls[j].parts {
			lp.add(p)
		}
		clear(po.polls[j].parts)
	}
	var list []want
	for p := range lp.parts {
		if from, ok := p.pollFrom(po.l.ctx); ok {
			list = append(list, want{p, from})
		} else {
			delete(lp.parts, p)
		}
	}
	lp.polling = len(list) > 0
	return list
}

// pollFrom is where a long poll of p begins: where a reader waits, or at the end if some reader
// got there lately and will come back.
func (p *partition) pollFrom(ctx context.Context) (from int64, ok bool) {
	r := &p.read
	r.mu.Lock()
	defer r.mu.Unlock()
	from, ok = r.lowest()
	if !ok || r.poll.beyond {
		from = r.end
	}
	if !ok && time.Since(r.poll.last) < keepPolling {
		for _, f := range r.feeds {
			ok = ok || f.end == r.end && f.bytes < feedBytes
		}
	}
	r.poll.on = ok && ctx.Err() == nil && !p.s.gone.Load() && !p.s.sealed.Load()
	return from, r.poll.on
}

// round is one long poll.
func (po *poller) round(k int, wait time.Duration, list []want) error {
	client, err := po.l.pollClient(k)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(po.l.ctx, wait+2*requestTimeout)
	defer cancel()
	resp, err := fetch(ctx, client, po.broker, wait, fetchBytes, list)
	if err != nil {
		return err
	}
	var failed error
	quiet := true
	for _, w := range list {
		part := fetched(resp, w.p)
		if part == nil {
			continue
		}
		switch err := kerr.ErrorForCode(part.ErrorCode); {
		case errors.Is(err, kerr.OffsetOutOfRange):
			quiet = false
			if err := w.p.beyond(ctx, w.offset); err != nil {
				failed = err
			}
		case err != nil:
			failed = err
		default:
			quiet = quiet && len(part.RecordBatches) == 0
			w.p.take(part, w.offset)
		}
	}
	if quiet && k == 0 && failed == nil {
		for s := range storesOf(list) {
			s.suspectSeal(0)
		}
	}
	return failed
}

func storesOf(list []want) map[*store]struct{} {
	set := map[*store]struct{}{}
	for _, w := range list {
		set[w.p.s] = struct{}{}
	}
	return set
}

// take buffers what a poll brought, and wakes its readers.
func (p *partition) take(part *kmsg.FetchResponseTopicPartition, from int64) {
	got := &feed{start: from, end: from}
	if !follows(part.RecordBatches, from) {
		part.RecordBatches = nil // the reader asks twice
	}
	got.add(part.RecordBatches, newAborts(part.AbortedTransactions))
	r := &p.read
	r.mu.Lock()
	r.saw(part.LogStartOffset, part.LastStableOffset)
	r.poll.beyond = false
	for _, f := range r.feeds {
		if len(got.spans) > 0 && f.end == from && f.bytes < feedBytes {
			f.spans = append(f.spans, got.spans...)
			f.bytes += got.bytes
			f.end = got.end
		}
	}
	end := r.end
	r.mu.Unlock()
	r.wake(end)
	for i := range got.spans {
		if got.spans[i].isMarker() {
			p.s.suspectSeal(sealPatience)
		}
	}
}

// beyond deals with a poll from an offset outside of the partition: at the end it goes on.
func (p *partition) beyond(ctx context.Context, offset int64) error {
	b, err := p.bounds(ctx)
	if err != nil {
		return err
	}
	r := &p.read
	r.mu.Lock()
	r.saw(b.First, b.Next)
	r.poll.beyond = true
	r.mu.Unlock()
	if offset < b.First {
		r.wake(-1) // it was trimmed: reading it will say so
	} else {
		r.wake(b.Next)
	}
	return nil
}

// scatter takes partitions out of a long poll after a failure; their readers bring them back, to the
// broker that leads them then.
func (po *poller) scatter(k int, list []want) {
	po.mu.Lock()
	for _, w := range list {
		delete(po.polls[k].parts, w.p)
	}
	po.mu.Unlock()
	ctx, cancel := context.WithTimeout(po.l.ctx, requestTimeout)
	defer cancel()
	if client, err := po.l.pollClient(k); err == nil {
		// Each client knows the brokers' addresses by itself, and they may have changed.
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = []kmsg.MetadataRequestTopic{} // no topics: brokers only
		if _, err := req.RequestWith(ctx, client); err != nil {
			po.l.c.Logger.Debug("looking for the brokers", "error", err)
		}
	}
	for s := range storesOf(list) {
		if err := s.refresh(ctx); err != nil {
			po.l.c.Logger.Debug("looking for the leaders of a topic", "topic", s.config.Name, "error", err)
		}
	}
	for _, w := range list {
		w.p.read.mu.Lock()
		w.p.read.poll.on = false
		w.p.read.mu.Unlock()
		w.p.read.wake(-1)
	}
}

// pollClient is the client whose connections long poll k uses.
func (l *kafkaLog) pollClient(k int) (*kgo.Client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done {
		return nil, errClosed
	}
	if l.polls[k] == nil {
		c, err := l.c.client()
		if err != nil {
			return nil, err
		}
		l.polls[k] = c
	}
	return l.polls[k], nil
}
