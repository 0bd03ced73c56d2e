package page

import (
	"testing"

	"github.com/ringfence/ringfence/internal/segment"
)

// disk answers as it is told, and counts what it was asked for.
type disk struct {
	syncs, rewrites int
	err             error
}

func (d *disk) Sync(uint64, segment.Pos) (bool, error) { d.syncs++; return true, d.err }

func (d *disk) Again(uint64, segment.Pos, segment.Pos) error { d.rewrites++; return d.err }

// Somebody was killed over an fdatasync, and left a mark. Until the bytes were written again no other
// fdatasync is a proof, however often writing them fails: for want of a descriptor, say.
func TestADoubtLastsUntilTheBytesWereWrittenAgain(t *testing.T) {
	t.Parallel()
	p := &Page{b: make([]byte, Size(1))}
	p.Adopt(1, segment.At(1, blk), []int64{0})
	p.Publish(segment.At(1, 2*blk), false)
	p.store(wordSyncing, uint64(p.Written()))
	d := &disk{err: errIO}
	for range 3 {
		if err := p.Lead(d, true); err == nil || p.Synced() == p.Written() {
			t.Fatalf("%v, synced up to %v, though the disk fails", err, p.Synced())
		}
	}
	if d.err = nil; p.Lead(d, true) != nil || p.Synced() != p.Written() {
		t.Fatalf("synced up to %v of %v", p.Synced(), p.Written())
	}
	if d.syncs != 0 || d.rewrites != 4 {
		t.Errorf("%d syncs and %d rewrites; expected 4 rewrites and nothing else", d.syncs, d.rewrites)
	}
	p.Publish(segment.At(1, 3*blk), false)
	if err := p.Lead(d, true); err != nil || d.syncs != 1 || d.rewrites != 4 {
		t.Errorf("%v, %d syncs and %d rewrites; the doubt is over", err, d.syncs, d.rewrites)
	}
}
