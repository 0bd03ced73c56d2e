package core

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// progress notes how far a worker got.
func (s *State) progress(p *UnitProgress) {
	u := &s.units[p.Unit]
	if u.run != p.Run || u.worker == none {
		return
	}
	s.advance(p.Unit, &p.Checkpoint)
	s.touched = s.touched || s.over(p.Unit)
}

// advance takes a newer checkpoint of the worker. A worker that started under an earlier grant is
// ignored. Its epoch would not tell: a store that went back gives the same number again.
func (s *State) advance(n int, c *protocol.Checkpoint) {
	u := &s.units[n]
	if !u.granted || u.runGrant != u.grant.Version || c == nil || len(c.Positions) == 0 {
		return
	}
	next, further := *c, true
	if last := u.checkpoint; last != nil {
		next.Positions = merged(last.Positions, c.Positions)
		further = last.From != c.From || !protocol.SamePositions(last.Positions, next.Positions)
		if !further && last.Deliveries == c.Deliveries {
			return
		}
	}
	next.Epoch, next.Member, next.Updated = u.grant.Epoch, s.cfg.Member, s.wall
	u.checkpoint, u.dirty, u.told = &next, true, true
	if further { // news for people alone does not count: a worker has some whenever it begins
		u.failures, u.stuck = 0, 0
	}
}

// merged is what a worker reports, plus the known positions that it does not report: each stays until there
// is a newer one of the same input. A worker that reports all, or has one input, costs one comparison of
// each.
func merged(before, told []protocol.Position) []protocol.Position {
	at := func(p *protocol.Position) [2]int { return [2]int{p.Storage, p.Partition} }
	all := len(told) >= len(before)
	for i := 0; all && i < len(before); i++ {
		all = at(&before[i]) == at(&told[i])
	}
	if all {
		return told
	}
	out := slices.Clone(before)
	for _, p := range told {
		if i := slices.IndexFunc(out, func(q protocol.Position) bool { return at(&q) == at(&p) }); i >= 0 {
			out[i] = p
		} else {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(p, q protocol.Position) int {
		return cmp.Or(cmp.Compare(p.Storage, q.Storage), cmp.Compare(p.Partition, q.Partition))
	})
	return out
}

func (s *State) unitEnded(ev *UnitEnded) {
	u := &s.units[ev.Unit]
	if u.run != ev.Run || u.worker == none {
		return
	}
	s.touched = true
	s.advance(ev.Unit, ev.Checkpoint)
	was := u.worker
	u.worker, u.deadline, u.evictions, u.evictAt = none, 0, 0, 0
	u.hung, u.leftBehind = ev.Stuck || u.stuck >= maxStuck, u.leftBehind || (ev.Stuck && u.runGrant == u.grant.Version)
	if ev.Above > 0 {
		u.seen = max(u.seen, ev.Above)
		u.behind = u.behind || u.runGrant == u.grant.Version && ev.Above >= u.grant.Epoch
	}
	if u.checkpoint == nil {
		// The worker may have stored where it started, which no hint reports. The next one must not
		// choose a start anew.
		u.point.doubt(s.step)
		s.wantLoad = true
	}
	if was != running && (was != draining || ev.Err == nil) {
		return // as it was asked to
	}
	u.retryAt = s.now + backoff(u.failures, retryUnit)
	text := fmt.Sprintf("the worker ended by itself; it is started again in %s", (u.retryAt - s.now).Round(100*time.Millisecond))
	u.failures++
	s.out = append(s.out, Report{Kind: Trouble, Unit: ev.Unit, Epoch: u.grant.Epoch, Text: text, Err: ev.Err})
}

// unitStuck cancels a unit whose handler hangs. If the handler returns, the unit is started again
// from its checkpoint; otherwise another member gets the unit.
func (s *State) unitStuck(ev *UnitStuck) {
	u := &s.units[ev.Unit]
	if u.run != ev.Run || u.worker != running {
		return
	}
	text := fmt.Sprintf("a handler has been running for %s without progress", ev.For.Round(time.Millisecond))
	s.out = append(s.out, Report{Kind: Trouble, Unit: ev.Unit, Epoch: u.grant.Epoch, Text: text})
	s.stopWorker(ev.Unit, fmt.Errorf("unit %d: %s: %w", ev.Unit, text, registry.ErrUnavailable))
	u.retryAt = s.now + backoff(u.failures, retryUnit)
	u.failures++
	u.stuck++
}

// commit stores the checkpoints that moved, all in one batch, one batch at a time. Each is written
// under a check on the owner entry as it was granted, which is the fence, and on the checkpoint
// before it, so that an earlier write that was lost on the way can't come late and go back.
func (s *State) commit() {
	if !s.ready() || s.small() || s.committing || s.now < s.commitAt {
		return
	}
	for n := range s.units {
		u := &s.units[n]
		if !u.dirty || !u.granted || u.write != 0 || u.unsure() {
			continue
		}
		u.write, u.dirty = wCommit, false
		s.committing = true
		s.batch = append(s.batch, write{
			kind: wCommit, unit: n, epoch: u.grant.Epoch, checkpoint: u.checkpoint, txn: s.cfg.Group.CommitTxn(u.grant, *u.checkpoint, u.stored),
		})
	}
	if s.committing {
		s.commitAt = s.now + s.cfg.CommitInterval
	}
}
