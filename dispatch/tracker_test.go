package dispatch

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
)

// TestTrackerAgreesWithASet plays records with gaps, finished in any order, some of them before
// the start, against a plain set of finished offsets.
func TestTrackerAgreesWithASet(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		start := rapid.Int64Range(0, 50).Draw(rt, "start")
		var done []protocol.Range
		for range rapid.IntRange(0, 4).Draw(rt, "ranges") {
			from := rapid.Int64Range(0, 150).Draw(rt, "from")
			done = append(done, protocol.Range{from, from + rapid.Int64Range(0, 20).Draw(rt, "length")})
		}
		initial := protocol.Position{Next: start, Done: slices.Clone(done)}
		stamp := func(offset int64) protocol.Stamp { return protocol.Stamp{offset, 1000 + offset} }
		if start > 0 {
			initial.Last = stamp(start - 1)
		}
		if top := initial.Highest() - 1; top >= start {
			initial.Top = stamp(top)
		}
		var tr tracker
		tr.begin(initial)
		exists := map[int64]bool{}
		finished := map[int64]bool{}
		var open []*node
		next := tr.next
		for step := range rapid.IntRange(0, 200).Draw(rt, "steps") {
			if len(open) > 0 && rapid.Bool().Draw(rt, "finish") {
				i := rapid.IntRange(0, len(open)-1).Draw(rt, "which")
				tr.finish(open[i])
				finished[open[i].rec.Offset] = true
				open = slices.Delete(open, i, i+1)
			} else {
				off := next + rapid.Int64Range(0, 2).Draw(rt, "gap")
				next = off + 1
				exists[off] = true
				if covers([]protocol.Position{initial}, off) {
					finished[off] = true
				}
				r := Record{Record: commitlog.Record{Offset: off, Timestamp: stamp(off)[1]}}
				if tr.done(off) != finished[off] {
					rt.Fatalf("step %d: done(%d) is %v", step, off, !finished[off])
				}
				if finished[off] {
					tr.passed(&r)
				} else {
					n := &node{rec: r}
					tr.add(n, next)
					open = append(open, n)
				}
			}
			checkTracker(rt, &tr, initial, exists, finished, open)
		}
	})
}

func checkTracker(rt *rapid.T, tr *tracker, initial protocol.Position, exists, finished map[int64]bool, open []*node) {
	p := tr.position(1 << 20)
	for off := range exists {
		if covers([]protocol.Position{p}, off) != finished[off] {
			rt.Fatalf("offset %d: finished %v, position %+v", off, finished[off], p)
		}
	}
	for off := tr.next; off < tr.next+200; off++ { // not read yet
		if covers([]protocol.Position{p}, off) != covers([]protocol.Position{initial}, off) {
			rt.Fatalf("offset %d ahead: position %+v, start %+v", off, p, initial)
		}
	}
	checkStamps(rt, p, initial, exists)
	if !slices.IsSortedFunc(p.Done, func(a, b protocol.Range) int { return int(a[1] - b[0]) }) {
		rt.Fatalf("ranges overlap or are out of order: %+v", p)
	}
	if len(open) == 0 && p.Next != tr.next {
		rt.Fatalf("all is finished up to %d, and Next is %d", tr.next, p.Next)
	}
	if cut := tr.position(2); cut.Next != p.Next || !slices.Equal(cut.Done, p.Done[:min(2, len(p.Done))]) {
		rt.Fatalf("cut to two ranges: %+v of %+v", cut, p)
	}
}

// checkStamps compares the stamps of a position with the records that were read, and those that its start knew.
func checkStamps(rt *rapid.T, p, initial protocol.Position, exists map[int64]bool) {
	highest := func(end int64) protocol.Stamp {
		at := initial.Last[0]
		for off := range exists {
			if off < end {
				at = max(at, off)
			}
		}
		return protocol.Stamp{at, 1000 + at}
	}
	top := func(s protocol.Stamp, end int64) bool {
		return s == initial.Top && s[0] < end && s[0] > highest(end)[0]
	}
	if below := highest(p.Next); below[0] > 0 && p.Last != below && !top(p.Last, p.Next) && (p.Last != unknown || !p.Top.Known() || p.Done == nil) {
		rt.Fatalf("the record before next is %v: %+v, start %+v", below, p, initial)
	}
	if end := p.Highest(); p.Done != nil && p.Top != highest(end) && !top(p.Top, end) {
		rt.Fatalf("the highest finished record is %v: %+v, start %+v", highest(end), p, initial)
	}
}

func TestScheduleRunsOneRecordOfAKeyAndForgetsIdleKeys(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var s schedule
		order := map[string][]*node{} // by key, unfinished
		var claims []*node
		for range rapid.IntRange(1, 300).Draw(rt, "steps") {
			switch rapid.IntRange(0, 3).Draw(rt, "step") {
			case 0:
				key := fmt.Sprint(rapid.IntRange(0, 200).Draw(rt, "key"))
				n := &node{rec: Record{Record: commitlog.Record{Key: []byte(key)}}, keyed: true, hash: uint64(len(key))} // all collide
				order[key] = append(order[key], n)
				s.add(n)
			case 1:
				claims = s.take(claims, len(claims)+rapid.IntRange(1, 5).Draw(rt, "claim"), false)
			case 2:
				if len(claims) > 0 {
					n := claims[0]
					claims = claims[1:]
					key := string(n.rec.Key)
					if order[key][0] != n {
						rt.Fatalf("a record of key %s is claimed before an earlier one", key)
					}
					order[key] = order[key][1:]
					s.finish(n)
				}
			case 3:
				k := rapid.IntRange(0, len(claims)).Draw(rt, "keep")
				s.giveBack(claims[k:])
				claims = claims[:k]
			}
		}
		keys := 0
		for _, open := range order {
			if len(open) > 0 {
				keys++
			}
		}
		if s.leaders.count != keys {
			rt.Fatalf("%d keys are known; %d have records", s.leaders.count, keys)
		}
		for s.giveBack(claims); s.ready > 0; {
			for _, n := range s.take(nil, 1, false) {
				s.finish(n)
			}
		}
		if s.unfinished != 0 || s.leaders.count != 0 {
			rt.Fatalf("%d records and %d keys are left", s.unfinished, s.leaders.count)
		}
	})
}

func TestARetriedRecordDoesNotTakeFollowersThatAreClaimedElsewhere(t *testing.T) {
	t.Parallel()
	var s schedule
	var nodes []*node
	for range 3 {
		n := &node{rec: Record{Record: commitlog.Record{Key: []byte("k")}}, keyed: true}
		nodes = append(nodes, n)
		s.add(n)
	}
	first := s.take(nil, 2, false)
	first[0].fail = &failure{}
	s.retry(first[0]) // while its worker has not got round to passing over the second one
	s.expire(time.Now())
	if second := s.take(nil, 3, false); len(second) != 1 || second[0] != nodes[0] {
		t.Fatalf("%d records were claimed; expected only the retried one", len(second))
	}
	s.giveBack(first[1:])
	s.finish(nodes[0])
	if third := s.take(nil, 3, false); len(third) != 2 || third[0] != nodes[1] || third[1] != nodes[2] {
		t.Fatalf("%d records were claimed; expected both followers", len(third))
	}
}

// The records of a range may be gone since, by compaction say. The one behind it is none of them.
func TestTheRecordBehindAFinishedRangeThatIsEmptyIsNotSkipped(t *testing.T) {
	t.Parallel()
	var tr tracker
	tr.begin(protocol.Position{Next: 0, Done: []protocol.Range{{2, 4}}})
	if tr.done(0) {
		t.Fatal("offset 0 was never finished")
	}
	tr.add(&node{rec: Record{Record: commitlog.Record{Offset: 0}}}, 1)
	if tr.done(4) {
		t.Error("offset 4 is passed; finished was what lies from 2 to 3")
	}
}
