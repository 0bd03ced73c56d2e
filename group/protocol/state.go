package protocol

import (
	"context"
	"fmt"
	"strings"

	"github.com/ringfence/ringfence/registry"
)

// Member returns the live member of that ID and the version of its entry.
func (st *State) Member(id string) (Member, registry.Version, bool) {
	for i, m := range st.Members {
		if m.ID == id {
			return m, st.MemberVersions[i], true
		}
	}
	return Member{}, "", false
}

// Alive says whether an owner is a live member, in the same incarnation.
func (st *State) Alive(o Owner) bool {
	m, _, ok := st.Member(o.Member)
	return ok && o.Member != "" && (m.Unreadable || m.Incarnation == o.Incarnation)
}

// Grant is the right of the unit's present owner. It is for that owner itself, to go on under
// the epoch that a handoff or a seek gave it; ok is false when somebody else owns the unit.
func (u *Unit) Grant(member, incarnation string) (_ Grant, ok bool) {
	if u.OwnerVersion == "" || u.Owner.Member != member || u.Owner.Incarnation != incarnation {
		return Grant{}, false
	}
	return Grant{Unit: u.Number, Epoch: u.Owner.Epoch, Version: u.OwnerVersion}, true
}

// Unit reads the owner and the checkpoint of one unit. The checkpoint is at least as new as the
// owner entry: read after a claim, nobody of an earlier epoch can change it any more.
func (g *Group) Unit(ctx context.Context, unit int) (Unit, error) {
	u := Unit{Number: unit}
	if unit < 0 {
		return u, fmt.Errorf("unit %d of group %q: %w", unit, g.name, registry.ErrInvalid)
	}
	e, err := read(ctx, g.r, g.OwnerKey(unit), &u.Owner)
	if err != nil {
		return u, err
	}
	u.OwnerVersion = e.Version
	var c Checkpoint
	if e, err = read(ctx, g.r, g.CheckpointKey(unit), &c); err != nil {
		return u, err
	}
	if e.Version != "" {
		u.Checkpoint, u.CheckpointVersion = &c, e.Version
	}
	return u, nil
}

// Units reads all units with their checkpoints; ErrNotFound when the group does not exist.
func (g *Group) Units(ctx context.Context) ([]Unit, error) {
	st, err := g.load(ctx, true)
	if err != nil {
		return nil, err
	}
	return st.Units, nil
}

// ActiveMembers lists the members whose sessions live, by ID.
func (g *Group) ActiveMembers(ctx context.Context) ([]Member, error) {
	snap, err := g.r.List(ctx, g.WatchPrefix()+"members/")
	if err != nil {
		return nil, err
	}
	out := make([]Member, 0, len(snap.Entries))
	for _, e := range snap.Entries {
		if e.Session == "" {
			continue // see State.Strange
		}
		var m Member
		if decode(e, &m) != nil {
			m = unreadable(strings.TrimPrefix(e.Key, g.MemberKey("")))
		}
		out = append(out, m)
	}
	return out, nil
}

// load is Load of a group that has to exist.
func (g *Group) load(ctx context.Context, checkpoints bool) (*State, error) {
	st, err := g.Load(ctx, checkpoints)
	if err == nil && st.Meta == nil {
		err = fmt.Errorf("group %q: %w", g.name, registry.ErrNotFound)
	}
	return st, err
}
