package protocol

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

const (
	metaFormat = 1
	// deleteBatch keeps the transactions of a deletion within the limits of stores.
	deleteBatch = 64
)

// EnsureMeta creates the group, or returns an existing one. ErrExists when it consumes another
// topic, or has another number of units or another layout: all are fixed for the life of a group.
func (g *Group) EnsureMeta(ctx context.Context, want Meta) (Meta, error) {
	if want.Units < 1 || want.Units > MaxUnits || want.Topic == "" {
		return Meta{}, fmt.Errorf("group %q: topic %q, units: %d; expected a topic and 1 to %d units: %w", g.name, want.Topic, want.Units, MaxUnits, registry.ErrInvalid)
	}
	want.Format, want.Life, want.Deleting = metaFormat, rand.Text(), false
	for {
		have, e, err := g.meta(ctx)
		if err != nil {
			return Meta{}, err
		}
		switch {
		case e.Version == "":
			if done, err := g.sweep(ctx, e); err != nil {
				return Meta{}, err
			} else if !done {
				continue
			}
			res, err := resolve(ctx, g.r, registry.Txn{Checks: []registry.Check{{Key: e.Key}}, Puts: []registry.Put{{Key: e.Key, Value: registry.Encode(want)}}})
			if err != nil {
				return Meta{}, err
			}
			if errors.Is(res.Err, registry.ErrConflict) {
				continue // another member was faster, or our own write was: compare
			}
			return want, res.Err
		case have.Deleting:
			if _, err := g.sweep(ctx, e); err != nil {
				return Meta{}, err
			}
		case have.Layout != want.Layout:
			return have, fmt.Errorf("group %q has the layout %q, asked for was %q; use another group name or delete it: %w", g.name, have.Layout, want.Layout, registry.ErrExists)
		case have.Topic != want.Topic || have.Units != want.Units:
			return have, fmt.Errorf("group %q consumes topic %q (units: %d), asked for was topic %q (units: %d); use another group name or delete it: %w",
				g.name, have.Topic, have.Units, want.Topic, want.Units, registry.ErrExists)
		default:
			return have, nil
		}
	}
}

// Meta reads what the group consumes; ErrNotFound when it does not exist.
func (g *Group) Meta(ctx context.Context) (Meta, error) {
	m, _, err := g.existing(ctx)
	return m, err
}

func (g *Group) existing(ctx context.Context) (Meta, registry.Entry, error) {
	m, e, err := g.meta(ctx)
	if err == nil && (e.Version == "" || m.Deleting) {
		err = fmt.Errorf("group %q: %w", g.name, registry.ErrNotFound)
	}
	return m, e, err
}

func (g *Group) meta(ctx context.Context) (Meta, registry.Entry, error) {
	var m Meta
	e, err := read(ctx, g.r, g.MetaKey(), &m)
	if err == nil && e.Version != "" && g.over(m) {
		err = fmt.Errorf("group %q was deleted, and there is another one of its name: %w", g.name, registry.ErrNotFound)
	}
	return m, e, err
}

// over reports whether a document has another ID than the one that is meant.
func (g *Group) over(m Meta) bool { return g.life != "" && m.Life != g.life }

// Grow gives the group at least so many units. Its members notice, and share the new ones.
// ErrNotFound when the group does not exist.
func (g *Group) Grow(ctx context.Context, units int) error {
	if units > MaxUnits {
		return fmt.Errorf("group %q: %d units; at most %d are allowed: %w", g.name, units, MaxUnits, registry.ErrInvalid)
	}
	for {
		m, e, err := g.existing(ctx)
		if err != nil {
			return err
		}
		if m.Units >= units {
			return nil
		}
		m = m.Grown(units)
		res, err := resolve(ctx, g.r, g.MetaTxn(m, e.Version))
		if err != nil {
			return err
		}
		if !errors.Is(res.Err, registry.ErrConflict) {
			return res.Err
		}
	}
}

// Grown is the document of a group that has so many units from now on.
func (m Meta) Grown(units int) Meta {
	if m.Initial == 0 {
		m.Initial = m.Units
	}
	m.Units = units
	return m
}

// Delete removes the group with its checkpoints; deleting one that does not exist is no error. ErrConflict
// while it has members. The next Delete, EnsureMeta or member finishes an interrupted deletion. No member
// can join or claim in between: each transaction that makes an entry of a group checks its document, or an
// entry that goes with it.
func (g *Group) Delete(ctx context.Context) error {
	life := g.life
	for try := 1; try <= tries; try++ {
		snap, err := g.r.List(ctx, g.WatchPrefix())
		if err != nil {
			return err
		}
		var meta Meta
		e, members := registry.Entry{Key: g.MetaKey()}, g.WatchPrefix()+"members/"
		plan, member, live := registry.Check{Key: g.AssignmentKey()}, "", 0
		for _, x := range snap.Entries {
			switch {
			case x.Key == e.Key:
				e = x
			case x.Key == plan.Key:
				plan.Version = x.Version
			case strings.HasPrefix(x.Key, members):
				member, live = strings.TrimPrefix(x.Key, members), live+1
			}
		}
		mark, done := e, false
		if e.Version != "" {
			if err := decode(e, &meta); err != nil {
				return err
			}
			if life == "" {
				life = meta.Life // the one to be deleted, and no later one of the name
			}
			switch {
			case meta.Life != life:
				return nil
			case meta.Deleting:
			case live > 0:
				return fmt.Errorf("group %q has live members (%d, %q among them); stop them first: %w", g.name, live, member, registry.ErrConflict)
			default:
				if mark, err = g.mark(ctx, e, meta, plan); errors.Is(err, registry.ErrConflict) {
					continue
				}
			}
		}
		if err == nil {
			done, err = g.sweep(ctx, mark)
		}
		if err != nil || done {
			return err
		}
	}
	return fmt.Errorf("group %q was changed while it was being deleted; try again: %w", g.name, registry.ErrConflict)
}

// Destroy is Delete of whatever there is, even of a group with members, which end as after any deletion, and
// of one with unreadable documents. A group that a newer version wrote stays: fault.Newer.
func (g *Group) Destroy(ctx context.Context) error {
	for range tries {
		e, err := g.r.Lookup(ctx, g.MetaKey())
		if err != nil {
			return err
		}
		if e.Version != "" {
			var m Meta
			if err := decode(e, &m); errors.Is(err, fault.Newer) {
				return err
			} else if err != nil {
				m = Meta{Format: metaFormat, Life: rand.Text(), Units: 1} // the mark needs no more
			} else if g.over(m) {
				return nil
			}
			if e, err = g.mark(ctx, e, m); errors.Is(err, registry.ErrConflict) {
				continue
			} else if err != nil {
				return err
			}
		}
		if done, err := g.sweep(ctx, e); err != nil || done {
			return err
		}
	}
	return fmt.Errorf("group %q was changed while it was being deleted; try again: %w", g.name, registry.ErrConflict)
}

// mark marks a group as deleted, with a check of the plan that the decision was made on: members that came since have
// written another one, and an old decision to delete does not take their work.
func (g *Group) mark(ctx context.Context, e registry.Entry, meta Meta, plan ...registry.Check) (registry.Entry, error) {
	meta.Deleting = true
	t := g.MetaTxn(meta, e.Version, plan...)
	e.Value = t.Puts[0].Value
	res, err := resolve(ctx, g.r, t)
	if err = errors.Join(err, res.Err); err == nil {
		e.Version = res.Versions[0]
	}
	return e, err
}

// Heal removes the remains of a deleted group, whose deletion was interrupted or incomplete. An
// existing group stays as it is.
func (g *Group) Heal(ctx context.Context) error {
	meta, e, err := g.meta(ctx)
	if err != nil || e.Version != "" && !meta.Deleting {
		return err
	}
	_, err = g.sweep(ctx, e)
	return err
}

// sweep removes everything of a group that is marked as deleted: members first, because without its
// member entry no member can claim, and the mark last. Without a mark, the entries are of no group.
//
// Each removal writes the mark anew, and the mark goes only in the version that a reading showed with
// nothing else: a store that goes back meanwhile, and has something again, has another one. It is not
// done, and no error, when the mark is another one: others do the same, or the store went back.
func (g *Group) sweep(ctx context.Context, mark registry.Entry) (done bool, _ error) {
	for {
		left, now, err := g.leftovers(ctx, mark)
		if err != nil || now.Version != mark.Version {
			return false, err
		}
		if len(left) == 0 {
			break
		}
		for batch := range slices.Chunk(left, deleteBatch) {
			t := registry.Txn{Deletes: batch}
			if mark.Version != "" {
				t.Puts = []registry.Put{{Key: mark.Key, Value: mark.Value}}
			}
			versions, ok, err := g.remove(ctx, mark, t)
			if err != nil || !ok {
				return false, err
			}
			if mark.Version != "" {
				mark.Version = versions[0]
			}
		}
	}
	if mark.Version == "" {
		return true, nil
	}
	_, done, err := g.remove(ctx, mark, registry.Txn{Deletes: []string{mark.Key}})
	return done, err
}

// leftovers returns the keys of a group except its mark, members first, and the mark as it is now.
func (g *Group) leftovers(ctx context.Context, mark registry.Entry) (left []string, now registry.Entry, err error) {
	points, err := g.r.List(ctx, g.checkpoints)
	if err != nil {
		return nil, now, err
	}
	snap, err := g.r.List(ctx, g.WatchPrefix())
	if err != nil {
		return nil, now, err
	}
	var others []string
	for _, e := range append(snap.Entries, points.Entries...) {
		switch {
		case e.Key == mark.Key:
			now = e
		case strings.HasPrefix(e.Key, g.WatchPrefix()+"members/"):
			left = append(left, e.Key)
		default:
			others = append(others, e.Key)
		}
	}
	return append(left, others...), now, nil
}

// remove is a write under the mark; not ok when that is another one.
func (g *Group) remove(ctx context.Context, mark registry.Entry, t registry.Txn) (_ []registry.Version, ok bool, _ error) {
	t.Checks = []registry.Check{{Key: mark.Key, Version: mark.Version}}
	res, err := resolve(ctx, g.r, t)
	if err != nil || errors.Is(res.Err, registry.ErrConflict) {
		return nil, false, err
	}
	return res.Versions, res.Err == nil, res.Err
}

// ListGroups returns the names of the groups, sorted, including those with an unreadable document.
func ListGroups(ctx context.Context, r *registry.Registry) ([]string, error) {
	return groups(ctx, r, "", func(m *Meta) bool { return !m.Deleting })
}

// GroupsOf returns the names that begin with prefix, sorted, including half-deleted groups.
func GroupsOf(ctx context.Context, r *registry.Registry, prefix string) ([]string, error) {
	return groups(ctx, r, prefix, func(*Meta) bool { return true })
}

func groups(ctx context.Context, r *registry.Registry, prefix string, wanted func(*Meta) bool) (names []string, _ error) {
	snap, err := r.List(ctx, "groups/"+prefix)
	if err != nil {
		return nil, err
	}
	for _, e := range snap.Entries {
		name, ok := strings.CutSuffix(strings.TrimPrefix(e.Key, "groups/"), "/meta")
		if !ok || strings.Contains(name, "/") {
			continue
		}
		var m Meta
		if err := decode(e, &m); err != nil || wanted(&m) {
			names = append(names, name)
		}
	}
	return names, nil
}
