package dispatch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testlog"
)

// What a checkpoint says of records that are not there yet would hide them once they are: the log went
// back, or a stranger wrote it.
func TestMarksBeyondTheEndHideNoRecord(t *testing.T) {
	t.Parallel()
	far := []protocol.Failing{{Offset: 25, Attempts: 1 << 30, Due: 1 << 53, Pause: 1 << 53}}
	for name, c := range map[string]struct {
		start   protocol.Position
		seal    bool
		skipped []int64
		named   bool
	}{
		"none":                     {start: protocol.Position{Next: 3}},
		"below the end":            {start: protocol.Position{Next: 3, Done: []protocol.Range{{5, 7}, {9, 20}}}, skipped: []int64{5, 6, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}},
		"one beyond the end":       {start: protocol.Position{Next: 3, Done: []protocol.Range{{5, 7}, {9, 21}}}, named: true},
		"all beyond the end":       {start: protocol.Position{Next: 3, Done: []protocol.Range{{22, 1 << 62}}}, named: true},
		"not in order":             {start: protocol.Position{Next: 3, Done: []protocol.Range{{22, 25}, {5, 7}}}, named: true},
		"from the position on":     {start: protocol.Position{Next: 3, Done: []protocol.Range{{3, 26}}}, named: true},
		"at the end":               {start: protocol.Position{Next: 20, Done: []protocol.Range{{21, 29}}}, named: true},
		"a record that fails":      {start: protocol.Position{Next: 3, Failing: far}, named: true},
		"of a partition at an end": {start: protocol.Position{Next: 3, Done: []protocol.Range{{25, 26}}}, seal: true, named: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := filled(20, 2)
				if c.seal {
					l.seal()
				}
				var mu sync.Mutex
				var out testlog.Buffer
				var seen []int64
				e := mustNew(t, Config{
					Inputs: l.input(), Start: []protocol.Position{c.start}, Logger: out.Logger(),
					OnHeld: func(context.Context, *Record, Held) error { return later{time.Hour} },
					Handler: func(_ context.Context, r *Record) error {
						mu.Lock()
						defer mu.Unlock()
						seen = append(seen, r.Offset)
						return nil
					},
				})
				launch(t, e)
				rest(time.Second)
				end := int64(20)
				if !c.seal {
					l.fill(10, 2)
					end = 30
				}
				rest(time.Minute)
				slices.Sort(seen)
				var want []int64
				for o := c.start.Next; o < end; o++ {
					if !slices.Contains(c.skipped, o) {
						want = append(want, o)
					}
				}
				if !slices.Equal(seen, want) {
					t.Errorf("the records %v were handled; expected %v", seen, want)
				}
				if p := e.Progress().Positions[0]; p.Next != end || len(p.Done)+len(p.Failing) > 0 {
					t.Errorf("the progress is %+v; expected that it is at %d and names nothing above", p, end)
				}
				if named := strings.Contains(out.String(), "names records that the partition has not got"); named != c.named {
					t.Errorf("people were told: %t; expected %t: %s", named, c.named, out.String())
				}
			})
		})
	}
}

// A partition that can't be asked for its end leaves the marks as they are, until it can.
func TestMarksWaitForTheEndOfTheirPartition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := filled(20, 2)
		dumb := &unboundedLog{fakeLog: l, fails: 3}
		start := protocol.Position{Next: 3, Done: []protocol.Range{{5, 7}, {22, 25}}}
		e := mustNew(t, Config{Inputs: []Input{{Source: dumb}}, Start: []protocol.Position{start}, Handler: func(context.Context, *Record) error { return nil }})
		launch(t, e)
		synctest.Wait()
		if p := e.Progress().Positions[0]; p.Next != 3 || !slices.Equal(p.Done, start.Done) {
			t.Errorf("before the end is known the progress is %+v", p)
		}
		rest(time.Minute)
		if p := e.Progress().Positions[0]; p.Next != 20 || len(p.Done) != 0 || dumb.fails != 0 {
			t.Errorf("then it is %+v", p)
		}
	})
}

// A partition went back and has grown past a start: other records lie in the places of those that are known.
func TestAStartWhoseRecordsWereReplacedEndsTheUnit(t *testing.T) {
	t.Parallel()
	stamp := func(offset int64) protocol.Stamp { return protocol.Stamp{offset, 1000 + offset} }
	other := func(offset int64) protocol.Stamp { return protocol.Stamp{offset, 7} }
	marks := []protocol.Range{{12, 15}}
	damaged := func(offset int64) error {
		if offset == 9 {
			return &commitlog.CorruptError{Offset: offset, Resume: 10}
		}
		return nil
	}
	for name, c := range map[string]struct {
		start     protocol.Position
		missing   int64 // a record that the partition lacks
		trimmed   int64
		fault     func(int64) error
		compacted bool
		held      bool  // OnHeld is there
		lost      int64 // the offset that the error names; 0: none
		skipped   int   // records that are not handled
	}{
		"none":                             {start: protocol.Position{Next: 10, Last: stamp(9)}},
		"the record below":                 {start: protocol.Position{Next: 10, Last: other(9)}, lost: 9},
		"and nothing is there":             {start: protocol.Position{Next: 10, Last: other(9)}, missing: 9, lost: 9},
		"but the log is compacted":         {start: protocol.Position{Next: 10, Last: other(9)}, missing: 9, compacted: true},
		"but retention has dropped it":     {start: protocol.Position{Next: 10, Last: other(9)}, trimmed: 10},
		"but it is damaged":                {start: protocol.Position{Next: 10, Last: stamp(9)}, fault: damaged},
		"a record in a gap":                {start: protocol.Position{Next: 10, Last: stamp(7)}, lost: 7},
		"a gap":                            {start: protocol.Position{Next: 10, Last: stamp(8)}, missing: 9},
		"none, with marks":                 {start: protocol.Position{Next: 10, Done: marks, Last: stamp(9), Top: stamp(14)}, skipped: 3},
		"the highest":                      {start: protocol.Position{Next: 10, Done: marks, Last: stamp(9), Top: other(14)}},
		"the highest, and a journal":       {start: protocol.Position{Next: 10, Done: marks, Last: stamp(9), Top: other(14)}, held: true, lost: 14},
		"both":                             {start: protocol.Position{Next: 10, Done: marks, Last: other(9), Top: other(14)}, lost: 9},
		"the highest of two":               {start: protocol.Position{Next: 10, Done: marks, Last: unknown, Top: other(14)}, lost: 14},
		"the highest, from the first":      {start: protocol.Position{Next: 10, Done: marks, Top: other(14)}},
		"the record below, beyond the end": {start: protocol.Position{Next: 10, Done: []protocol.Range{{12, 40}}, Last: other(9), Top: other(39)}, lost: 9},
		"none, beyond the end":             {start: protocol.Position{Next: 10, Done: []protocol.Range{{12, 40}}, Last: stamp(9), Top: other(39)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := filled(20, 2)
				l.recs = slices.DeleteFunc(l.recs, func(r commitlog.Record) bool { return c.missing > 0 && r.Offset == c.missing })
				l.trim(c.trimmed)
				l.fault = c.fault
				var handled atomic.Int64
				cfg := Config{
					Inputs: l.input(), Start: []protocol.Position{c.start},
					Handler: func(context.Context, *Record) error { handled.Add(1); return nil },
				}
				cfg.Inputs[0].Compacted = c.compacted
				if c.held {
					cfg.OnHeld = func(context.Context, *Record, Held) error { return nil }
				}
				e := mustNew(t, cfg)
				if c.lost == 0 {
					launch(t, e)
					rest(time.Minute)
					if n, p := int(handled.Load()), e.Progress().Positions[0]; n != 10-c.skipped || p.Next != 20 || p.Last != stamp(19) {
						t.Errorf("%d records were handled; expected %d, and not %+v", n, 10-c.skipped, p)
					}
					return
				}
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				var lost *LostError
				if err := e.Run(ctx); !errors.As(err, &lost) || !errors.Is(err, fault.Corrupt) || lost.Offset != c.lost || handled.Load() > 0 {
					t.Errorf("%v, after %d records; expected that the one at offset %d is lost, and none is handled", err, handled.Load(), c.lost)
				}
			})
		})
	}
}
