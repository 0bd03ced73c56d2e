package consumer

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/topic"
)

// SeekOptions are the options of a seek.
type SeekOptions struct {
	// Partitions are those to move; empty: all. They are numbered through all storage topics, as
	// the units of a group are, or within Storage.
	Partitions []int
	// Storage, when not nil, is the storage topic to move in. An offset needs it when there are
	// several.
	Storage *int
	// DryRun finds the positions, or why there are none, and changes nothing.
	DryRun bool
}

// Seek sends a group, live or not, to a place in its topic, as long as a check holds, and returns the new
// positions. ErrConflict when it does not hold any more: what was found is old.
func Seek(ctx context.Context, g *registry.Group, t *topic.Topic, to SeekTarget, opts *SeekOptions, unchanged registry.Check, logger *slog.Logger) ([]PositionInfo, error) {
	group := g.Name()
	units, err := SoughtUnits(t.Document(), to, opts)
	if err != nil {
		return nil, err
	}
	// All targets are found before the first unit moves: a bad one must leave the group as it was.
	infos, err := seekTargets(ctx, g, t, to, units)
	if err != nil || opts.DryRun {
		return infos, err
	}
	if err := g.Grow(ctx, t.Units()); err != nil {
		return nil, err
	}
	hold := NewHold(g, t, logger)
	defer hold.End(ctx) // where the group is then, whatever came of it
	if err := hold.Descend(ctx, infos); err != nil {
		return nil, fmt.Errorf("seek of group %q: hold what it needs again: %w", group, err)
	}
	if infos, err = seekTargets(ctx, g, t, to, units); err != nil { // retention may have been at work until the hold was stored
		return nil, err
	}
	for i, p := range infos { // earlier storage topics first: the later ones then wait for them
		unit := t.Document().Unit(p.Storage, p.Partition)
		target := registry.Checkpoint{Positions: []registry.Position{{Storage: p.Storage, Partition: p.Partition, Next: p.Checkpoint}}}
		if err := g.SeekWith(ctx, unit, target, "seek to "+to.String(), registry.Txn{Checks: []registry.Check{unchanged}}); err != nil {
			return nil, fmt.Errorf("seek of group %q, partition %d (%d of %d are done): %w", group, unit, i, len(infos), err)
		}
	}
	return infos, stillThere(ctx, t, infos)
}

// stillThere says whether a group finds what it was sent to. Between looking for that and sending the
// group there this process may have been stopped for long.
func stillThere(ctx context.Context, t *topic.Topic, infos []PositionInfo) error {
	if err := t.Refresh(ctx); err != nil {
		return err
	}
	for _, p := range infos {
		st, err := t.Storage(p.Storage)
		if err == nil {
			var b commitlog.Bounds
			if b, err = st.Bounds(ctx, p.Partition); err == nil && p.Checkpoint < b.First {
				err = &commitlog.OutOfRangeError{Topic: st.Config().Name, Partition: p.Partition, Offset: p.Checkpoint, First: b.First, End: b.Next}
			}
		}
		if err != nil {
			return fmt.Errorf("the group was sent to offset %d of partition %d in storage topic %d, and what was there went meanwhile; seek again: %w", p.Checkpoint, p.Partition, p.Storage, err)
		}
	}
	return nil
}

// SoughtUnits are the units that the options name, sorted.
func SoughtUnits(doc *topic.Document, to SeekTarget, o *SeekOptions) ([]int, error) {
	first, count, oldest, last := 0, doc.Units(), doc.Left(), len(doc.Storage)-1
	left := doc.Unit(oldest, 0) // units below are retired
	if o.Storage != nil {
		switch s := *o.Storage; {
		case s >= 0 && s < oldest:
			return nil, fmt.Errorf("storage topic %d of topic %q is retired: all groups had finished it and no record was left; there are storage topics %d to %d: %w", s, doc.Name, oldest, last, fault.Invalid)
		case s < 0 || s > last:
			return nil, fmt.Errorf("topic %q has storage topics %d to %d; %d is out of range: %w", doc.Name, oldest, last, s, fault.Invalid)
		}
		first, count = doc.Unit(*o.Storage, 0), doc.Storage[*o.Storage].Partitions
	} else if to.kind == "offset" && last > oldest && len(o.Partitions) == 0 {
		return nil, fmt.Errorf("topic %q has %d storage topics, each with offsets of its own: say which one, or which partitions: %w", doc.Name, last-oldest+1, fault.Invalid)
	}
	var units []int
	for _, p := range o.Partitions {
		switch {
		case p >= 0 && p < count && first+p < left:
			storage, partition, _ := doc.Place(p)
			return nil, fmt.Errorf("partition %d/%d of topic %q is retired with its storage topic; there are storage topics %d to %d: %w", storage, partition, doc.Name, oldest, last, fault.Invalid)
		case p < 0 || p >= count:
			return nil, fmt.Errorf("topic %q has partitions 0 to %d; %d is out of range: %w", doc.Name, count-1, p, fault.Invalid)
		}
		units = append(units, first+p)
	}
	if len(units) == 0 {
		for n := max(first, left); n < first+count; n++ {
			units = append(units, n)
		}
	}
	slices.Sort(units)
	return slices.Compact(units), nil
}

// seekTargets finds the new positions of the units, and of those that must follow them back.
func seekTargets(ctx context.Context, g *registry.Group, t *topic.Topic, to SeekTarget, units []int) ([]PositionInfo, error) {
	have, err := g.Units(ctx)
	if err != nil {
		return nil, err
	}
	doc := t.Document()
	back := make([]bool, doc.Units())
	var infos []PositionInfo
	left := doc.Unit(doc.Left(), 0)
	for n, unit := range Layout(doc) {
		if n < left {
			continue
		}
		place := &unit.Inputs[0]
		sought, follows := slices.Contains(units, n), false
		for q := unit.From; q < unit.To; q += unit.Step {
			follows = follows || back[q]
		}
		var was *registry.Position
		if n < len(have) {
			was = position(have[n].Checkpoint, place.Storage, place.Partition)
		}
		back[n] = follows
		if !sought && (!follows || was == nil) { // one that has not begun begins at its first record
			continue
		}
		target := to
		if !sought {
			target = SeekEarliest
		}
		p, err := SeekPosition(ctx, t, place.Storage, place.Partition, target)
		if err != nil {
			return nil, err
		}
		back[n] = follows || was != nil && p.Checkpoint < was.Next
		infos = append(infos, p)
	}
	return infos, nil
}

// SeekPosition finds where a target lies in a partition.
func SeekPosition(ctx context.Context, t *topic.Topic, storage, partition int, to SeekTarget) (PositionInfo, error) {
	st, err := t.Storage(storage)
	if err != nil {
		return PositionInfo{}, err
	}
	b, err := st.Bounds(ctx, partition)
	if err != nil {
		return PositionInfo{}, err
	}
	p := PositionInfo{Storage: storage, Partition: partition, First: b.First, Next: b.Next}
	if p.Checkpoint, err = to.resolve(ctx, st, partition, b); err != nil {
		return PositionInfo{}, err
	}
	p.Lag = b.Next - p.Checkpoint
	return p, nil
}
