package protocol

import (
	"context"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/registry"
)

// State is a consistent reading of a group.
type State struct {
	Revision          int64
	Time              int64 // the store's time of day, Unix ms
	Meta              *Meta // nil: the group does not exist
	MetaVersion       registry.Version
	Members           []Member // live ones, by ID
	MemberVersions    []registry.Version
	Static            []StaticMember
	Units             []Unit // Meta.Units of them; without checkpoints unless asked for
	Assignment        *Assignment
	AssignmentVersion registry.Version
	AssignmentDamage  error // of the unreadable assignment: it counts as none, and the next plan replaces it
	Control           Control
	ControlVersion    registry.Version
	// Leftover: the group does not exist, and entries of a deleted one are still there, see Heal.
	Leftover bool
}

// unreadable is a member of which only the key can be read.
func unreadable(id string) Member { return Member{ID: id, Draining: true, Unreadable: true} }

// Load reads the group's state in one consistent list; with checkpoints it takes a second one, of which
// each checkpoint is at least as new as its owner entry. An unreadable owner or checkpoint is an error
// that names its key, see Survey.
func (g *Group) Load(ctx context.Context, checkpoints bool) (*State, error) {
	st, err := g.Survey(ctx, checkpoints)
	if err != nil {
		return nil, err
	}
	for i := range st.Units {
		if err := st.Units[i].Damage(); err != nil {
			return nil, err
		}
	}
	return st, nil
}

// Survey is Load that passes over unreadable units: Unit.Damage says why, and the others go on.
func (g *Group) Survey(ctx context.Context, checkpoints bool) (*State, error) {
	return g.survey(ctx, checkpoints, func(units int, _ []registry.Entry) []Unit {
		all := make([]Unit, units)
		for i := range all {
			all[i].Number = i
		}
		return all
	})
}

// Sketch is Survey for readers: it has only the units that the store knows, by number. So units that are only
// a number in the document take no room.
func (g *Group) Sketch(ctx context.Context, checkpoints bool) (*State, error) {
	return g.survey(ctx, checkpoints, func(units int, known []registry.Entry) []Unit {
		var all []Unit
		for _, e := range known {
			if n, err := unitOf(e.Key); err == nil && n < units {
				all = append(all, Unit{Number: n})
			}
		}
		slices.SortFunc(all, func(a, b Unit) int { return a.Number - b.Number })
		return slices.CompactFunc(all, func(a, b Unit) bool { return a.Number == b.Number })
	})
}

// survey reads a group; units makes those of so many that it has room for, from the store's entries of units.
func (g *Group) survey(ctx context.Context, checkpoints bool, units func(int, []registry.Entry) []Unit) (*State, error) {
	snap, err := g.r.List(ctx, g.WatchPrefix())
	if err != nil {
		return nil, err
	}
	st := &State{Revision: snap.Revision, Time: snap.Time}
	var owners []registry.Entry
	for _, e := range snap.Entries {
		rest := strings.TrimPrefix(e.Key, g.WatchPrefix())
		kind, _, _ := strings.Cut(rest, "/")
		switch kind {
		case "meta":
			st.Meta, st.MetaVersion = new(Meta), e.Version
			err = decode(e, st.Meta)
		case "members":
			var m Member
			id := strings.TrimPrefix(rest, "members/")
			if decode(e, &m) != nil || m.ID != id {
				m = unreadable(id)
			}
			st.Members = append(st.Members, m)
			st.MemberVersions = append(st.MemberVersions, e.Version)
		case "static":
			var m StaticMember
			err = decode(e, &m)
			st.Static = append(st.Static, m)
		case "assignment":
			st.Assignment, st.AssignmentVersion = new(Assignment), e.Version
			if st.AssignmentDamage = decode(e, st.Assignment); st.AssignmentDamage != nil {
				st.Assignment = nil
			}
		case "control":
			st.ControlVersion = e.Version
			err = decode(e, &st.Control)
		case "owners":
			owners = append(owners, e)
		}
		if err != nil {
			return nil, err
		}
	}
	if st.Meta == nil || st.Meta.Deleting {
		st.Meta, st.MetaVersion = nil, ""
		points, err := g.r.List(ctx, g.checkpoints)
		st.Leftover = len(snap.Entries)+len(points.Entries) > 0
		return st, err
	}
	var stored []registry.Entry
	if checkpoints {
		points, err := g.r.List(ctx, g.checkpoints)
		if err != nil {
			return nil, err
		}
		stored = points.Entries
	}
	st.Units = units(st.Meta.Units, slices.Concat(owners, stored))
	for _, e := range owners {
		u := st.known(e.Key)
		if u == nil {
			continue
		}
		u.OwnerVersion = e.Version
		if err := decode(e, &u.Owner); err != nil {
			u.Owner, u.OwnerDamage = Owner{}, &DamagedUnitError{u.Number, err}
		}
	}
	for _, e := range stored {
		u, c := st.known(e.Key), new(Checkpoint)
		if u == nil {
			continue
		}
		u.CheckpointVersion = e.Version
		if err := decode(e, c); err != nil {
			u.CheckpointDamage = &DamagedUnitError{u.Number, err}
			continue
		}
		u.Checkpoint = c
	}
	return st, nil
}

// known returns the unit of a key; nil: the group has no such unit.
func (st *State) known(key string) *Unit {
	n, err := unitOf(key)
	if err != nil {
		return nil
	}
	return st.Unit(n)
}

// Unit returns what is known of a unit; nil: the store does not know it, or there is no such unit.
func (st *State) Unit(n int) *Unit {
	at, ok := slices.BinarySearchFunc(st.Units, n, func(u Unit, n int) int { return u.Number - n })
	if !ok {
		return nil
	}
	return &st.Units[at]
}

// Member returns the live member of that ID and the version of its entry.
func (st *State) Member(id string) (Member, registry.Version, bool) {
	i, ok := slices.BinarySearchFunc(st.Members, id, func(m Member, id string) int { return strings.Compare(m.ID, id) })
	if !ok {
		return Member{}, "", false
	}
	return st.Members[i], st.MemberVersions[i], true
}

// Alive reports whether an owner is a live member, in the same incarnation.
func (st *State) Alive(o Owner) bool {
	m, _, ok := st.Member(o.Member)
	return ok && o.Member != "" && (m.Unreadable || m.Incarnation == o.Incarnation)
}
