package protocol

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestRecordsFinishedInAnyOrderCoverTheirPartition finishes records with gaps between their
// offsets in a random order, some of them twice.
func TestRecordsFinishedInAnyOrderCoverTheirPartition(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.Int64Range(0, 5).Draw(t, "start")
		var all []Finished
		at, offset := start, start
		for range rapid.IntRange(1, 20).Draw(t, "records") {
			offset += rapid.Int64Range(0, 3).Draw(t, "gap")
			next := offset + 1
			all = append(all, Finished{Storage: 1, Partition: 2, Offset: offset, Time: 1000 + offset, From: at, To: next, Start: start})
			at, offset = next, next
		}
		order := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)).Perm(len(all))
		c := Checkpoint{Positions: []Position{{Storage: 0, Partition: 2, Next: 7}}}
		done := map[int]bool{}
		for _, i := range order {
			if !c.finish(all[i]) {
				t.Fatalf("%+v counts as finished before it was: %+v", all[i], c)
			}
			if c.finish(all[i]) {
				t.Fatalf("%+v is finished twice: %+v", all[i], c)
			}
			done[i] = true
			low := 0
			for done[low] {
				low++
			}
			want := at
			if low < len(all) {
				want = all[low].From
			}
			p := c.Positions[1]
			if p.Next != want {
				t.Fatalf("after %v of %+v the checkpoint is %+v; expected next %d", done, all, p, want)
			}
			newest, below := Stamp{}, Stamp{}
			for j, f := range all {
				if done[j] {
					newest = Stamp{f.Offset, f.Time}
				}
				if j < low {
					below = Stamp{f.Offset, f.Time}
				}
			}
			if p.Done == nil && p.Last != newest || p.Done != nil && p.Top != newest || p.Last != below && (p.Last[0] >= 0 || p.Done == nil) {
				t.Fatalf("after %v of %+v the stamps of %+v are not those of %v and %v", done, all, p, below, newest)
			}
			for j, f := range all { // what is not done is in no range
				if c2 := (Checkpoint{Positions: []Position{{Storage: 1, Partition: 2, Next: p.Next, Done: append([]Range(nil), p.Done...)}}}); !done[j] && !c2.finish(f) {
					t.Fatalf("%+v is covered by %+v and was not finished", f, p)
				}
			}
		}
		if p := c.Positions[1]; p.Next != at || p.Done != nil || c.Positions[0].Next != 7 {
			t.Fatalf("in the end: %+v; expected next %d", c, at)
		}
	})
}
