package protocol

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// Commit stores one checkpoint under a grant, in the place of the one of version after ("": the first),
// and finds out the outcome when the store's answer is lost. ErrFenced: stop the unit, another owns it.
// ErrConflict: the stored checkpoint is another. Members send many at once, see CommitTxn.
func (g *Group) Commit(ctx context.Context, grant Grant, c Checkpoint, after registry.Version) error {
	if grant.Version == "" {
		return fmt.Errorf("checkpoint of unit %d of group %q: an empty grant: %w", grant.Unit, g.name, registry.ErrInvalid)
	}
	t := g.CommitTxn(grant, stamped(c, grant.Epoch), after)
	res, lost, err := g.r.Resolve(ctx, t)
	if err == nil {
		err = res.Err
	}
	if errors.Is(err, registry.ErrConflict) {
		if res.Failed == 0 {
			return fmt.Errorf("checkpoint of unit %d of group %q: epoch %d is over, the owner has changed: %w", grant.Unit, g.name, grant.Epoch, registry.ErrFenced)
		}
		if now, failed := g.r.Lookup(ctx, t.Puts[0].Key); lost && failed == nil && bytes.Equal(now.Value, t.Puts[0].Value) {
			return nil // ours, the reply was lost
		}
	}
	if err != nil {
		return fmt.Errorf("checkpoint of unit %d of group %q: %w", grant.Unit, g.name, err)
	}
	return nil
}

// Seek sets the positions in to for a unit, backwards or forwards, even while it has an owner; the
// unit's other positions stay as they are at that moment. The owner stays but its epoch moves on, so
// that its work in flight can't undo the seek: it finds itself fenced, and goes on with the new grant
// (Unit.Grant) from the new position. It is done at most once, even when the store's answers are lost:
// ErrUnknown then, where that can't be found out.
func (g *Group) Seek(ctx context.Context, unit int, to Checkpoint, reason string) error {
	return g.SeekWith(ctx, unit, to, reason, registry.Txn{})
}

// SeekWith is Seek in one transaction with the checks and the puts of also. ErrConflict when one of
// those checks fails: then nothing was done.
func (g *Group) SeekWith(ctx context.Context, unit int, to Checkpoint, reason string, also registry.Txn) error {
	for try := 1; ; try++ {
		meta, metaEntry, err := g.existing(ctx)
		if err != nil {
			return fmt.Errorf("seek of unit %d: %w", unit, err)
		}
		if unit < 0 || unit >= meta.Units {
			return fmt.Errorf("seek of unit %d: group %q has %d units: %w", unit, g.name, meta.Units, registry.ErrInvalid)
		}
		var o Owner
		e, err := read(ctx, g.r, g.OwnerKey(unit), &o)
		if errors.Is(err, fault.Corrupt) { // a seek fences its owner, as any other
			o, err = Owner{}, nil
			var last Checkpoint
			if _, unread := read(ctx, g.r, g.CheckpointKey(unit), &last); unread == nil {
				o.Epoch = last.Epoch
			}
		}
		if err != nil {
			return err
		}
		now, err := g.r.Now(ctx)
		if err != nil {
			return err
		}
		o.After, o.Epoch, o.Since, o.Reason = o.Epoch, NextEpoch(o.Epoch, now), time.Now().UnixMilli(), reason
		c, kept, err := g.keepOthers(ctx, unit, to)
		if err != nil {
			return err
		}
		if err := c.check(); err != nil {
			return fmt.Errorf("seek of unit %d of group %q: to %s: %w", unit, g.name, err.Error(), registry.ErrInvalid)
		}
		put := g.putCheckpoint(Grant{Unit: unit, Epoch: o.Epoch}, stamped(c, o.Epoch))
		txn := registry.Txn{
			Checks: append([]registry.Check{{Key: e.Key, Version: e.Version}, {Key: metaEntry.Key, Version: metaEntry.Version}}, append(kept, also.Checks...)...),
			Puts:   append([]registry.Put{{Key: e.Key, Value: registry.Encode(o)}, put}, also.Puts...),
		}
		if unit < meta.First || !meta.Sought { // it is to be worked on again
			meta.First, meta.Sought = min(meta.First, unit), true
			txn.Puts = append(txn.Puts, registry.Put{Key: metaEntry.Key, Value: registry.Encode(meta)})
		}
		res, lost, err := g.r.Resolve(ctx, txn)
		if err != nil || !errors.Is(res.Err, registry.ErrConflict) {
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
				unit, g.name, registry.ErrUnknown)
		}
		if try == tries {
			return fmt.Errorf("seek of unit %d of group %q: its owner keeps changing; try again: %w", unit, g.name, registry.ErrConflict)
		}
	}
}

// keepOthers adds to a checkpoint the stored positions of other partitions. They are true as long as the
// check holds: no owner commits in between. A unit of one input has none, and nothing is checked.
func (g *Group) keepOthers(ctx context.Context, unit int, to Checkpoint) (Checkpoint, []registry.Check, error) {
	var have Checkpoint
	e, err := read(ctx, g.r, g.CheckpointKey(unit), &have)
	if errors.Is(err, fault.Corrupt) {
		return to, nil, nil // a seek replaces an unreadable one
	}
	if err != nil {
		return to, nil, err
	}
	named := len(to.Positions)
	for _, p := range have.Positions {
		if to.Position(p.Storage, p.Partition) == nil {
			to.Positions = append(to.Positions[:len(to.Positions):len(to.Positions)], p)
		}
	}
	if len(to.Positions) == named {
		return to, nil, nil
	}
	return to, []registry.Check{{Key: e.Key, Version: e.Version}}, nil
}

func stamped(c Checkpoint, epoch int64) Checkpoint {
	c.Epoch = epoch
	if c.Updated == 0 {
		c.Updated = time.Now().UnixMilli()
	}
	return c
}

// Encode returns the stored form of a checkpoint: the same as JSON's encoder, in a third of the
// time, as nothing is stored as often.
func (c Checkpoint) Encode() []byte {
	if c.Positions == nil || !plain(c.Member) {
		return registry.Encode(c)
	}
	b := make([]byte, 0, 128+48*len(c.Positions))
	b = append(b, `{"positions":[`...)
	for i := range c.Positions {
		if i > 0 {
			b = append(b, ',')
		}
		b = c.Positions[i].append(b)
	}
	b = append(b, ']')
	if c.From != 0 {
		b = strconv.AppendInt(append(b, `,"from":`...), c.From, 10)
	}
	b = strconv.AppendInt(append(b, `,"epoch":`...), c.Epoch, 10)
	b = append(append(b, `,"member":"`...), c.Member...)
	b = strconv.AppendInt(append(b, `","updated":`...), c.Updated, 10)
	return append(c.Deliveries.append(b), '}')
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
	b = p.Top.append(p.Last.append(b, `,"last":[`), `,"top":[`)
	for i, f := range p.Failing {
		sep := `,{`
		if i == 0 {
			sep = `,"failing":[{`
		}
		b = strconv.AppendInt(append(append(b, sep...), `"offset":`...), f.Offset, 10)
		b = strconv.AppendInt(append(b, `,"attempts":`...), int64(f.Attempts), 10)
		b = strconv.AppendInt(append(b, `,"since":`...), f.Since, 10)
		b = strconv.AppendInt(append(b, `,"due":`...), f.Due, 10)
		b = append(strconv.AppendInt(append(b, `,"pause":`...), f.Pause, 10), '}')
	}
	if len(p.Failing) > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

func (s Stamp) append(b []byte, name string) []byte {
	if s == (Stamp{}) {
		return b
	}
	b = strconv.AppendInt(append(b, name...), s[0], 10)
	return append(strconv.AppendInt(append(b, ','), s[1], 10), ']')
}

// plain reports whether JSON writes a string as it is, as for all names of members.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

// Position returns how far the unit got in a partition; nil: no checkpoint, or no position in it.
func (c *Checkpoint) Position(storage, partition int) *Position {
	if c == nil {
		return nil
	}
	for i := range c.Positions {
		if p := &c.Positions[i]; p.Storage == storage && p.Partition == partition {
			return p
		}
	}
	return nil
}

// Highest is the offset above all that the position mentions: Next, or the end of what was finished or has
// failed above it. A partition that ends below is not the one that the position was made of.
func (p *Position) Highest() int64 {
	top := p.Next
	for _, r := range p.Done {
		if r[0] < r[1] {
			top = max(top, r[1])
		}
	}
	for _, f := range p.Failing {
		top = max(top, f.Offset+1)
	}
	return top
}

// LowestNeeded returns the lowest next offset that units need of each partition of a storage topic;
// 0, all that is kept, for those without a checkpoint.
func LowestNeeded(units []Unit, storage, partitions int) []int64 {
	offsets, told := make([]int64, partitions), make([]bool, partitions)
	for _, u := range units {
		if u.Checkpoint == nil {
			continue
		}
		for _, p := range u.Checkpoint.Positions {
			if p.Storage != storage || p.Partition < 0 || p.Partition >= partitions {
				continue
			}
			if !told[p.Partition] || p.Next < offsets[p.Partition] {
				offsets[p.Partition], told[p.Partition] = p.Next, true
			}
		}
	}
	return offsets
}
