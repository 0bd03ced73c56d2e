package logtest

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/commitlog"
)

var trimTests = []test{
	{"Trim/RaisesTheFirstOffset", strictTrim, trimFirst},
	{"Trim/EverythingKeepsTheOffsets", strictTrim, trimAll},
	{"Trim/LastsAndIsSeenByOthers", strictTrim, trimLasts},
	{"Hold/IsToldByName", nil, holdsTold},
	{"Hold/IsNotThatOfALaterTopic", nil, holdsOfLater},
	{"Hold/KeepsRecordsFromRetention", nil, holdKeeps},
	{"Hold/KeepsRecordsFromARetentionThatCameLater", fineRetention, laterRetention},
}

func trimFirst(e *env) {
	t := e.topic(e.log(), 2)
	all := fill(e, t, 30)
	e.add(t, 1, "other")
	cut := all[10].Offset
	e.must(t.Trim(e.ctx, 0, cut))
	if got := e.bounds(t, 0).First; got != cut {
		e.Errorf("first offset %d; want %d", got, cut)
	}
	e.must(t.Trim(e.ctx, 0, all[3].Offset)) // no way back
	if got := e.bounds(t, 0).First; got != cut {
		e.Errorf("first offset after a lower trim: %d; want %d", got, cut)
	}
	e.wantValues(e.all(t, 0), values(all[10:])...)
	_, _, err := t.Read(e.ctx, 0, all[9].Offset, nil, nil)
	e.wantIs(err, commitlog.ErrOutOfRange)
	e.wantValues(e.all(t, 1), "other")
}

func trimAll(e *env) {
	t := e.topic(e.log(), 1)
	all := fill(e, t, 10)
	end := e.bounds(t, 0).Next
	e.must(t.Trim(e.ctx, 0, end+1000))
	if b := e.bounds(t, 0); b.First != b.Next || b.Next != end {
		e.Errorf("bounds after trimming everything: %+v; want both %d", b, end)
	}
	if first := e.add(t, 0, "new"); first <= all[9].Offset {
		e.Errorf("offset %d was given out again", first)
	}
	e.wantValues(e.all(t, 0), "new")
}

func trimLasts(e *env) {
	l, a, b := e.two(1)
	all := fill(e, a, 10)
	e.must(a.Trim(e.ctx, 0, all[5].Offset))
	if got := e.bounds(b, 0).First; got != all[5].Offset {
		e.Errorf("the other handle has first offset %d; want %d", got, all[5].Offset)
	}
	e.must(l.Close())
	t := e.openTopic(e.log())
	if got := e.bounds(t, 0).First; got != all[5].Offset {
		e.Errorf("after reopening the first offset is %d; want %d", got, all[5].Offset)
	}
	e.wantValues(e.all(t, 0), values(all[5:])...)
}

// retained makes a topic with a retention by size; 0: none.
func (e *env) retained(l *commitlog.Log, name string, bytes int64) *commitlog.Topic {
	e.Helper()
	e.must(l.CreateTopic(e.ctx, commitlog.TopicConfig{Name: name, Partitions: 2, RetentionBytes: bytes}))
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
		if n >= fast {
			select {
			case <-tick.C:
			case <-limit:
				e.Fatalf("not after %d batches of %d bytes: %s", n, batch, what)
			}
		}
		for _, t := range topics {
			if n < fast || n%10 == 0 {
				e.add(t, 0, value)
			}
		}
	}
}

// holdKeeps fills a topic that is held beside one that is not. Only what the other loses shows that
// retention was at work, and only what the held one loses without its holds that these kept it.
func holdKeeps(e *env) {
	l := e.log()
	const least = 1000 // of which retention leaves as little as the store can
	held, free := e.retained(l, "held", least), e.retained(l, "free", least)
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

// wantHolds compares the holds of a topic, but for those of -1 everywhere.
func (e *env) wantHolds(t *commitlog.Topic, want map[string][]int64) {
	e.Helper()
	got, err := t.Holds(e.ctx)
	e.must(err)
	maps.DeleteFunc(got, func(_ string, offsets []int64) bool { return slices.Max(offsets) < 0 })
	if !maps.EqualFunc(got, want, slices.Equal) {
		e.Errorf("the holds are %v; want %v", got, want)
	}
}

func holdsTold(e *env) {
	l, a, b := e.two(2)
	first := e.add(a, 0, "x")
	e.wantHolds(a, nil)
	e.must(a.Hold(e.ctx, "group/ä b", []int64{first, -1}))
	e.must(b.Hold(e.ctx, "other", []int64{first + 1, 0}))
	e.must(b.Hold(e.ctx, "none", []int64{-1, -1}))
	want := map[string][]int64{"group/ä b": {first, -1}, "other": {first + 1, 0}}
	e.wantHolds(a, want)
	e.wantHolds(b, want)
	e.must(a.Hold(e.ctx, "other", []int64{-1, first}))
	e.must(a.Hold(e.ctx, "group/ä b", []int64{-1, -1}))
	want = map[string][]int64{"other": {-1, first}}
	e.wantHolds(b, want)
	e.must(l.Close())
	e.wantHolds(e.openTopic(e.log()), want)
}

func holdsOfLater(e *env) {
	l := e.log()
	e.must(e.topic(l, 2).Hold(e.ctx, "g", []int64{7, 7}))
	e.must(l.DeleteTopic(e.ctx, topicName))
	e.wantHolds(e.topic(l, 2), nil)
}

func fineRetention(f Features) bool { return !f.EventualTrim && !f.CoarseRetention }

// laterRetention fills two topics that keep everything, and then gives them a retention.
func laterRetention(e *env) {
	l := e.log()
	held, free := e.retained(l, "held", 0), e.retained(l, "free", 0)
	first := e.add(held, 0, "kept")
	e.must(held.Hold(e.ctx, "a", []int64{first, -1}))
	at := e.add(free, 0, "first")
	for range 8 { // a store may look at once when the retention is changed, and then not for long
		for _, t := range []*commitlog.Topic{held, free} {
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
