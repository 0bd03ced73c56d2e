package history

import (
	"iter"
	"maps"
	"math/bits"
	"slices"

	"github.com/ringfence/ringfence/group/protocol"
)

// Histories have millions of records, so what is known of each is some bits, in pages that exist where
// something is known. What needs more, which epochs have finished a record, is kept only above the frontier,
// which a checkpoint moves up: below it nobody asks any more, except in an exact history, where a store may
// go back.

const pageRecords = 512

// page holds what is known of 512 adjacent offsets.
type page struct {
	known   [pageRecords / 64]uint64 // acknowledged or started: the record exists
	acked   [pageRecords / 64]uint64
	started [pageRecords / 64]uint64 // at least once since the last seek behind it
	done    [pageRecords / 64]uint64 // finished at least once since then
	values  *[pageRecords]uint32     // fingerprints; 0: not known
}

// epochs are those in which somebody finished a record.
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
	unit      int // that works on it; none as long as nobody did
	pages     map[int64]*page
	low, high int64 // numbers of the first and last page
	end       int64 // one past the highest record that is known

	frontier int64            // where the checkpoint stands
	finished map[int64]epochs // who finished a record at or above frontier
	excused  []protocol.Range
}

func newPartition() *partition {
	return &partition{unit: none, pages: map[int64]*page{}, finished: map[int64]epochs{}}
}

// slot returns the page, word and bit of an offset.
func (p *partition) slot(offset int64) (pg *page, word int, bit uint64) {
	n := offset / pageRecords
	pg = p.pages[n]
	if pg == nil {
		pg = &page{}
		if len(p.pages) == 0 {
			p.low, p.high = n, n
		}
		p.pages[n] = pg
		p.low, p.high = min(p.low, n), max(p.high, n)
	}
	r := offset % pageRecords
	return pg, int(r / 64), 1 << (r % 64)
}

// know notes that a record exists and says whether its value is what it was before.
func (p *partition) know(e *Event) bool {
	pg, w, bit := p.slot(e.Offset)
	pg.known[w] |= bit
	p.end = max(p.end, e.Offset+1)
	if e.Value == 0 {
		return true
	}
	if pg.values == nil {
		pg.values = new([pageRecords]uint32)
	}
	v := &pg.values[e.Offset%pageRecords]
	seen := max(1, uint32(e.Value)^uint32(e.Value>>32))
	if *v == 0 {
		*v = seen
	}
	return *v == seen
}

// scan calls f for each record in [from, to) of which the words that pick chooses have a bit.
func (p *partition) scan(from, to int64, pick func(pg *page, word int) uint64, f func(offset int64)) {
	if len(p.pages) == 0 {
		return
	}
	from, to = max(from, 0), max(to, 0)
	for n, pg := range p.between(max(from/pageRecords, p.low), min((to-1)/pageRecords, p.high)) {
		for w := range pg.known {
			base := n*pageRecords + int64(w)*64
			for word := pick(pg, w) & within(base, from, to); word != 0; word &= word - 1 {
				f(base + int64(bits.TrailingZeros64(word)))
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

// within masks the bits of the 64 offsets at base that are in [from, to).
func within(base, from, to int64) uint64 {
	if to <= base || from-base >= 64 {
		return 0
	}
	mask := ^uint64(0)
	if from > base {
		mask <<= from - base
	}
	if to-base < 64 {
		mask &= 1<<(to-base) - 1
	}
	return mask
}

func known(pg *page, w int) uint64   { return pg.known[w] }
func started(pg *page, w int) uint64 { return pg.started[w] }
func missed(pg *page, w int) uint64  { return pg.acked[w] &^ pg.done[w] }

// pass moves the frontier up to next and returns how many records on the way ok denies, and the
// first of them. forget says that who finished them will not be asked again.
func (p *partition) pass(next int64, forget bool, ok func(offset int64) bool) (first int64, n int) {
	p.scan(p.frontier, next, known, func(o int64) {
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
	p.scan(next, p.end, known, func(o int64) {
		pg, w, bit := p.slot(o)
		if pg.done[w]&bit != 0 {
			undone++
		}
		pg.done[w] &^= bit
		pg.started[w] &^= bit
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
	finish := func(o int64) {
		pg, w, bit := p.slot(o)
		pg.started[w] |= bit
		if pg.done[w]&bit == 0 {
			pg.done[w] |= bit
			undone--
		}
	}
	for _, r := range append([]protocol.Range{{0, pos.Next}}, pos.Done...) {
		p.scan(r[0], r[1], known, finish)
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
		finish(o)
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
	for _, r := range p.excused {
		if r[0] <= offset && offset < r[1] {
			return true
		}
	}
	return false
}

// missing returns how many acknowledged records nobody finished, and the first of them.
func (p *partition) missing() (first int64, n int64) {
	p.scan(0, p.end, missed, func(o int64) {
		if p.isExcused(o) {
			return
		}
		if n == 0 {
			first = o
		}
		n++
	})
	return first, n
}
