package history

import (
	"iter"
	"maps"
	"slices"

	"github.com/ringfence/ringfence/group/protocol"
)

// What is known of each of millions of records is eight bytes, in pages. The epochs that have finished a record are
// kept only above the frontier, which a checkpoint moves up, or in an exact history, where a store may go back.

const pageRecords = 512

// record is what is known of a record.
type record struct {
	value   uint32 // fingerprint; 0: not known
	known   bool   // acknowledged or started: it exists
	acked   bool
	started bool // at least once since the last seek behind it
	done    bool // finished at least once since then
}

// page holds 512 adjacent offsets.
type page [pageRecords]record

// epochs are those in which a record was finished.
type epochs struct {
	top  int64 // the highest
	rest []int64
}

func (s epochs) with(epoch int64) epochs {
	switch {
	case epoch == s.top:
		return s
	case s.top == 0:
		return epochs{top: epoch}
	}
	return epochs{top: max(s.top, epoch), rest: append(slices.Clip(s.rest), min(s.top, epoch))}
}

func (s epochs) upTo(epoch int64) (kept epochs) {
	for _, e := range append(slices.Clip(s.rest), s.top) {
		if e <= epoch && e != 0 {
			kept = kept.with(e)
		}
	}
	return kept
}

// partition is what is known of the records of one partition.
type partition struct {
	unit      int // that works on it; none before the first
	pages     map[int64]*page
	low, high int64 // numbers of the first and last page
	end       int64 // one past the highest record that is known

	frontier int64            // where the checkpoint stands
	finished map[int64]epochs // the epochs that finished a record at or above frontier
	excused  []protocol.Range
}

func newPartition() *partition {
	return &partition{unit: none, pages: map[int64]*page{}, finished: map[int64]epochs{}}
}

// at is what is known of an offset.
func (p *partition) at(offset int64) *record {
	n := offset / pageRecords
	pg := p.pages[n]
	if pg == nil {
		pg = new(page)
		if len(p.pages) == 0 {
			p.low, p.high = n, n
		}
		p.pages[n] = pg
		p.low, p.high = min(p.low, n), max(p.high, n)
	}
	return &pg[offset%pageRecords]
}

// know notes that a record exists and says whether its value is what it was before.
func (p *partition) know(e *Event) bool {
	r := p.at(e.Offset)
	r.known = true
	p.end = max(p.end, e.Offset+1)
	if e.Value == 0 {
		return true
	}
	seen := max(1, uint32(e.Value)^uint32(e.Value>>32))
	if r.value == 0 {
		r.value = seen
	}
	return r.value == seen
}

// scan calls f for each record in [from, to) that exists.
func (p *partition) scan(from, to int64, f func(offset int64, r *record)) {
	if from, to = max(from, 0), min(to, p.end); from >= to {
		return
	}
	for n, pg := range p.between(max(from/pageRecords, p.low), min((to-1)/pageRecords, p.high)) {
		base := n * pageRecords
		for o := max(from, base); o < min(to, base+pageRecords); o++ {
			if r := &pg[o-base]; r.known {
				f(o, r)
			}
		}
	}
}

// between gives the pages from first to last that exist, in order. It takes no longer than there are
// pages: a store may say, and be wrong, that a record stands a million billion places after the others.
func (p *partition) between(first, last int64) iter.Seq2[int64, *page] {
	return func(yield func(int64, *page) bool) {
		if last-first < 2*int64(len(p.pages)) {
			for n := first; n <= last; n++ {
				if pg := p.pages[n]; pg != nil && !yield(n, pg) {
					return
				}
			}
			return
		}
		for _, n := range slices.Sorted(maps.Keys(p.pages)) {
			if first <= n && n <= last && !yield(n, p.pages[n]) {
				return
			}
		}
	}
}

// pass moves the frontier up to next, and counts the records on the way that ok denies. forget drops their epochs.
func (p *partition) pass(next int64, forget bool, ok func(offset int64) bool) (first int64, n int) {
	p.scan(p.frontier, next, func(o int64, _ *record) {
		if !ok(o) {
			if n == 0 {
				first = o
			}
			n++
		}
		if forget {
			delete(p.finished, o)
		}
	})
	p.frontier = max(p.frontier, next)
	return first, n
}

// seek forgets what was done at and after next, and excuses what a jump forward leaves out.
func (p *partition) seek(next int64) (undone int64) {
	if next > p.frontier {
		p.excuse(p.frontier, next)
	}
	p.scan(next, p.end, func(_ int64, r *record) {
		if r.done {
			undone++
		}
		r.done, r.started = false, false
	})
	p.excused = slices.DeleteFunc(p.excused, func(r protocol.Range) bool { return r[0] >= next })
	for i := range p.excused {
		p.excused[i][1] = min(p.excused[i][1], next)
	}
	p.frontier = next
	return undone
}

// restore goes back to a checkpoint and the epoch that it was written in: what it covers is done
// again, as when a seek behind it is undone, and so is what owners up to that epoch finished. Epoch 0 is
// before the first owner; what is known of later ones is kept then, for the store may know them again.
func (p *partition) restore(pos protocol.Position, epoch int64) (undone int64) {
	finish := func(_ int64, r *record) {
		if !r.done {
			undone--
		}
		r.started, r.done = true, true
	}
	for _, r := range append([]protocol.Range{{0, pos.Next}}, pos.Done...) {
		p.scan(r[0], r[1], finish)
	}
	for o, by := range p.finished {
		if epoch == 0 {
			break
		}
		if by = by.upTo(epoch); by.top == 0 {
			delete(p.finished, o)
			continue
		}
		p.finished[o] = by
		finish(o, p.at(o))
	}
	p.frontier = pos.Next
	return undone
}

func (p *partition) excuse(from, to int64) {
	if from < to {
		p.excused = append(p.excused, protocol.Range{from, to})
	}
}

func (p *partition) isExcused(offset int64) bool {
	return slices.ContainsFunc(p.excused, func(r protocol.Range) bool { return r[0] <= offset && offset < r[1] })
}

// missing returns how many acknowledged records were never finished, and the first of them.
func (p *partition) missing() (first int64, n int64) {
	p.scan(0, p.end, func(o int64, r *record) {
		if !r.acked || r.done || p.isExcused(o) {
			return
		}
		if n == 0 {
			first = o
		}
		n++
	})
	return first, n
}
