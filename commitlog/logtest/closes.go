package logtest

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ringfence/ringfence/commitlog"
)

var closeTests = []test{
	{"Close/AHandleEndsAlone", nil, closeHandle},
	{"Close/AHandleOpenedAgainGoesOn", nil, closeAndReopen},
	{"Close/ALogEndsEverything", nil, closeLog},
	{"Close/TwiceIsNil", nil, closeTwice},
	{"Close/AppendsUnderWayAreAnswered", nil, closeUnderWay},
}

func closeHandle(e *env) {
	l := e.log()
	a, b := e.topic(l, 1), e.openTopic(l)
	e.add(a, 0, "x")
	e.must(a.Close())
	e.wantAll(a, commitlog.ErrClosed)
	e.add(b, 0, "y")
	e.wantValues(e.all(b, 0), "x", "y")
}

// A topic that is closed and opened again by the same log counts on, in whatever the store tells
// repeated appends from new ones by.
func closeAndReopen(e *env) {
	l := e.log()
	t := e.topic(l, 1)
	var want []string
	for i := range e.n(10, 3) {
		e.add(t, 0, fmt.Sprint(i))
		want = append(want, fmt.Sprint(i))
		e.must(t.Close())
		t = e.openTopic(l)
	}
	e.wantValues(e.all(t, 0), want...)
}

func closeLog(e *env) {
	l := e.log()
	t := e.topic(l, 1)
	e.add(t, 0, "x")
	e.must(l.Close())
	e.wantAll(t, commitlog.ErrClosed)
	e.wantIs(l.CreateTopic(e.ctx, commitlog.TopicConfig{Name: "other", Partitions: 1}), commitlog.ErrClosed)
	e.wantIs(errOf(l.Topic(e.ctx, topicName)), commitlog.ErrClosed)
	e.wantIs(errOf(l.Topics(e.ctx)), commitlog.ErrClosed)
	e.wantIs(l.DeleteTopic(e.ctx, topicName), commitlog.ErrClosed)
}

func closeTwice(e *env) {
	l := e.open()
	t := e.topic(l, 1)
	e.must(t.Close())
	e.must(t.Close())
	e.must(l.Close())
	e.must(l.Close())
	e.must(t.Close())
}

// Close finishes or fails what is under way: each append is answered once, what was acked is
// there, and what certainly failed is not.
func closeUnderWay(e *env) {
	l := e.open()
	t := e.topic(l, 2)
	const writers = 8
	outcomes := make([]map[string]outcome, writers)
	var acked atomic.Int64
	var wg sync.WaitGroup
	enough := make(chan struct{})
	for w := range writers {
		outcomes[w] = map[string]outcome{}
		wg.Go(func() {
			var mu sync.Mutex
			var flying sync.WaitGroup
			var stop atomic.Bool
			defer flying.Wait()
			for i := 0; !stop.Load(); i++ {
				value := fmt.Sprintf("%d/%d", w, i)
				flying.Add(1)
				t.AppendAsync(e.ctx, w%2, records(value), nil, func(first int64, err error) {
					defer flying.Done()
					if err != nil {
						stop.Store(true)
					} else if acked.Add(1) == 200 {
						close(enough)
					}
					mu.Lock()
					defer mu.Unlock()
					if _, twice := outcomes[w][value]; twice {
						e.Errorf("append %s was answered twice", value)
					}
					outcomes[w][value] = outcome{value, first, err}
				})
				if i%16 == 15 { // a window, so that the test does not run away
					flying.Wait()
				}
			}
		})
	}
	<-enough
	e.must(l.Close())
	wg.Wait()
	t = e.openTopic(e.log())
	stored := [2]map[string]int64{{}, {}}
	for p := range 2 {
		for _, r := range e.all(t, p) {
			stored[p][string(r.Value)] = r.Offset
		}
	}
	for w, list := range outcomes {
		for _, o := range list {
			e.wantOutcome(o, stored[w%2])
		}
	}
}
