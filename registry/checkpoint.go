package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// CheckpointWrite is one checkpoint to be written under a grant.
type CheckpointWrite struct {
	Grant      Grant
	Checkpoint Checkpoint // its Epoch is set to the grant's; Updated is set when it is 0
	// After, when not nil, is the version of the checkpoint that this one follows ("": none was
	// written before). It keeps a write that was given up as unknown, and that the store gets to
	// see late, from undoing a newer one of the same owner.
	After *Version
}

// CheckpointResult is the fate of one CheckpointWrite.
type CheckpointResult struct {
	Version Version // of the checkpoint entry, for the next write's After
	// Err is nil; ErrFenced when the grant is no longer the owner's; ErrConflict when After is
	// not the stored version; ErrInvalid when it is too large; ErrUnknown when the store stayed silent.
	Err error
}

// Checkpoint writes one checkpoint. ErrFenced: stop the unit, another owns it.
func (g *Group) Checkpoint(ctx context.Context, grant Grant, c Checkpoint) error {
	res, err := g.Checkpoints(ctx, []CheckpointWrite{{Grant: grant, Checkpoint: c}})
	if err != nil {
		return err
	}
	return res[0].Err
}

// Checkpoints writes many checkpoints at once, each under the fence of its own grant: one that is
// refused does not touch the others. The error is that of the call as a whole, and then nothing
// was written.
func (g *Group) Checkpoints(ctx context.Context, writes []CheckpointWrite) ([]CheckpointResult, error) {
	out := make([]CheckpointResult, len(writes))
	txns := make([]Txn, 0, len(writes))
	at := make([]int, 0, len(writes))
	checks, puts := make([]Check, 2*len(writes)), make([]Put, len(writes)) // of all: two allocations
	for i := range writes {
		t := g.checkpointTxn(&writes[i], checks[2*i:2*i:2*i+2], puts[i:i:i+1])
		if n := len(t.Puts[0].Value); n > MaxValueBytes {
			out[i].Err = fmt.Errorf("checkpoint of unit %d of group %q: %d bytes; at most %d are allowed, so fewer ranges: %w", writes[i].Grant.Unit, g.name, n, MaxValueBytes, ErrInvalid)
			continue
		}
		if writes[i].Grant.Version == "" {
			out[i].Err = fmt.Errorf("checkpoint of unit %d of group %q: an empty grant: %w", writes[i].Grant.Unit, g.name, ErrInvalid)
			continue
		}
		txns, at = append(txns, t), append(at, i)
	}
	results, err := g.r.Apply(ctx, txns)
	if err != nil {
		return nil, err
	}
	for j, res := range results {
		out[at[j]] = g.checkpointResult(ctx, &writes[at[j]], &txns[j], res)
	}
	return out, nil
}

// checkpointTxn makes the write in the room that checks and puts have.
func (g *Group) checkpointTxn(w *CheckpointWrite, checks []Check, puts []Put) Txn {
	t := Txn{
		Checks: append(checks, Check{Key: g.OwnerKey(w.Grant.Unit), Version: w.Grant.Version}),
		Puts:   append(puts, Put{Key: g.CheckpointKey(w.Grant.Unit), Value: stamped(w.Checkpoint, w.Grant.Epoch).Encode()}),
		Quiet:  true,
	}
	if w.After != nil {
		t.Checks = append(t.Checks, Check{Key: t.Puts[0].Key, Version: *w.After})
	}
	return t
}

func (g *Group) checkpointResult(ctx context.Context, w *CheckpointWrite, t *Txn, res Result) CheckpointResult {
	for try := 1; errors.Is(res.Err, ErrUnknown) && try < settleTries; try++ {
		again, err := g.r.Apply(ctx, []Txn{*t})
		if err != nil {
			return CheckpointResult{Err: fmt.Errorf("checkpoint of unit %d of group %q: %w; then: %w", w.Grant.Unit, g.name, ErrUnknown, err)}
		}
		if res = again[0]; errors.Is(res.Err, ErrConflict) && res.Failed == 1 { // our own first try?
			e, err := g.r.lookup(ctx, t.Puts[0].Key)
			if err == nil && bytes.Equal(e.Value, t.Puts[0].Value) {
				return CheckpointResult{Version: e.Version}
			}
		}
	}
	switch {
	case res.Err == nil:
		return CheckpointResult{Version: res.Versions[0]}
	case errors.Is(res.Err, ErrConflict) && res.Failed == 0:
		return CheckpointResult{Err: fmt.Errorf("checkpoint of unit %d of group %q: epoch %d is over, the owner has changed: %w", w.Grant.Unit, g.name, w.Grant.Epoch, ErrFenced)}
	}
	return CheckpointResult{Err: fmt.Errorf("checkpoint of unit %d of group %q: %w", w.Grant.Unit, g.name, res.Err)}
}

// CheckpointAt writes a checkpoint for a member that knows its epoch but kept no grant. It is
// refused with ErrFenced unless the unit is owned by that member at exactly that epoch.
func (g *Group) CheckpointAt(ctx context.Context, unit int, member string, expectedEpoch int64, c Checkpoint) error {
	var o Owner
	e, err := g.r.read(ctx, g.OwnerKey(unit), &o)
	if err != nil {
		return err
	}
	if e.Version == "" || o.Member != member || o.Epoch != expectedEpoch {
		return fmt.Errorf("checkpoint of unit %d of group %q by %q at epoch %d: it is owned by %q at epoch %d: %w",
			unit, g.name, member, expectedEpoch, o.Member, o.Epoch, ErrFenced)
	}
	return g.Checkpoint(ctx, Grant{Unit: unit, Epoch: expectedEpoch, Version: e.Version}, c)
}

// Seek sets the checkpoint of a unit, backwards or forwards, also while it has an owner. The
// owner stays but its epoch moves on, so that what it had in flight can't undo the seek: it
// finds itself fenced, and goes on with the new grant (Unit.Grant) from the new position. It is done
// once at most, also when the store's answers are lost: ErrUnknown then, where that can't be found out.
func (g *Group) Seek(ctx context.Context, unit int, to Checkpoint, reason string) error {
	return g.SeekWith(ctx, unit, to, reason, Txn{})
}

// SeekWith is Seek in one transaction with the checks and the puts of also. ErrConflict when one of
// those checks fails: then nothing was done.
func (g *Group) SeekWith(ctx context.Context, unit int, to Checkpoint, reason string, also Txn) error {
	for try := 1; ; try++ {
		meta, metaEntry, err := g.meta(ctx)
		if err != nil {
			return err
		}
		if metaEntry.Version == "" || meta.Deleting {
			return fmt.Errorf("seek of unit %d: group %q: %w", unit, g.name, ErrNotFound)
		}
		if unit < 0 || unit >= meta.Units {
			return fmt.Errorf("seek of unit %d: group %q has %d units: %w", unit, g.name, meta.Units, ErrInvalid)
		}
		var o Owner
		e, err := g.r.read(ctx, g.OwnerKey(unit), &o)
		if err != nil {
			return err
		}
		o.Reason = reason
		if o, err = g.r.follow(ctx, o.Epoch, o); err != nil {
			return err
		}
		c := stamped(to, o.Epoch)
		txn := Txn{
			Checks: append([]Check{{Key: e.Key, Version: e.Version}, {Key: metaEntry.Key, Version: metaEntry.Version}}, also.Checks...),
			Puts:   append([]Put{{Key: e.Key, Value: Encode(o)}, {Key: g.CheckpointKey(unit), Value: c.Encode()}}, also.Puts...),
		}
		if unit < meta.First { // it is to be worked on again
			meta.First = unit
			txn.Puts = append(txn.Puts, Put{Key: metaEntry.Key, Value: Encode(meta)})
		}
		res, lost, err := g.r.settled(ctx, txn)
		if err != nil || !errors.Is(res.Err, ErrConflict) {
			return errors.Join(err, res.Err)
		}
		u, err := g.Unit(ctx, unit)
		if err != nil {
			return err
		}
		if u.Owner == o {
			return nil // ours, the reply was lost; its checkpoint may have moved on since
		}
		if lost && u.Owner.Epoch >= o.Epoch {
			return fmt.Errorf("seek of unit %d of group %q: no answer, and others have gone on since, from there or not; look where it is before seeking again: %w",
				unit, g.name, ErrUnknown)
		}
		if try == settleTries {
			return fmt.Errorf("seek of unit %d of group %q: its owner keeps changing; try again: %w", unit, g.name, ErrConflict)
		}
	}
}

func stamped(c Checkpoint, epoch int64) Checkpoint {
	c.Epoch = epoch
	if c.Updated == 0 {
		c.Updated = time.Now().UnixMilli()
	}
	return c
}

// Encode is the stored form of a checkpoint: what Encode makes of it, in a third of the time, as
// nothing is stored as often.
func (c Checkpoint) Encode() []byte {
	if c.Positions == nil || !plain(c.Member) {
		return Encode(c)
	}
	b := make([]byte, 0, 128+48*len(c.Positions))
	b = append(b, `{"positions":[`...)
	for i := range c.Positions {
		if i > 0 {
			b = append(b, ',')
		}
		b = c.Positions[i].append(b)
	}
	b = strconv.AppendInt(append(b, `],"epoch":`...), c.Epoch, 10)
	b = append(append(b, `,"member":"`...), c.Member...)
	b = strconv.AppendInt(append(b, `","updated":`...), c.Updated, 10)
	return append(b, '}')
}

func (p *Position) append(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"storage":`...), int64(p.Storage), 10)
	b = strconv.AppendInt(append(b, `,"partition":`...), int64(p.Partition), 10)
	b = strconv.AppendInt(append(b, `,"next":`...), p.Next, 10)
	for i, r := range p.Done {
		sep := `,[`
		if i == 0 {
			sep = `,"done":[[`
		}
		b = strconv.AppendInt(append(b, sep...), r[0], 10)
		b = strconv.AppendInt(append(b, ','), r[1], 10)
		b = append(b, ']')
	}
	if len(p.Done) > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

// plain says whether JSON writes a string as it is; so it is with all names of members.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

// same compares the progress, not when it was written.
func (c Checkpoint) same(o Checkpoint) bool {
	return c.Epoch == o.Epoch && slices.EqualFunc(c.Positions, o.Positions, func(a, b Position) bool {
		return a.Storage == b.Storage && a.Partition == b.Partition && a.Next == b.Next && slices.Equal(a.Done, b.Done)
	})
}

// LowestNeeded is the next offset that units need of each partition of a storage topic; 0, all that
// is kept, of those that no checkpoint tells of.
func LowestNeeded(units []Unit, storage, partitions int) []int64 {
	offsets := make([]int64, partitions)
	for _, u := range units {
		if u.Checkpoint == nil {
			continue
		}
		for _, p := range u.Checkpoint.Positions {
			if p.Storage == storage && p.Partition >= 0 && p.Partition < partitions {
				offsets[p.Partition] = p.Next
			}
		}
	}
	return offsets
}
