package shard

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription/core"
)

// How one shard set follows another, as far as it is in journals. The last record of an ending shard says how
// far the main records are finished, and which set continues (End). A shard of that set reads the journal up to
// that record (Await), appends all that is live to its own (TakeOver), and delivers nothing before its first
// checkpoint is stored (Open). The last record makes this safe: it stands behind all that the old shard has
// written, and for every reader nothing behind it counts.

// Final is what the last record of a journal tells the next set.
type Final struct {
	At        int64               `json:"at"`        // Unix ms: when the shard began to end
	Positions []protocol.Position `json:"positions"` // how far the main records are finished
	Next      json.RawMessage     `json:"next"`      // the next set, as the definition has it
}

// maxFinalBytes bounds that record; when it would be larger, the finished ranges are left out.
const maxFinalBytes = 256 << 10

// ErrEnded ends a shard whose journal has ended for good: another set continues.
var ErrEnded = fmt.Errorf("its journal has ended, another shard set goes on: %w", fault.Closed)

// Left is what a shard of an earlier set has left.
type Left struct {
	journals *Journals
	shard    int
	state    *core.State
	end      core.Ending
	Final    Final
}

// Epoch is that of the owner that ended the journal.
func (l *Left) Epoch() int64 { return l.end.By.Epoch }

// Await reads a shard's journal from an offset, that of its checkpoint, until the journal has ended.
func (j *Journals) Await(ctx context.Context, shard int, from int64) (*Left, error) {
	b, err := j.Journal.Bounds(ctx, shard)
	if err != nil {
		return nil, err
	}
	if from < b.First || from > b.Next {
		from = b.First // as an owner of it would begin
	}
	st := core.New(core.Config{
		Set: j.Set, From: from, Now: time.Now().UnixMilli(), MaxPause: j.Retry.Longest().Milliseconds(),
	})
	var buf []commitlog.Record
	for at := from; ; {
		recs, next, err := j.Journal.Read(ctx, shard, at, buf[:0], &commitlog.ReadOptions{MaxBytes: 256 << 10})
		if err != nil {
			return nil, err
		}
		for i := range recs {
			r, user, err := unwrap(j.Set, &recs[i])
			if err != nil {
				continue // not ours
			}
			st.Clock(time.Now().UnixMilli())
			st.Read(recs[i].Offset, r)
			if end, ok := st.Ended(); ok {
				l := &Left{journals: j, shard: shard, state: st, end: end}
				if l.Final, err = decodeFinal(user.Value); err != nil {
					return nil, fmt.Errorf("the end of the journal of shard %d, at %d: %w", shard, end.Place, err)
				}
				return l, nil
			}
		}
		if len(recs) > 0 || next > at {
			at, buf = next, recs
		} else if err := j.Journal.Wait(ctx, shard, at); err != nil {
			return nil, err
		}
	}
}

// decodeFinal reads the value of the last record of a journal.
func decodeFinal(value []byte) (f Final, err error) {
	if err := json.Unmarshal(value, &f); err != nil {
		return Final{}, fmt.Errorf("%w: %w", fault.Corrupt, err)
	}
	if err := protocol.CheckPositions(f.Positions); err != nil {
		return Final{}, err
	}
	return f, nil
}

// TakeOver appends to a shard's journal, once Started is closed, what the shards before it have left of the
// partitions that it begins at, and returns when that is final. Nothing is delivered before Open.
func (s *Shard) TakeOver(ctx context.Context, left []*Left, at []core.Next) error {
	s.left = left
	parents := make([]core.Parent, len(left))
	for i, l := range left {
		parents[i] = core.Parent{Shard: i, State: l.state}
		if h := s.cfg.Parents; h != nil {
			parents[i].Takes = h.Takes(s.cfg.Shard, l.shard)
		}
	}
	s.do(func(st *core.State) { st.Adopt(parents, at) })
	select {
	case <-s.adopted:
		s.left = nil // nothing of it has to be read any more
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.over:
		return fmt.Errorf("the shard has ended: %w", fault.Closed)
	}
}

// Open lets a shard that took over deliver: its first checkpoint is stored.
func (s *Shard) Open() {
	s.do(func(st *core.State) { st.Open() })
}

// Quiesce begins no new attempts at parked records.
func (s *Shard) Quiesce() { s.quiesce() }

func (s *Shard) quiesce() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drained == nil {
		s.drained = make(chan struct{})
	}
	s.signalDrained()
	return s.drained
}

// End ends the journal for good, once the engine has ended: f, about the main records, goes into its last
// record. ErrEnded, which Run returns too, says that this is final. End gives up when an attempt takes
// longer than the patience: the next start delivers nothing first.
func (s *Shard) End(ctx context.Context, f Final, patience time.Duration) error {
	drained := s.quiesce()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-drained:
	case <-late.C:
		return fmt.Errorf("an attempt at a parked record takes longer than %s, and its shard is to end: %w", patience, fault.Unavailable)
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.over:
		return s.ended()
	}
	value, err := json.Marshal(f)
	if err == nil && len(value) > maxFinalBytes {
		for i := range f.Positions {
			f.Positions[i].Done, f.Positions[i].Top = nil, protocol.Stamp{}
		}
		value, err = json.Marshal(f)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.final = value
	s.mu.Unlock()
	s.do(func(st *core.State) { st.Close() })
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.over:
		return s.ended()
	}
}

// ended returns why the shard has ended.
func (s *Shard) ended() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		return fmt.Errorf("the shard has ended: %w", fault.Closed)
	}
	return s.err
}

// inherited returns the user's record of an entry that was taken over, or of the end.
func (s *Shard) inherited(ctx context.Context, p core.Payload, o core.Origin) (rec commitlog.Record, err error) {
	if p.From == core.AtTheEnd {
		s.mu.Lock()
		defer s.mu.Unlock()
		return commitlog.Record{Value: s.final}, nil
	}
	err = s.again(ctx, "read of what another shard set has left", func() error {
		rec, err = s.copyAt(ctx, p, o, nil)
		return err
	})
	if err != nil && ctx.Err() == nil && p.From == core.InParent {
		s.end(err)
	}
	return rec, err
}

// lost reports that an unreadable payload loses only a dead letter, and does not end the shard.
func lost(p core.Payload) bool { return p.From == core.InDead || p.From == core.InParentDead }

// Nexts are positions as the core has them.
func Nexts(at []protocol.Position) []core.Next {
	next := make([]core.Next, len(at))
	for i, p := range at {
		next[i] = core.Next{Storage: p.Storage, Partition: p.Partition, Offset: p.Next}
	}
	return next
}

// Outrun is an error that makes a worker claim the unit again above that epoch.
func Outrun(epoch int64) error { return behind{epoch} }
