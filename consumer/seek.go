package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/topic"
)

// A group may be at work while it is sought. Each unit is moved by a write that also raises its epoch, so its
// owner is fenced and begins at the new place; the order makes it one seek. All targets are found before the
// first write, and again when the hold is stored, as retention may have been at work until then. Earlier
// storage topics are moved first, so that later ones wait for them. And a unit that has begun behind one that
// is sent back goes back too, to its first record: otherwise records of one key would pass each other. One that has an
// owner may have begun without a word in the store. So it goes there too, once those before it were sent back: that
// fences the owner, whose tokens are below those of the records that come again.

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

// Seek sends a group, live or not, to a place in its topic and returns the new positions.
func (c *Groups) Seek(ctx context.Context, name string, to SeekTarget, opts *SeekOptions) ([]api.Position, error) {
	for {
		g, t, err := c.Open(ctx, name)
		if err != nil {
			return nil, err
		}
		unchanged := t.Unchanged()
		infos, err := Layout{}.seek(ctx, g, t, to, opts, unchanged, c.Logger)
		if !errors.Is(err, fault.Conflict) || t.Refresh(ctx) != nil || t.Unchanged() == unchanged {
			return infos, err
		}
	} // the topic has grown, or some of it was retired: what was found is old
}

// seek is Seek as long as a check holds. fault.Conflict when it fails.
func (l Layout) seek(ctx context.Context, g *protocol.Group, t *topic.Topic, to SeekTarget, opts *SeekOptions, unchanged registry.Check, logger *slog.Logger) ([]api.Position, error) {
	partitions, err := SoughtUnits(t.Document(), to, opts)
	if err != nil {
		return nil, err
	}
	// All targets are found before the first unit moves: a bad one must leave the group as it was.
	goal, err := l.seekTargets(ctx, g, t, to, partitions)
	if err != nil || opts.DryRun {
		return goal.infos, err
	}
	if err := g.Grow(ctx, len(l.of(t.Document()))); err != nil {
		return nil, err
	}
	hold := NewHold(g, t, logger)
	defer hold.End(ctx) // where the group is then, whatever happened
	if err := hold.Descend(ctx, goal.infos, goal.unread); err != nil {
		return nil, fmt.Errorf("seek of group %q: hold what it needs again: %w", g.Name(), err)
	}
	goal, err = l.seekTargets(ctx, g, t, to, partitions) // retention may have been at work until the hold was stored
	if err != nil {
		return nil, err
	}
	infos, units := goal.infos, goal.units
	for i := 0; i < len(infos); { // earlier storage topics first: the later ones then wait for them
		from, unit := i, units[i]
		var target protocol.Checkpoint // all that is sought in a unit in one write
		for ; i < len(infos) && units[i] == unit; i++ {
			target.Positions = append(target.Positions, protocol.Position{Storage: infos[i].Storage, Partition: infos[i].Partition, Next: infos[i].Checkpoint})
		}
		if err := g.SeekWith(ctx, unit, target, "seek to "+to.String(), registry.Txn{Checks: []registry.Check{unchanged}}); err != nil {
			partition := t.Document().Unit(infos[from].Storage, infos[from].Partition)
			return nil, fmt.Errorf("seek of group %q, partition %d (%d of %d are done): %w", g.Name(), partition, from, len(infos), err)
		}
	}
	if err := goal.fenceBehind(ctx, g, t, unchanged); err != nil {
		return nil, fmt.Errorf("seek of group %q, its later partitions: %w", g.Name(), err)
	}
	return infos, stillThere(ctx, t, infos)
}

// fenceBehind sends those units that had no checkpoint, and have an owner, to their first records.
func (goal *seekGoal) fenceBehind(ctx context.Context, g *protocol.Group, t *topic.Topic, unchanged registry.Check) error {
	for _, unit := range goal.behind {
		storage, partition, _ := t.Document().Partition(unit)
		u, err := g.Unit(ctx, unit)
		if errors.Is(err, fault.Corrupt) || err == nil && u.HandedOut() == 0 {
			continue // what can't be read waits for a seek of its own
		}
		if err != nil {
			return err
		}
		p, err := SeekPosition(ctx, t, storage, partition, SeekEarliest)
		if err != nil {
			return err
		}
		first := protocol.Checkpoint{Positions: []protocol.Position{{Storage: storage, Partition: partition, Next: p.Checkpoint}}}
		if err := g.SeekWith(ctx, unit, first, "earlier partitions were sent back", registry.Txn{Checks: []registry.Check{unchanged}}); err != nil {
			return err
		}
	}
	return nil
}

// stillThere checks that a group finds the place to which it was sent. Between finding the place and
// sending the group, this process may have been stopped for long.
func stillThere(ctx context.Context, t *topic.Topic, infos []api.Position) error {
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

// SoughtUnits returns the partitions that the options name, numbered through all storage topics, sorted.
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
			storage, partition, _ := doc.Partition(p)
			return nil, fmt.Errorf("partition %d/%d of topic %q is retired with its storage topic; there are storage topics %d to %d: %w", storage, partition, doc.Name, oldest, last, fault.Invalid)
		case p < 0 || p >= count:
			return nil, fmt.Errorf("topic %q has partitions %d to %d; %d is out of range: %w", doc.Name, max(0, left-first), count-1, p, fault.Invalid)
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

// seekGoal is where a seek goes, by partition.
type seekGoal struct {
	infos  []api.Position
	units  []int  // that read them
	unread []bool // what is stored of the unit can't be read
	behind []int  // units without a checkpoint, behind one that goes back
}

// seekTargets finds the new positions in the partitions, and in those that must follow them back.
func (l Layout) seekTargets(ctx context.Context, g *protocol.Group, t *topic.Topic, to SeekTarget, partitions []int) (goal seekGoal, _ error) {
	meta, err := g.Meta(ctx)
	if err == nil {
		err = l.fits(g.Name(), &meta)
	}
	if err != nil {
		return goal, err
	}
	st, err := g.Sketch(ctx, true)
	if err != nil {
		return goal, err
	}
	doc := t.Document()
	layout := l.of(doc)
	back := make([]bool, len(layout))
	for n, unit := range layout {
		for q := unit.From; q < unit.To; q += unit.Step {
			back[n] = back[n] || back[q]
		}
		follows, named := back[n], len(goal.infos)
		for _, in := range unit.Inputs {
			if in.Storage < doc.Left() {
				continue
			}
			var was *protocol.Position
			have := st.Unit(n)
			unread := have != nil && have.Damage() != nil
			if have != nil {
				was = have.Checkpoint.Position(in.Storage, in.Partition)
			}
			sought := slices.Contains(partitions, doc.Unit(in.Storage, in.Partition))
			if !sought && (!follows || was == nil) { // a unit that has not begun begins at its first record
				if follows {
					goal.behind = append(goal.behind, n)
				}
				continue
			}
			target := to
			if !sought {
				target = SeekEarliest
			}
			p, err := SeekPosition(ctx, t, in.Storage, in.Partition, target)
			if err != nil {
				return goal, err
			}
			back[n] = back[n] || was != nil && p.Checkpoint < was.Next || unread && p.Checkpoint < in.End // later units have begun, or may have
			goal.infos, goal.units, goal.unread = append(goal.infos, p), append(goal.units, n), append(goal.unread, unread)
		}
		if some := len(goal.infos) - named; some > 0 && some < len(unit.Inputs) && goal.unread[named] {
			return goal, fmt.Errorf("what group %q stored of unit %d can't be read, and it reads %d partitions; seek them all at once: %w", g.Name(), n, len(unit.Inputs), fault.Invalid)
		}
	}
	return goal, nil
}

// SeekPosition finds where a target lies in a partition.
func SeekPosition(ctx context.Context, t *topic.Topic, storage, partition int, to SeekTarget) (api.Position, error) {
	st, err := t.Storage(storage)
	if err != nil {
		return api.Position{}, err
	}
	b, err := st.Bounds(ctx, partition)
	if err != nil {
		return api.Position{}, err
	}
	p := api.Position{Storage: storage, Partition: partition, First: b.First, Next: b.Next}
	if p.Checkpoint, err = to.resolve(ctx, st, partition, b); err != nil {
		return api.Position{}, err
	}
	if err := st.Settle(ctx); err != nil { // the place may be stored where it outlives the records below it
		return api.Position{}, err
	}
	p.Lag = b.Next - p.Checkpoint
	return p, nil
}
