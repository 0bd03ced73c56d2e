package dispatch

import (
	"cmp"
	"slices"

	"github.com/ringfence/ringfence/group/protocol"
)

// tracker knows which records of one partition are finished. It keeps only the unfinished ones,
// linked in offset order, each with the offset of the record that was read after it: what lies
// between one's after and the next one's offset is finished. Adding and finishing are O(1), and
// memory grows with the unfinished records only, however far the others got ahead of them.
type tracker struct {
	storage, partition int

	head, tail *node
	next       int64              // the offset to read next, as the reader says: offsets have gaps, so never one + 1
	start      int64              // where it began
	told       int64              // the To of the last record
	gaps       int                // finished ranges between and above the unfinished records
	skip       []protocol.Range   // finished before the start and not yet passed; sorted, disjoint
	failing    int                // unfinished records that failed
	recalled   []protocol.Failing // failed before the start, and not yet read; sorted
	last       protocol.Stamp     // of the record below next; none: nothing was read there
	top        protocol.Stamp     // of the highest record that skip and recalled name, at the start
}

// begin sets the start position.
func (t *tracker) begin(p protocol.Position) {
	t.next, t.start, t.told = p.Next, p.Next, p.Next
	t.last, t.top = p.Last, p.Top
	t.skip = normalize(p.Done)
	t.recalled = slices.Clone(p.Failing)
	t.passSkips()
}

// normalize sorts ranges, merges what touches and drops what is empty.
func normalize(in []protocol.Range) []protocol.Range {
	rs := slices.DeleteFunc(slices.Clone(in), func(r protocol.Range) bool { return r[0] >= r[1] })
	slices.SortFunc(rs, func(a, b protocol.Range) int { return cmp.Compare(a[0], b[0]) })
	out := rs[:0]
	for _, r := range rs {
		if k := len(out) - 1; k >= 0 && r[0] <= out[k][1] {
			out[k][1] = max(out[k][1], r[1])
		} else {
			out = append(out, r)
		}
	}
	return out
}

// passSkips moves next over the finished ranges that it has reached, and forgets them.
func (t *tracker) passSkips() {
	for len(t.skip) > 0 && t.skip[0][0] <= t.next {
		if end := t.skip[0][1]; end > t.next {
			t.cover(t.next, end)
		}
		t.skip = t.skip[1:]
	}
}

// cover notes that everything in [from, to) is finished; from is at or above next.
func (t *tracker) cover(from, to int64) {
	if t.tail != nil && t.tail.after == t.next {
		t.tail.after = from // what lies before from holds no record
		t.gaps++
	}
	t.next = to
	if t.last = unknown; t.top.Known() && from <= t.top[0] && t.top[0] < to {
		t.last = t.top
	}
}

// passed notes a record that was finished before the start.
func (t *tracker) passed(r *Record) {
	if r.Offset >= t.last[0] { // else it lies in a range that was passed as a whole
		t.last = r.stamp()
	}
}

// done reports whether the record at offset was finished before the start; such a record is passed.
// Calls come in offset order and before next.
func (t *tracker) done(offset int64) bool {
	if offset < t.next {
		return true // inside a range that was passed as a whole
	}
	for len(t.skip) > 0 && t.skip[0][1] <= offset {
		t.skip = t.skip[1:] // held no record
	}
	if len(t.skip) == 0 || offset < t.skip[0][0] {
		return false
	}
	t.cover(t.skip[0][0], t.skip[0][1])
	t.skip = t.skip[1:]
	t.passSkips()
	return true
}

// add appends a record that was read; after is the offset of the one that follows it.
func (t *tracker) add(n *node, after int64) {
	n.after, n.before = after, t.last
	t.last = n.rec.stamp()
	n.prev = t.tail
	if t.tail == nil {
		t.head = n
	} else {
		if t.tail.after == t.next {
			t.tail.after = n.rec.Offset // offsets between them hold no record
		}
		t.tail.next = n
	}
	t.tail = n
	t.next = after
	t.passSkips()
}

// advance moves the read position over offsets that hold no record.
func (t *tracker) advance(next int64) {
	if next <= t.next {
		return
	}
	if t.tail != nil && t.tail.after == t.next {
		t.tail.after = next
	}
	t.next = next
	t.passSkips()
}

// finish takes a record out of the unfinished ones.
func (t *tracker) finish(n *node) {
	p, q := n.prev, n.next
	if n.fail != nil {
		t.failing--
	}
	if t.gapAfter(n) {
		t.gaps--
	}
	if p == nil {
		t.head = q
	} else {
		if !t.gapAfter(p) {
			t.gaps++
		}
		p.next = q
	}
	if q == nil {
		t.tail = p
	} else {
		q.prev = p
	}
}

// gapAfter reports whether a finished range follows n directly.
func (t *tracker) gapAfter(n *node) bool {
	if n.next == nil {
		return n.after < t.next
	}
	return n.after < n.next.rec.Offset
}

// low is the checkpoint: the lowest offset that is not finished.
func (t *tracker) low() int64 {
	if t.head == nil {
		return t.next
	}
	return t.head.rec.Offset
}

// position is the progress with at most limit finished ranges, the lowest ones. Leaving some out is
// safe: their records would be repeated.
func (t *tracker) position(limit int) protocol.Position {
	p := protocol.Position{Storage: t.storage, Partition: t.partition, Next: t.low(), Last: t.last}
	if t.head != nil {
		p.Last = t.head.before
	}
	if k := min(t.gaps+len(t.skip), limit); k > 0 {
		p.Done = make([]protocol.Range, 0, k)
	}
	for n, left := t.head, t.gaps; n != nil && left > 0 && len(p.Done) < limit; n = n.next {
		if !t.gapAfter(n) {
			continue
		}
		left--
		end := t.next
		p.Top = t.last
		if n.next != nil {
			end, p.Top = n.next.rec.Offset, n.next.before
		}
		p.Done = append(p.Done, protocol.Range{n.after, end})
	}
	if len(t.skip) > 0 || len(p.Done) > 0 && !p.Top.Known() {
		p.Top = t.top
	}
	for _, r := range t.skip {
		if len(p.Done) >= limit {
			break
		}
		p.Done = append(p.Done, r)
	}
	return p
}
