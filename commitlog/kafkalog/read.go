package kafkalog

import (
	"context"
	"slices"
	"sync"

	"github.com/ringfence/ringfence/commitlog/driver"
)

const (
	// feeds is how many readers at different places of a partition each keep a buffer.
	feeds = 4
	// feedBytes is what a feed buffers ahead: the next fetch begins when it falls below.
	feedBytes = 2 << 20
	// aheadBytes is what one fetch asks for at most, of a reader that reads on and on.
	aheadBytes = 4 << 20
)

// reads is the reading side of a partition. mu is held for work in memory only.
type reads struct {
	mu      sync.Mutex
	feeds   []*feed
	clock   uint64
	first   int64 // the highest first offset that was seen
	end     int64 // the highest end that was seen
	waiters map[*waiter]struct{}
	poll    interest
}

// feed finds the buffer for a reader at an offset, or makes one in place of the least used.
func (r *reads) feed(offset int64) *feed {
	r.clock++
	var found, oldest *feed
	for _, f := range r.feeds {
		if f.has(offset) && (found == nil || f.start == offset) {
			found = f
		}
		if oldest == nil || f.used < oldest.used {
			oldest = f
		}
	}
	if found == nil {
		found = &feed{start: offset, end: offset}
		if len(r.feeds) < feeds {
			r.feeds = append(r.feeds, found)
		} else {
			r.feeds[slices.Index(r.feeds, oldest)] = found
		}
	}
	found.used = r.clock
	return found
}

// saw takes note of the bounds that a broker told.
func (r *reads) saw(first, end int64) {
	r.first, r.end = max(r.first, first), max(r.end, end)
}

func (r *reads) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.feeds = nil
}

// Read serves from the buffer, and asks the broker when nothing is buffered.
func (h *handle) Read(ctx context.Context, req driver.ReadRequest, dst []driver.Record) ([]driver.Record, int64, error) {
	if err := h.usable(ctx); err != nil {
		return dst, req.Offset, err
	}
	p := h.s.parts[req.Partition]
	if req.Offset < 0 {
		return dst, req.Offset, p.outOfRange(ctx, req.Offset)
	}
	for asked := (*feed)(nil); ; { // and others may have put it away meanwhile, or read what was in it
		r := &p.read
		r.mu.Lock()
		if req.Offset < r.first {
			r.mu.Unlock()
			if err := p.trimmed(ctx, req.Offset); err != nil {
				return dst, req.Offset, err
			}
			continue
		}
		f := asked
		if f == nil || !f.has(req.Offset) {
			f = r.feed(req.Offset)
		}
		if f.seek(req.Offset); len(f.spans) > 0 {
			recs, next, err := p.serve(f, req, dst)
			r.mu.Unlock()
			return recs, next, err
		}
		if f == asked {
			r.mu.Unlock()
			return dst, req.Offset, nil
		}
		other := f.filling
		if other == nil {
			f.filling = make(chan struct{})
		}
		r.mu.Unlock()
		if other != nil {
			select {
			case <-other:
			case <-ctx.Done():
				return dst, req.Offset, ctx.Err()
			case <-h.closed:
			}
			if err := h.usable(ctx); err != nil {
				return dst, req.Offset, err
			}
			continue
		}
		if err := p.fill(ctx, f); err != nil {
			return dst, req.Offset, err
		}
		asked = f
	}
}

// serve reads from a feed that has something, and begins the next fetch early. mu is held.
func (p *partition) serve(f *feed, req driver.ReadRequest, dst []driver.Record) ([]driver.Record, int64, error) {
	mem := arena{buf: req.Buf[:0]}
	if cap(mem.buf) == 0 {
		mem.buf = make([]byte, 0, min(req.MaxBytes, f.bytes)+64)
	}
	recs, next, err := f.read(req.Offset, req.MaxBytes, dst, &mem, p.s.l.decompress)
	if err != nil {
		err = &driver.CorruptError{
			Topic: p.s.config.Name, Partition: p.index, Offset: next, Resume: f.spans[0].h.last + 1,
			File: "Kafka topic " + p.s.kafkaName, Position: next, Detail: err.Error(),
		}
		f.spans, f.bytes, f.start, f.end = nil, 0, next, next
		return recs, next, err
	}
	if f.bytes < max(feedBytes, f.ahead) && f.end < p.read.end && f.filling == nil && slices.Contains(p.read.feeds, f) {
		f.filling = make(chan struct{})
		f.ahead = min(max(fetchBytes, 2*f.ahead), aheadBytes)
		if !p.s.l.start(func() { p.prefetch(f) }) {
			close(f.filling)
			f.filling = nil
		}
	}
	return recs, next, nil
}

// prefetch fills a feed ahead of its reader. It runs beside, and is joined by the log's Close.
func (p *partition) prefetch(f *feed) {
	if err := p.fill(p.s.l.ctx, f); err != nil && p.s.l.ctx.Err() == nil {
		p.s.l.c.Logger.Debug("reading ahead", "topic", p.s.config.Name, "partition", p.index, "error", err)
	}
}

// fill fetches what follows a feed. Its caller has set filling.
func (p *partition) fill(ctx context.Context, f *feed) error {
	p.read.mu.Lock()
	from, bytes := f.end, max(fetchBytes, f.ahead)
	p.read.mu.Unlock()
	part, err := p.verifyFetch(ctx, from, bytes)
	p.read.mu.Lock()
	defer p.read.mu.Unlock()
	close(f.filling)
	f.filling = nil
	if err != nil {
		return err
	}
	p.read.saw(part.LogStartOffset, part.LastStableOffset)
	if f.end == from {
		f.add(part.RecordBatches, newAborts(part.AbortedTransactions))
	}
	return nil
}
