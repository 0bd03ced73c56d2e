package filelog

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/segment"
)

// mergeBytes is how large a frame grows by merging appends to one partition. Larger frames save
// nothing and make a read of one record dearer.
const mergeBytes = 64 << 10

// ack answers one append of a frame. first is relative to the frame's base.
type ack struct {
	first int
	done  func(first int64, err error)
}

// pending is a frame that waits to be written: room for a header, then encoded records.
type pending struct {
	buf   []byte
	frame segment.Frame
	acks  []ack
	err   error // set by the writer
}

// batch is what the committer takes in one go.
type batch struct {
	frames []*pending
	open   []*pending // by partition: the frame that further appends join
	bytes  int
}

// appendQueue collects appends. mu is held for the encoding of one append at most.
//
// busy is the turn to commit: the goroutine that sets it may take, and looks for more once it gave it up.
// So an append needs to wake the committer only when no goroutine has the turn.
type appendQueue struct {
	limit int
	kick  chan struct{} // capacity 1: something is pending and no goroutine has the turn
	count atomic.Int64  // appends in cur; changed under mu
	busy  atomic.Bool
	last  int64 // appends that were taken last; owned by the goroutine with the turn

	mu     sync.Mutex
	cur    *batch
	spare  *batch
	free   []*pending
	room   chan struct{} // closed when cur was taken and a caller waited for it
	full   bool          // a caller waits for room
	closed bool
}

func newAppendQueue(partitions, limit int) *appendQueue {
	return &appendQueue{
		limit: limit, kick: make(chan struct{}, 1), room: make(chan struct{}),
		cur: &batch{open: make([]*pending, partitions)}, spare: &batch{open: make([]*pending, partitions)},
	}
}

// add queues one append; it waits while the batch is full.
func (in *appendQueue) add(ctx context.Context, req *driver.AppendRequest, now int64, done func(int64, error)) error {
	for {
		room, err := in.tryAdd(req, now, done)
		if room == nil {
			return err
		}
		select {
		case <-room:
		case <-ctx.Done():
			return fmt.Errorf("the write buffer is full (%d bytes): %w: %w", in.limit, fault.NotDone, ctx.Err())
		}
	}
}

// tryAdd queues one append; when the batch is full it returns what to wait for.
func (in *appendQueue) tryAdd(req *driver.AppendRequest, now int64, done func(int64, error)) (room chan struct{}, err error) {
	size := sizeOf(req.Records)
	if size > segment.MaxFrame-segment.FrameHeader {
		return nil, fmt.Errorf("a batch that takes %d bytes in the log; at most %d are allowed: %w", size, segment.MaxFrame-segment.FrameHeader, fault.Invalid)
	}
	in.mu.Lock()
	if in.closed {
		in.mu.Unlock()
		return nil, errClosed
	}
	if in.cur.bytes != 0 && in.cur.bytes+size > in.limit {
		room, in.full = in.room, true
		in.mu.Unlock()
		return room, nil
	}
	in.encode(in.frameFor(req, size, now), req, now, done)
	in.mu.Unlock()
	in.wake()
	return nil, nil
}

// begin takes the turn to commit, if it is free.
func (in *appendQueue) begin() bool { return !in.busy.Load() && in.busy.CompareAndSwap(false, true) }

// end gives the turn up and has the committer look when something is pending.
func (in *appendQueue) end() {
	in.busy.Store(false)
	if in.count.Load() > 0 {
		in.wake()
	}
}

// addSeal queues a seal behind all that is pending.
func (in *appendQueue) addSeal(done func(int64, error)) error {
	in.mu.Lock()
	if in.closed {
		in.mu.Unlock()
		return errClosed
	}
	p := in.fresh(0)
	p.frame.Kind = segment.Seal
	p.acks = append(p.acks, ack{done: done})
	clear(in.cur.open)
	in.count.Add(1)
	in.mu.Unlock()
	in.wake()
	return nil
}

// wake has the committer look, unless a goroutine has the turn and will do so.
func (in *appendQueue) wake() {
	if !in.busy.Load() {
		in.kickOff()
	}
}

func (in *appendQueue) kickOff() {
	select {
	case in.kick <- struct{}{}:
	default:
	}
}

// frameFor finds or makes the frame that an append goes into. Idempotent appends have their own,
// because the frame carries the sequence.
func (in *appendQueue) frameFor(req *driver.AppendRequest, size int, now int64) *pending {
	idempotent := req.Producer.ID != 0
	if p := in.cur.open[req.Partition]; p != nil && !idempotent && len(p.buf)+size <= mergeBytes {
		return p
	}
	p := in.fresh(size)
	p.frame.Kind = segment.Records
	p.frame.Partition = req.Partition
	p.frame.Time, p.frame.MaxTime = now, math.MinInt64
	in.cur.open[req.Partition] = p
	if idempotent {
		p.frame.ProducerID, p.frame.ProducerEpoch, p.frame.Sequence = req.Producer.ID, req.Producer.Epoch, req.Producer.Sequence
		in.cur.open[req.Partition] = nil
	}
	return p
}

func (in *appendQueue) fresh(size int) *pending {
	var p *pending
	if n := len(in.free); n > 0 {
		p, in.free = in.free[n-1], in.free[:n-1]
	} else {
		p = &pending{buf: make([]byte, 0, min(segment.FrameHeader+size, mergeBytes))}
	}
	p.buf = append(p.buf[:0], emptyHeader[:]...)
	in.cur.frames = append(in.cur.frames, p)
	in.cur.bytes += segment.FrameHeader
	return p
}

var emptyHeader [segment.FrameHeader]byte

func (in *appendQueue) encode(p *pending, req *driver.AppendRequest, now int64, done func(int64, error)) {
	before := len(p.buf)
	p.acks = append(p.acks, ack{first: p.frame.Count, done: done})
	for i := range req.Records {
		r := &req.Records[i]
		ts := r.Timestamp
		if ts == 0 {
			ts = now
		}
		p.frame.MaxTime = max(p.frame.MaxTime, ts)
		p.buf = segment.AppendRecord(p.buf, r, p.frame.Time, now)
	}
	p.frame.Count += len(req.Records)
	in.cur.bytes += len(p.buf) - before
	in.count.Add(1)
}

// sizeOf is an upper bound of what records take when encoded.
func sizeOf(recs []driver.Record) int {
	n := 0
	for i := range recs {
		r := &recs[i]
		n += 30 + len(r.Key) + len(r.Value)
		for j := range r.Headers {
			n += 10 + len(r.Headers[j].Name) + len(r.Headers[j].Value)
		}
	}
	return n
}

// takeBytes bounds what is committed at once, so that producers can encode more meanwhile.
const takeBytes = 1 << 20

// take swaps the pending batch for an empty one, or for what is beyond takeBytes of it; nil when
// nothing is pending. The caller has the turn.
func (in *appendQueue) take() *batch {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.last = in.count.Load()
	if len(in.cur.frames) == 0 {
		return nil
	}
	b := in.cur
	in.cur, in.spare = in.spare, nil
	in.count.Store(0)
	in.leave(b)
	in.last -= in.count.Load()
	if in.full {
		in.full = false
		close(in.room)
		in.room = make(chan struct{})
	}
	return b
}

// leave moves what is too much for one commit from b into cur.
func (in *appendQueue) leave(b *batch) {
	if b.bytes <= takeBytes {
		return
	}
	n, size := 0, 0
	for n < len(b.frames) && (n == 0 || size+len(b.frames[n].buf) <= takeBytes) {
		size += len(b.frames[n].buf)
		n++
	}
	rest := b.frames[n:]
	in.cur.frames = append(in.cur.frames, rest...)
	in.cur.bytes, b.bytes = b.bytes-size, size
	appends := 0
	for _, p := range rest {
		appends += len(p.acks)
		if b.open[p.frame.Partition] == p {
			in.cur.open[p.frame.Partition] = p
		}
	}
	in.count.Store(int64(appends))
	clear(rest)
	b.frames = b.frames[:n]
}

// giveBack recycles a batch that was answered. Large buffers go to the garbage collector.
func (in *appendQueue) giveBack(b *batch) {
	in.mu.Lock()
	defer in.mu.Unlock()
	kept := 0
	for _, p := range b.frames {
		if cap(p.buf) <= 2*mergeBytes && kept+cap(p.buf) <= in.limit && len(in.free) < 4096 {
			kept += cap(p.buf)
			clear(p.acks)
			*p = pending{buf: p.buf, acks: p.acks[:0]}
			in.free = append(in.free, p)
		}
	}
	clear(b.frames)
	clear(b.open)
	in.spare = &batch{frames: b.frames[:0], open: b.open}
}

// close refuses further appends.
func (in *appendQueue) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	close(in.room)
	in.room = make(chan struct{})
	in.kickOff()
}

// drained tells whether the queue is closed and nothing is pending.
func (in *appendQueue) drained() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.closed && len(in.cur.frames) == 0
}
