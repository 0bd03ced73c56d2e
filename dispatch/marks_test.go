package dispatch

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
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
