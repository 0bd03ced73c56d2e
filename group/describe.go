package group

import (
	"context"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// Description is a group as the store has it.
type Description struct {
	Meta       protocol.Meta
	Members    []protocol.Member   // live ones, by ID
	Awaited    []string            // absent static members whose units wait for them
	Units      []Status            // those that the store knows, by number; see Unit
	Assignment protocol.Assignment // zero: none was written yet
	Control    protocol.Control

	state *protocol.State
}

// Status is one unit.
type Status struct {
	protocol.Unit
	Phase  api.Phase
	Target string // the member that should own it; "": none yet
	Why    string // why it is where it is, or on its way
}

// Told returns the delivery stats of a living owner of a subscription's shard; nil: none. Those of an earlier owner,
// or a dead one, are no longer true.
func (s *Status) Told() *protocol.Deliveries {
	lives := s.Phase == api.Owned || s.Phase == api.Moving || s.Phase == api.Paused
	if c := s.Checkpoint; lives && c != nil && c.Epoch == s.Owner.Epoch {
		return c.Deliveries
	}
	return nil
}

// Describe reads a group; it needs no live member. ErrNotFound when there is no such group.
func Describe(ctx context.Context, r *registry.Registry, name string) (*Description, error) {
	return read(ctx, r, name, true)
}

// Outline is Describe without the checkpoints, the largest part of a group in the store: its units have
// no progress.
func Outline(ctx context.Context, r *registry.Registry, name string) (*Description, error) {
	return read(ctx, r, name, false)
}

func read(ctx context.Context, r *registry.Registry, name string, checkpoints bool) (*Description, error) {
	g, err := protocol.NewGroup(r, name)
	if err != nil {
		return nil, err
	}
	st, err := g.Sketch(ctx, checkpoints)
	if err != nil {
		return nil, err
	}
	if st.Meta == nil {
		return nil, fmt.Errorf("group %q: %w", name, fault.NotFound)
	}
	return describe(st), nil
}

func describe(st *protocol.State) *Description {
	d := &Description{Meta: *st.Meta, Members: st.Members, Control: st.Control, state: st}
	switch {
	case st.Assignment != nil:
		d.Assignment = *st.Assignment
	case st.AssignmentDamage != nil:
		d.Assignment.Reason = st.AssignmentDamage.Error() + "; the next member to join replaces it"
	}
	for _, s := range st.Static {
		if _, _, live := st.Member(s.ID); !live {
			d.Awaited = append(d.Awaited, s.ID)
		}
	}
	d.Units = make([]Status, 0, len(st.Units))
	for i := range st.Units {
		d.Units = append(d.Units, d.status(st, &st.Units[i]))
	}
	return d
}

// Unit returns any unit of the group: one that the store does not know has no owner, and was never begun.
func (d *Description) Unit(n int) Status {
	at, ok := slices.BinarySearchFunc(d.Units, n, func(u Status, n int) int { return u.Number - n })
	switch {
	case ok:
		return d.Units[at]
	case n >= d.Meta.Units: // the group has not grown with its topic yet
		return Status{Unit: protocol.Unit{Number: n}, Phase: api.Unowned, Why: "no member has seen it yet"}
	}
	return d.status(d.state, &protocol.Unit{Number: n})
}

func (d *Description) status(st *protocol.State, u *protocol.Unit) Status {
	s := Status{Unit: *u, Why: u.Owner.Reason}
	if u.Number < len(d.Assignment.Targets) {
		s.Target = d.Assignment.Targets[u.Number]
	}
	o := &u.Owner
	switch {
	case u.Number < d.Meta.First:
		s.Phase, s.Target = api.Finished, ""
	case u.OwnerDamage != nil:
		s.Phase, s.Target, s.Why = api.Unowned, "", "its owner can't be read, so no member takes it; a seek gives it a new epoch"
	case o.Member == "":
		s.Phase = api.Unowned
		if o.Epoch == 0 {
			s.Why = "no member has owned it yet"
		}
	case !st.Alive(*o) && slices.Contains(d.Awaited, o.Member) && s.Target == o.Member:
		s.Phase = api.Awaiting
		s.Why = fmt.Sprintf("static member %q is away; its units wait for its restart", o.Member)
	case !st.Alive(*o):
		s.Phase = api.Orphaned
		s.Why = fmt.Sprintf("%q (incarnation %s) is gone", o.Member, o.Incarnation)
	case s.Target != "" && s.Target != o.Member:
		s.Phase = api.Moving
		s.Why = fmt.Sprintf("%q hands it over to %q: %s", o.Member, s.Target, d.Assignment.Reason)
	case d.Control.Paused || slices.Contains(d.Control.PausedUnits, u.Number):
		s.Phase = api.Paused
		s.Why = "paused"
		if d.Control.By != "" {
			s.Why += " by " + d.Control.By
		}
	default:
		s.Phase = api.Owned
	}
	return s
}
