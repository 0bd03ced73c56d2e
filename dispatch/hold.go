package dispatch

import (
	"container/heap"
	"slices"
	"time"
)

// judge asks the policy about a record that has just failed, and calls for OnHeld if it is not to be held. It is not
// held either when its partition has nothing else left.
func (e *Engine) judge(n *node, now time.Time) {
	f := n.fail
	next := e.cfg.Retry.Next(f.attempts, now.Sub(f.since), f.err)
	f.pause, f.due = next.Pause, now.Add(next.Pause)
	switch {
	case e.cfg.OnHeld == nil:
	case next.Step != TryAgain:
		e.giveAway(n, next.Why, now)
	case n.atTheEnd():
		e.giveAway(n, AtTheEnd, now)
	}
}

// giveAway makes OnHeld the next to be asked about a failing record.
func (e *Engine) giveAway(n *node, why Why, now time.Time) {
	n.fail.why, n.fail.next, n.fail.due = why, n.fail.due, now
}

// atTheEnd reports whether a record's partition is sealed and read to its end: a record held there
// keeps everything after it from starting.
func (n *node) atTheEnd() bool { return n.rec.data.from.ended }

// relieve acts when failing records, and those behind them, take half of the memory: it gives away
// the half of them that has been held the longest.
func (e *Engine) relieve(now time.Time) {
	if e.cfg.OnHeld == nil || len(e.sched.retries) == 0 || !e.crowded() {
		return
	}
	e.evict(now, Crowded, func(*node) bool { return true }, 2)
}

// evict gives away one in so many of the held records that are meant, those that fail the longest.
func (e *Engine) evict(now time.Time, why Why, meant func(*node) bool, one int) {
	var held []*node
	for _, n := range e.sched.retries {
		if n.fail.why == "" && meant(n) {
			held = append(held, n)
		}
	}
	slices.SortFunc(held, func(a, b *node) int { return a.fail.since.Compare(b.fail.since) })
	for _, n := range held[:(len(held)+one-1)/one] {
		e.giveAway(n, why, now)
		heap.Fix(&e.sched.retries, n.fail.index)
		e.arm(now)
	}
}

func (e *Engine) crowded() bool {
	if e.sched.unfinished > e.cfg.MaxInFlight/2 && e.sched.ready == 0 || e.retained > e.cfg.MaxBytes/2 && e.sched.ready == 0 {
		return true
	}
	for _, in := range e.inputs {
		if in.tracker.gaps > e.cfg.MaxRanges/2 {
			return true
		}
	}
	return false
}
