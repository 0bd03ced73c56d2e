package dispatch

import (
	"context"
	"hash/maphash"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
)

// From a partition into the schedule. One worker at a time has the reading role of an input: it owns what is
// being read, and holds no lock while it reads or waits. What a read brought is taken in by blocks, as far as
// the bounds allow, and the rest waits where it was read. The bounds are on records, bytes and finished
// ranges. A key that fails for long can use them up, and then nothing more is read: other keys can't get
// ahead without an end.
//
// The next offset moves when a record is taken in, not when it was read, so a reader that is stopped in
// between leaves nothing out.

// input is one partition being read. One worker at a time has the reading role of it (busy) and
// owns the second group of fields.
type input struct {
	source             Source
	storage, partition int
	compacted          bool

	// Guarded by Engine.mu:
	tracker     tracker
	placed      bool              // tracker has a start position
	fresh       bool              // it began at the first record that is kept, and nothing was read since
	unchecked   bool              // its start was not yet compared with what the partition has
	given       protocol.Position // the start that is to be checked
	busy        bool
	ended       bool // sealed, and read to the end
	pausedUntil time.Time
	failures    int // of the source, in a row

	// Of the worker that reads:
	scratch []commitlog.Record // space for reads
	rest    []commitlog.Record // was read and not taken in yet
	data    *memory            // what rest lies in
	upTo    int64              // the offset after rest
	nodes   []*node            // of what is being taken in
	bytes   int                // average of a record; 0: not known
	trouble trouble
}

// readable returns an input to be read now; nil: none.
func (e *Engine) readable() *input {
	if e.phase != active || e.paused && !e.look || e.sched.ready >= readAhead || !e.room() {
		return nil
	}
	full := e.retained >= e.cfg.MaxBytes && e.sched.unfinished > 0
	for i := range e.inputs {
		in := e.inputs[(e.turn+i)%len(e.inputs)]
		if in.busy || in.ended || !in.pausedUntil.IsZero() || in.tracker.gaps >= e.cfg.MaxRanges || full && len(in.rest) == 0 {
			continue
		}
		return in
	}
	return nil
}

// full reports whether a bound keeps every input from being read.
func (e *Engine) full() bool {
	if !e.room() || e.retained >= e.cfg.MaxBytes && e.sched.unfinished > 0 {
		return true
	}
	for _, in := range e.inputs {
		if in.tracker.gaps < e.cfg.MaxRanges {
			return false
		}
	}
	return true
}

// room reports whether enough records may be taken in to be worth the effort.
func (e *Engine) room() bool {
	return e.cfg.MaxInFlight-e.sched.unfinished >= min(blockRecords, max(1, e.cfg.MaxInFlight/4))
}

// take gives the reading role of in to the caller.
func (e *Engine) take(in *input) {
	in.busy, e.look = true, false
	e.turn++
}

// read brings records of in into the schedule, waiting for some.
func (e *Engine) read(ctx context.Context, in *input) {
	var err error
	if !in.placed { // only the reader writes it
		err = e.place(ctx, in)
	}
	if err == nil {
		err = e.checkMarks(ctx, in)
	}
	if err == nil && len(in.rest) == 0 {
		err = e.fetch(ctx, in)
	}
	if err != nil {
		if ctx.Err() == nil {
			e.refused(ctx, in, err)
		}
		return
	}
	e.answered(in)
	e.takeIn(in)
}

// place begins an input at the first record that is kept.
func (e *Engine) place(ctx context.Context, in *input) error {
	b, err := in.source.Bounds(ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	in.tracker.begin(protocol.Position{Next: b.First})
	in.placed, in.fresh = true, true
	e.advanced()
	return nil
}

// fetch reads the next records into in.rest. It brings none when the partition is sealed and read
// to the end, or when it was woken in vain.
func (e *Engine) fetch(ctx context.Context, in *input) error {
	offset := in.tracker.next // only the reader writes it
	recs, next, err := in.source.Read(ctx, offset, in.scratch[:0], e.budget(in))
	if len(recs) == 0 && err == nil && next == offset {
		if err = in.source.Wait(ctx, offset); err == nil {
			recs, next, err = in.source.Read(ctx, offset, in.scratch[:0], e.budget(in))
		}
	}
	if len(recs) == 0 && err != nil { // else it comes again with the next read
		return err
	}
	in.scratch, in.rest, in.upTo = recs, recs, next
	if len(recs) == 0 && next == offset {
		return e.barren(ctx, in)
	}
	total := 0
	for i := range recs {
		total += commitlog.RecordBytes(&recs[i])
	}
	if len(recs) > 0 {
		in.bytes = total/len(recs) + 1
		in.data = &memory{live: len(recs), count: len(recs), bytes: int64(total), from: in, lost: e.tooLate, atWork: e.isAt}
		e.mu.Lock()
		e.retained += in.data.bytes
		e.mu.Unlock()
	}
	return nil
}

// barren handles a wait that ended without a record.
func (e *Engine) barren(ctx context.Context, in *input) error {
	b, err := in.source.Bounds(ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if in.ended = b.Sealed && in.tracker.next >= b.Next; in.ended {
		if e.cfg.OnHeld != nil {
			e.evict(time.Now(), AtTheEnd, func(n *node) bool { return n.rec.data.from == in }, 1)
		}
		e.advanced()
	} else {
		e.hold(in, time.Millisecond<<min(in.failures, 7))
	}
	return nil
}

// hold delays the next read of in.
func (e *Engine) hold(in *input, d time.Duration) {
	in.failures++
	in.pausedUntil = time.Now().Add(d)
	e.arm(in.pausedUntil)
}

// budget is how many bytes the next read should bring.
func (e *Engine) budget(in *input) int {
	if in.bytes == 0 {
		return 32 << 10
	}
	return int(min(readBytes, int64(in.bytes)*int64(min(readRecords, e.cfg.MaxInFlight)), max(1, e.cfg.MaxBytes/4)))
}

// takeIn moves a block of what was read into the schedule.
func (e *Engine) takeIn(in *input) {
	nodes := e.prepare(in, min(len(in.rest), blockRecords, e.cfg.MaxInFlight))
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.phase == stopped {
		return
	}
	used := 0
	for used < len(nodes) && e.sched.unfinished < e.cfg.MaxInFlight {
		e.admit(in, nodes[used], used)
		used++
	}
	for _, n := range nodes[used:] {
		e.pool.put(n)
	}
	if used == 0 && in.upTo == in.tracker.next {
		return
	}
	in.fresh, in.failures = false, 0
	e.advanced()
	now := time.Now()
	if due, ok := e.sched.nextRetry(); ok {
		e.arm(due)
	}
	e.relieve(now)
	if in.rest = in.rest[used:]; len(in.rest) == 0 {
		in.tracker.advance(in.upTo)
		clear(in.scratch)
		in.data = nil
	}
}

// prepare makes nodes of the first k records of in.rest, mostly without holding the lock.
func (e *Engine) prepare(in *input, k int) []*node {
	in.nodes = in.nodes[:0]
	e.mu.Lock()
	for range k {
		in.nodes = append(in.nodes, e.pool.get())
	}
	e.mu.Unlock()
	for i, n := range in.nodes {
		r := &n.rec
		r.Record, r.Storage, r.Partition, r.Attempt, r.data = in.rest[i], in.storage, in.partition, 1, in.data
		key := e.sched.leaders.orderingKey(r)
		n.hash = maphash.Bytes(e.seed, key)
		n.keyed = key != nil || e.cfg.OrderBy == nil && e.cfg.Concurrency == 1 // a record that OrderBy orders with nothing is ordered with nothing
	}
	return in.nodes
}

// admit takes in the i-th record of in.rest, unless it was finished before the start.
func (e *Engine) admit(in *input, n *node, i int) {
	after := in.upTo
	if i+1 < len(in.rest) {
		after = in.rest[i+1].Offset
	}
	if in.tracker.done(n.rec.Offset) {
		in.tracker.passed(&n.rec)
		e.release(in.data)
		e.pool.put(n)
		return
	}
	n.rec.From, n.rec.To, n.rec.Start = in.tracker.told, after, in.tracker.start
	in.tracker.told = after
	e.retained += nodeBytes
	in.tracker.add(n, after)
	e.recall(in, n)
	e.sched.add(n)
}
