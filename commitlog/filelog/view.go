package filelog

import (
	"sort"
	"sync"
	"sync/atomic"

	"github.com/ringfence/ringfence/internal/segment"
)

// Readers find frames without a lock of the kernel: every process walks the newest segment by
// itself, by the headers of its frames, as far as the page says that it is visible, and keeps where
// the frames of each partition are. A walk goes on where the last one stopped, so each process looks at each
// header once. When a segment is full its index
// file has the same, and the view goes on in the next one.

// view is what this process knows of the newest segment, up to the visible position: where the
// frames of each partition are. mu guards all of it; it is never held while a segment is read,
// except for walking the headers of new frames.
type view struct {
	s       *store
	waiting atomic.Int64 // waiters; checked before mu is taken
	at      atomic.Uint64

	mu      sync.Mutex
	seg     *seg
	off     int64
	sealed  bool
	parts   []part
	waiters [][]chan struct{} // by partition
}

// part is one partition in the newest segment.
type part struct {
	base, next int64
	frames     frameList
	maxTime    int64
	doubt      bool // damage behind the newest frame may have held more
}

func (v *view) init(partitions int) {
	v.parts = make([]part, partitions)
	v.waiters = make([][]chan struct{}, partitions)
}

// letGo leaves a segment below low; advance walks the newest one from its start then.
func (v *view) letGo(low uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.seg != nil && v.seg.number < low {
		v.s.segs.put(v.seg)
		v.seg = nil
	}
}

// advance follows the visible position. The caller holds mu.
func (v *view) advance() error {
	at := segment.Pos(v.s.visible())
	if v.seg != nil && v.at.Load() >= uint64(at) {
		return nil
	}
	if v.seg == nil || v.seg.number != at.Number() {
		if err := v.enter(at.Number()); err != nil {
			return err
		}
	}
	if err := guard(func() { v.walkTo(at.Off()) }); err != nil {
		return err
	}
	v.at.Store(uint64(at))
	return nil
}

// enter goes to the start of segment n.
func (v *view) enter(n uint64) error {
	g, err := v.s.segs.get(n)
	if err != nil {
		return err
	}
	if v.seg != nil {
		v.s.segs.put(v.seg)
	}
	v.seg, v.off, v.sealed = g, g.h.Length, g.h.Sealed
	for i := range v.parts {
		p := &v.parts[i]
		base := g.h.Bases[i]
		moved := base > p.next
		*p = part{base: base, next: base}
		if moved {
			v.wake(i)
		}
	}
	if v.sealed {
		v.wakeAll()
	}
	return nil
}

// walkTo takes in the frames up to end. Over damage it invents nothing: a frame behind it says
// where its partition stands, and a partition without one stays where it is known to be, until the
// holder of the write lock decides.
func (v *view) walkTo(end int64) {
	w := segment.Walker{Data: v.seg.data, Epoch: v.seg.h.Epoch(), Off: v.off}
	for {
		var f segment.Frame
		off, bad, err := w.Next(end, &f)
		v.off = w.Off
		switch {
		case err != nil:
			v.off = end
			return
		case bad != nil:
			v.s.reportDamage(v.seg.number, bad)
			for i := range v.parts {
				v.parts[i].doubt = true
			}
		case f.Kind == segment.Seal:
			v.sealed = true
			v.wakeAll()
		case f.Partition < len(v.parts):
			p := &v.parts[f.Partition]
			p.frames.add(uint32(f.Base-p.base), uint32(off))
			p.next, p.doubt = f.Next(), false
			p.maxTime = max(p.maxTime, f.MaxTime)
			v.wake(f.Partition)
		}
	}
}

func (v *view) wake(partition int) {
	for _, ch := range v.waiters[partition] {
		close(ch)
		v.waiting.Add(-1)
	}
	v.waiters[partition] = v.waiters[partition][:0]
}

func (v *view) wakeAll() {
	for p := range v.waiters {
		v.wake(p)
	}
}

// news wakes the waiters of this process for what became visible.
func (v *view) news() {
	if v.waiting.Load() == 0 {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.s.gone() || v.s.displaced.Load() || v.advance() != nil {
		v.wakeAll() // they will find out
	}
}

// frameList is the frames of one partition in the newest segment: offset relative to the base,
// and place. It grows in pieces, so that it never copies and wastes little.
type frameList struct {
	pieces [][]indexed
	n      int
}

type indexed struct{ rel, off uint32 }

const pieceLen = 512

func (l *frameList) add(rel, off uint32) {
	last := len(l.pieces) - 1
	if l.n%pieceLen == 0 {
		l.pieces = append(l.pieces, make([]indexed, 0, 16))
		last++
	}
	l.pieces[last] = append(l.pieces[last], indexed{rel, off})
	l.n++
}

func (l *frameList) at(i int) indexed { return l.pieces[i/pieceLen][i%pieceLen] }

// search is the last frame that starts at or below rel; -1 when there is none.
func (l *frameList) search(rel int64) int {
	return sort.Search(l.n, func(i int) bool { return int64(l.at(i).rel) > rel }) - 1
}
