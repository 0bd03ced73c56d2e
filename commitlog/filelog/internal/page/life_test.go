package page

import (
	"bytes"
	"testing"

	"github.com/ringfence/ringfence/internal/segment"
)

// Recovery finds a page in whatever state, and nothing of that is left: a segment that is taken for
// prepared would get no durable name, one that is taken for bad would take no appends.
func TestAnAdoptedPageRemembersNothing(t *testing.T) {
	t.Parallel()
	p := &Page{b: bytes.Repeat([]byte{0xff}, int(Size(2)))}
	end := segment.At(7, 3*blk)
	p.Adopt(5, end, []int64{10, 20})
	for what, at := range map[string]segment.Pos{
		"written": p.Written(), "synced": p.Synced(), "acked": p.pos(wordAcked), "zeroed": p.pos(wordZeroed), "intent": p.pos(wordIntent),
		"hint": p.Hint(),
	} {
		if at != end {
			t.Errorf("%s is %v; the log ends at %v", what, at, end)
		}
	}
	for what, have := range map[string]uint64{
		"broken": p.Broken(), "prepared": p.Prepared(), "life": uint64(p.Life()), "sleepers": uint64(p.Sleepers()), "a sync under way": p.load(wordSyncing),
	} {
		if have != 0 {
			t.Errorf("%s is %#x", what, have)
		}
	}
	if p.Low() != 5 || p.First(0) != 10 || p.First(1) != 20 {
		t.Errorf("the oldest segment is %d, the partitions begin at %d and %d", p.Low(), p.First(0), p.First(1))
	}
}

// A page comes from the disk with any mixture of its words.
func TestAPositionThatDoesNotFitItsCheckIsNoHint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		word int
		hint func(p *Page) segment.Pos
	}{
		{wordSynced, (*Page).Hint},
		{wordCheck, (*Page).Hint},
		{wordMagic, (*Page).Hint},
	} {
		p := &Page{b: make([]byte, Size(1))}
		p.Adopt(1, segment.At(2, blk), []int64{0})
		p.store(c.word, p.load(c.word)+blk)
		if at := c.hint(p); at != 0 {
			t.Errorf("word %d is another one, and %v is believed", c.word, at)
		}
	}
}
