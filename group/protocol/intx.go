package protocol

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// Finished is one record of a unit that was processed, for a checkpoint of its own.
type Finished struct {
	Storage, Partition int
	Offset, Time       int64 // of the record
	// From and To enclose the record and the offsets around it that hold no other: From is where
	// the log was read from to get it, To from where its successor is read.
	From, To int64
	Start    int64 // where the owner began in the partition, when no checkpoint said it
}

// FinishIn adds one record to the checkpoint of a unit inside tx, a transaction of the user's on the registry's
// database, under the fence of the grant. The owner and checkpoint entries stay locked until tx ends: other
// records of the unit, and a takeover, wait for it. The record is merged into the checkpoint as the store has it
// under that lock, never into this process's copy: that may lack a record whose commit was not answered.
//
// ErrFenced: another owns the unit; roll back and stop. ErrExists: the record was committed already, by a
// transaction whose end was not seen; roll back. ErrInvalid: tx is no transaction of this registry's store, or
// the registry has none.
func (g *Group) FinishIn(ctx context.Context, tx any, grant Grant, member string, f Finished) error {
	if grant.Version == "" {
		return fmt.Errorf("checkpoint of unit %d of group %q: an empty grant: %w", grant.Unit, g.name, registry.ErrInvalid)
	}
	in, err := g.r.InTx(tx)
	if err != nil {
		return fmt.Errorf("checkpoint of unit %d of group %q: %w", grant.Unit, g.name, err)
	}
	entries, err := in.Lock(ctx, g.OwnerKey(grant.Unit), g.CheckpointKey(grant.Unit))
	if err != nil {
		return fmt.Errorf("checkpoint of unit %d of group %q: %w", grant.Unit, g.name, err)
	}
	if entries[0].Version != grant.Version {
		return fmt.Errorf("checkpoint of unit %d of group %q: epoch %d is over, the owner has changed: %w", grant.Unit, g.name, grant.Epoch, registry.ErrFenced)
	}
	var c Checkpoint
	if entries[1].Version != "" {
		if err := decode(entries[1], &c); err != nil {
			return err
		}
	}
	if !c.finish(f) {
		return fmt.Errorf("offset %d of partition %d of storage topic %d was committed by group %q already: %w", f.Offset, f.Partition, f.Storage, g.name, fault.Exists)
	}
	c.Member, c.Updated = member, 0
	_, err = in.Put(ctx, g.CheckpointKey(grant.Unit), stamped(c, grant.Epoch).Encode())
	return err
}

// finish adds a record; false when it was finished already.
func (c *Checkpoint) finish(f Finished) bool {
	p := c.Position(f.Storage, f.Partition)
	if p == nil {
		c.Positions = append(c.Positions, Position{Storage: f.Storage, Partition: f.Partition, Next: f.Start})
		p = &c.Positions[len(c.Positions)-1]
	}
	if f.Offset < p.Next || slices.ContainsFunc(p.Done, func(r Range) bool { return r[0] <= f.Offset && f.Offset < r[1] }) {
		return false
	}
	p.Failing = slices.DeleteFunc(p.Failing, func(x Failing) bool { return x.Offset == f.Offset })
	own, was := Stamp{f.Offset, f.Time}, p.Next
	if f.Offset >= p.Highest() {
		p.Top = own
	}
	p.Done = append(p.Done, Range{f.From, f.To})
	slices.SortFunc(p.Done, func(a, b Range) int { return cmp.Compare(a[0], b[0]) })
	merged := p.Done[:0]
	for _, r := range p.Done {
		switch k := len(merged) - 1; {
		case r[0] <= p.Next:
			p.Next = max(p.Next, r[1])
		case k >= 0 && r[0] <= merged[k][1]:
			merged[k][1] = max(merged[k][1], r[1])
		default:
			merged = append(merged, r)
		}
	}
	switch p.Done = merged; {
	case len(merged) == 0:
		p.Done, p.Last, p.Top = nil, p.Top, Stamp{}
	case p.Next == f.To:
		p.Last = own
	case p.Next > was:
		p.Last = Stamp{-1} // Top is above it
	}
	return true
}
