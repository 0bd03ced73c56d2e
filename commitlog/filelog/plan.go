package filelog

import (
	"slices"

	"github.com/ringfence/ringfence/internal/segment"
)

// Recovery decides by rules that know nothing of files, so that they can be tested by the
// thousand: evidence in, plan out. What they keep is this.
//
// What was promised stays. A position was promised when a frame, a header or the page calls it
// synced. The log is cut at the first byte at or above all promises where no sound frame of the
// chain stands; what is damaged below is named, and kept. What is cut was never acknowledged as
// durable.
//
// What was given out is not given out again. Bases of a new segment lie past whatever the damaged
// bytes, or a segment that is lost, can have held, and past what was trimmed. A newest segment that
// is gone is known by the promises that name it.
//
// What is cut does not come back. Sound frames behind the cut are wiped, or lie behind the end that
// the next segment's header gives the segment, before anything is acknowledged there.
//
// A plan that was carried out in part, and made again, is the same plan or a stricter one: it only
// removes and wipes what lies behind the cut, and starts a segment that holds nothing yet.

// mostInSegment is more than the bytes that any segment has for frames.
const mostInSegment = MaxSegmentBytes + segment.MaxFrame

// plan is what recovery does.
type plan struct {
	low    uint64
	cut    segment.Pos // the end of the log
	synced segment.Pos // what is known to be durable; behind it bytes are written again
	damage []placed
	remove []uint64 // segment files behind the end
	wipe   int64    // behind the cut, up to here, frames stand that are not part of the log; 0: none
	next   []int64  // offsets that were never given out
	fresh  bool     // the log goes on in a new segment behind the cut, with next as its bases
}

type placed struct {
	number uint64
	segment.Damage
}

func (p *plan) spoilt(n uint64, bad segment.Damage) { p.damage = append(p.damage, placed{n, bad}) }

// decide makes the plan. false: there is no segment that anything could go on from.
func decide(ev *evidence) (*plan, bool) {
	p := &plan{synced: ev.hint}
	for _, f := range ev.found {
		p.synced = max(p.synced, f.claims)
	}
	top := ev.top(p.synced)
	if len(ev.numbers) == 0 || top == 0 {
		return p, false
	}
	if p.low = ev.oldest; p.low == 0 {
		p.low = ev.numbers[0]
	}
	w := &weighing{ev: ev, p: p, tally: newTally(make([]int64, ev.partitions))}
	w.start = ev.from
	if n := p.synced.Number(); n > 0 && n < ev.from { // what was promised last stands in front of all that is left
		w.start = n
	}
	for n := w.start; n <= top && !w.over; n++ {
		w.segment(n, n == top)
	}
	for _, n := range ev.numbers {
		if n > p.cut.Number() {
			p.remove = append(p.remove, n)
		}
	}
	w.goOn()
	return p, w.headers > 0
}

// top is the newest segment of the log, or else the oldest one with a header: something must be left.
// What stands behind it was in preparation, or was never acknowledged as durable.
func (ev *evidence) top(promised segment.Pos) uint64 {
	last := promised.Number()
	lowest := last // with a header
	for _, n := range slices.Backward(ev.unbroken(promised)) {
		switch {
		case n <= last || ev.counts(n, promised):
			if n < ev.from || ev.headed(n) {
				return max(n, last)
			}
			return max(lowest, last)
		case ev.found[n] != nil && ev.found[n].header != nil:
			lowest = n
		}
	}
	return max(lowest, last)
}

// unbroken are the segments up to the first one that was not promised and does not count. What
// stands behind it was never acknowledged as durable: the log is cut there, as at a frame. But something must be left.
func (ev *evidence) unbroken(promised segment.Pos) []uint64 {
	for i, n := range ev.numbers {
		if n > promised.Number() && ev.found[n] != nil && !ev.counts(n, promised) && ev.headed(n-1) {
			return ev.numbers[:i]
		}
	}
	return ev.numbers
}

// headed tells whether a segment up to n has a sound header.
func (ev *evidence) headed(n uint64) bool {
	for m, f := range ev.found {
		if m <= n && f.header != nil {
			return true
		}
	}
	return false
}

// weighing goes through the segments, oldest first.
type weighing struct {
	ev      *evidence
	p       *plan
	tally   tally
	start   uint64
	headers int  // sound ones
	over    bool // the cut was found
	fresh   bool // the newest segment must not be written to any more
}

func (w *weighing) segment(n uint64, newest bool) {
	f := w.ev.found[n]
	if f == nil || f.header == nil {
		w.lostSegment(n, f)
		return
	}
	w.headers++
	if !w.ev.counts(n, w.p.synced) {
		w.givenUp(n, f)
		return
	}
	w.tally = newTally(f.header.Bases)
	w.fresh = false
	for i := range f.gaps {
		t := &f.gaps[i]
		if from := segment.At(n, t.From); from >= w.p.synced {
			w.p.cut, w.over = from, true
			w.tally = t.before.copy()
			w.p.wipe = f.lastSound(t.From)
			return
		}
		w.p.spoilt(n, t.Damage)
		w.fresh = true
	}
	w.tally = f.after.copy()
	w.p.cut = segment.At(n, f.end)
	if last := len(f.gaps) - 1; last >= 0 {
		w.p.cut = max(w.p.cut, segment.At(n, f.gaps[last].To))
	}
	if newest {
		w.tail(n, f)
	}
}

// givenUp deals with a header that is all that was ever written to a segment, and that nothing
// promised: others may have gone on in front of it, so its bases are no more than a bound.
func (w *weighing) givenUp(n uint64, f *found) {
	for p, base := range f.header.Bases {
		w.tally.next[p] = max(w.tally.next[p], base)
	}
	w.p.cut = segment.At(n, f.header.Length)
	w.fresh = w.fresh || n > w.start
}

// lostSegment deals with a file that is missing, or has no header of this segment. Nothing in it
// was promised when its header never reached the disk; then there is nothing to say.
func (w *weighing) lostSegment(n uint64, f *found) {
	w.p.cut = segment.At(n, 0)
	if w.p.synced.Number() == n {
		w.p.cut = w.p.synced
	}
	bad := segment.Damage{To: segment.Block, Detail: "the segment is missing"}
	size := int64(mostInSegment)
	if f != nil {
		bad.Detail, size = "the segment is lost: "+f.why, max(f.limit, size)
		for p, next := range f.after.next {
			w.tally.next[p] = max(w.tally.next[p], next)
		}
	}
	w.tally.lostBytes(size)
	w.fresh = true
	if f == nil || w.p.synced > segment.At(n, 0) {
		w.p.spoilt(n, bad)
	}
}

// tail deals with the end of the newest segment when more was promised than stands there. How much
// more was acknowledged since the promise is not known.
func (w *weighing) tail(n uint64, f *found) {
	if promised := w.p.synced; promised.Number() == n && promised.Off() > f.end {
		w.p.spoilt(n, segment.Damage{From: f.end, To: promised.Off(), Detail: "acknowledged frames are missing"})
		w.tally.lostBytes(max(f.limit, promised.Off()) - f.end)
		w.p.cut, w.fresh = promised, true
	}
}

// lastSound is the end of the last frame of a segment when that lies behind the cut; else 0.
func (f *found) lastSound(cut int64) int64 {
	end := max(f.end, f.beyond)
	for i := range f.gaps {
		if f.gaps[i].Named {
			end = max(end, f.gaps[i].To)
		}
	}
	if end <= cut {
		return 0
	}
	return end
}

// goOn decides whether the log goes on in its newest segment.
func (w *weighing) goOn() {
	bases := w.tally.bases()
	for p, first := range w.ev.trim {
		if first > bases[p] { // trimmed further than what a crash left: readers may stand there
			bases[p], w.fresh = first, true
		}
	}
	w.p.next, w.p.fresh = bases, w.fresh
	if w.fresh {
		w.p.wipe = 0
	}
}
