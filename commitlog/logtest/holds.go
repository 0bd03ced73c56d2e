package logtest

import (
	"strings"
	"time"

	"github.com/ringfence/ringfence/commitlog"
)

// retained makes a topic of which retention leaves as little as the store can.
func (e *env) retained(l *commitlog.Log, name string) *commitlog.Topic {
	e.Helper()
	e.must(l.CreateTopic(e.ctx, commitlog.TopicConfig{Name: name, Partitions: 2, RetentionBytes: 1000}))
	t, err := l.Topic(e.ctx, name)
	e.must(err)
	return t
}

// flood appends to topics until something holds, for enough bytes to fill what a store drops as a
// whole, and then now and then.
func (e *env) flood(what string, until func() bool, topics ...*commitlog.Topic) {
	e.Helper()
	const batch, fast = 16 << 10, 128
	value := strings.Repeat("x", batch)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Duration(e.n(40, 120)) * time.Second) // sooner than the test's context
	for n := 0; !until(); n++ {
		if n < fast {
			for _, t := range topics {
				e.add(t, 0, value)
			}
			continue
		}
		select {
		case <-tick.C:
			if n%10 == 0 {
				for _, t := range topics {
					e.add(t, 0, value)
				}
			}
		case <-limit:
			e.Fatalf("not after %d batches of %d bytes: %s", n, batch, what)
		}
	}
}

// holdKeeps fills a topic that is held beside one that is not. Only what the other loses shows that
// retention was at work, and only what the held one loses without its holds that these kept it.
func holdKeeps(e *env) {
	l := e.log()
	held, free := e.retained(l, "held"), e.retained(l, "free")
	first := e.add(held, 0, "kept")
	e.must(held.Hold(e.ctx, "a", []int64{first + 1, -1}))
	e.must(held.Hold(e.ctx, "b", []int64{first, -1}))
	e.must(held.Hold(e.ctx, "a", []int64{first + 1, -1}))
	e.wantIs(held.Hold(e.ctx, "a", []int64{0}), commitlog.ErrInvalid)
	coarse := e.h.Features.EventualTrim || e.h.Features.CoarseRetention
	if coarse {
		for range e.n(40, 5) {
			e.add(held, 0, "more")
		}
	} else {
		for range e.n(2, 1) { // it may look at one topic after the other
			at := e.bounds(free, 0).First
			e.flood("retention drops something of a topic without a hold", func() bool { return e.bounds(free, 0).First > at }, held, free)
		}
	}
	if got := e.bounds(held, 0).First; got > first {
		e.Fatalf("retention dropped offset %d, which is held; the first is %d", first, got)
	}
	if got := e.upTo(held, 0, first, first+1); string(got[0].Value) != "kept" {
		e.Errorf("the held record is %q", got[0].Value)
	}
	if coarse {
		return
	}
	e.must(held.Hold(e.ctx, "a", []int64{-1, -1}))
	e.must(held.Hold(e.ctx, "b", []int64{-1, -1}))
	e.flood("retention drops what is held no longer", func() bool { return e.bounds(held, 0).First > first }, held)
}

func fineRetention(f Features) bool { return !f.EventualTrim && !f.CoarseRetention }

// laterRetention fills two topics that keep everything, and then gives them a retention.
func laterRetention(e *env) {
	l := e.log()
	var topics []*commitlog.Topic
	for _, name := range []string{"held", "free"} {
		e.must(l.CreateTopic(e.ctx, commitlog.TopicConfig{Name: name, Partitions: 2}))
		t, err := l.Topic(e.ctx, name)
		e.must(err)
		topics = append(topics, t)
	}
	held, free := topics[0], topics[1]
	first := e.add(held, 0, "kept")
	e.must(held.Hold(e.ctx, "a", []int64{first, -1}))
	at := e.add(free, 0, "first")
	for range 8 { // a store may look at once when the retention is changed, and then not for long
		for _, t := range topics {
			e.add(t, 0, strings.Repeat("x", 16<<10))
		}
	}
	alter := func(t *commitlog.Topic, bytes int64) {
		e.must(l.AlterTopic(e.ctx, commitlog.TopicConfig{Name: t.Config().Name, Partitions: 2, RetentionBytes: bytes}))
	}
	alter(held, 1000)
	alter(free, 1000)
	e.flood("a retention that came later drops something", func() bool { return e.bounds(free, 0).First > at }, held, free)
	if got := e.bounds(held, 0).First; got > first {
		e.Fatalf("a retention that came later dropped offset %d, which is held; the first is %d", first, got)
	}
	e.must(held.Hold(e.ctx, "a", []int64{-1, -1}))
	alter(held, 1001)
	e.flood("a retention that came later drops what is held no longer", func() bool { return e.bounds(held, 0).First > first }, held)
	if e.h.Features.Slow { // what it is just about to drop goes
		return
	}
	alter(free, 0)
	end := e.bounds(free, 0).First
	e.flood("the other one drops on", func() bool { return e.bounds(held, 0).First > end }, held, free)
	if got := e.bounds(free, 0).First; got > end {
		e.Errorf("a topic whose retention was taken back begins at %d; want %d", got, end)
	}
}
