package filelog

import "github.com/ringfence/ringfence/internal/segment"

// tally is how far each partition went, as far as a walk can tell. Where a walk meets damage, any
// partition may have had records in there: doubt counts them, never too few, until the next sound
// frame of the partition says where it stands. Only the holder of the write lock may turn doubt into
// offsets, by the bases of a new segment; a reader never does.
type tally struct {
	next  []int64
	doubt []int64
}

func newTally(bases []int64) tally {
	t := tally{next: make([]int64, len(bases)), doubt: make([]int64, len(bases))}
	copy(t.next, bases)
	return t
}

func (t *tally) saw(f *segment.Frame) {
	if f.Kind == segment.Records && f.Partition < len(t.next) {
		t.next[f.Partition], t.doubt[f.Partition] = f.Next(), 0
	}
}

// lost counts damage. f is the frame that stood there, as its header says, when that is sound.
func (t *tally) lost(bad *segment.Damage, f *segment.Frame) {
	if bad.Named {
		t.saw(f)
		return
	}
	t.lostBytes(bad.To - bad.From)
}

func (t *tally) lostBytes(n int64) {
	for p := range t.doubt {
		t.doubt[p] += segment.MostRecords(n)
	}
}

// bases are offsets that were never given out, and none before them can be any more.
func (t *tally) bases() []int64 {
	out := make([]int64, len(t.next))
	for p := range out {
		out[p] = t.next[p] + t.doubt[p]
	}
	return out
}

func (t *tally) copy() tally {
	c := newTally(t.next)
	copy(c.doubt, t.doubt)
	return c
}
