package protocol

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/registry"
)

// Unit is what the registry knows of one unit. A unit that never had an owner has a zero Owner
// (Epoch 0) and version "".
type Unit struct {
	Number            int
	Owner             Owner
	OwnerVersion      registry.Version
	Checkpoint        *Checkpoint // nil: none was ever written
	CheckpointVersion registry.Version

	// OwnerDamage and CheckpointDamage say why the stored owner or checkpoint can't be read. No member claims or
	// begins the unit then: its owner may live, and how far it got is unknown. A seek writes both anew.
	OwnerDamage, CheckpointDamage error
}

// DamagedUnitError says that the stored entries of a unit can't be read.
type DamagedUnitError struct {
	Unit int
	Err  error // names the key
}

func (e *DamagedUnitError) Error() string { return e.Err.Error() }

func (e *DamagedUnitError) Unwrap() error { return e.Err }

// Damage returns what keeps members from working on a unit; nil: nothing.
func (u *Unit) Damage() error {
	if u.OwnerDamage != nil {
		return u.OwnerDamage
	}
	return u.CheckpointDamage
}

// HandedOut returns the highest epoch in which an owner may have handed out records of the unit, as far as the
// store knows: one without a member has not.
func (u *Unit) HandedOut() int64 {
	epoch := u.Owner.Epoch
	if u.Owner.Member == "" {
		epoch = u.Owner.After
	}
	if u.Checkpoint != nil {
		epoch = max(epoch, u.Checkpoint.Epoch)
	}
	return epoch
}

// Grant is the right to write the checkpoint of a unit, as it was given at a claim or handoff.
type Grant struct {
	Unit    int
	Epoch   int64
	Version registry.Version // of the owner entry when it was granted: the fence
}

// Grant returns the right of the unit's present owner, for that owner itself, to go on under the
// epoch that a handoff or a seek gave it; ok is false when another member owns the unit.
func (u *Unit) Grant(member, incarnation string) (_ Grant, ok bool) {
	if u.OwnerVersion == "" || u.Owner.Member != member || u.Owner.Incarnation != incarnation {
		return Grant{}, false
	}
	return Grant{Unit: u.Number, Epoch: u.Owner.Epoch, Version: u.OwnerVersion}, true
}

// Unit reads the owner and the checkpoint of one unit. The checkpoint is at least as new as the
// owner entry: after a claim, no owner of an earlier epoch can change it any more.
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

// ActiveMembers lists the members with live sessions, by ID.
func (g *Group) ActiveMembers(ctx context.Context) ([]Member, error) {
	snap, err := g.r.List(ctx, g.WatchPrefix()+"members/")
	if err != nil {
		return nil, err
	}
	out := make([]Member, 0, len(snap.Entries))
	for _, e := range snap.Entries {
		var m Member
		if decode(e, &m) != nil {
			m = unreadable(strings.TrimPrefix(e.Key, g.MemberKey("")))
		}
		out = append(out, m)
	}
	return out, nil
}

func unitOf(key string) (int, error) {
	n, err := strconv.Atoi(key[strings.LastIndexByte(key, '/')+1:])
	if err != nil || n < 0 {
		return 0, fmt.Errorf("registry key %q does not end in a unit number", key)
	}
	return n, nil
}
