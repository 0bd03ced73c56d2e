package registry

import (
	"context"
	"errors"
	"fmt"
)

// ClaimOptions refine a claim.
type ClaimOptions struct {
	// Force takes the unit also from a live owner, which is fenced by it: its deadline has passed.
	Force bool
}

// Claim makes the member of that incarnation the owner of a unit, in the next epoch. It succeeds
// when the unit's epoch is still expectedEpoch (0: it never had an owner), the claiming member is
// registered, and the present owner is nobody, dead, or an earlier incarnation. ErrConflict when
// the epoch or the owner is another, ErrFenced when the claimer is no member any more. After
// ErrUnknown the same call gives the outcome. opts may be nil.
func (g *Group) Claim(ctx context.Context, unit int, member, incarnation string, expectedEpoch int64, reason string, opts *ClaimOptions) (Grant, error) {
	for try := 1; ; try++ {
		var owner Owner
		e, err := g.r.read(ctx, g.OwnerKey(unit), &owner)
		if err != nil {
			return Grant{}, err
		}
		if owner.Member == member && owner.Incarnation == incarnation && owner.After == expectedEpoch && owner.Epoch > expectedEpoch {
			return Grant{Unit: unit, Epoch: owner.Epoch, Version: e.Version}, nil // an earlier try of ours
		}
		if owner.Epoch != expectedEpoch {
			return Grant{}, fmt.Errorf("claim of unit %d of group %q at epoch %d: it is at epoch %d, owned by %q; read it again: %w",
				unit, g.name, expectedEpoch, owner.Epoch, owner.Member, ErrConflict)
		}
		self, err := g.member(ctx, member, incarnation)
		if err != nil {
			return Grant{}, err
		}
		c := claim{unit: unit, owner: owner, version: e.Version, self: self}
		if owner.Member != "" {
			if c.holder, err = g.r.lookup(ctx, g.MemberKey(owner.Member)); err != nil {
				return Grant{}, err
			}
		}
		t, grant, err := g.claimTxn(ctx, c, member, incarnation, reason, opts)
		if err != nil {
			return Grant{}, err
		}
		res, err := g.r.settle(ctx, t)
		if err != nil {
			return Grant{}, err
		}
		if res.Err == nil {
			grant.Version = res.Versions[0]
			return grant, nil
		}
		if !errors.Is(res.Err, ErrConflict) || try == settleTries {
			return Grant{}, res.Err
		}
	}
}

// ClaimResult is the fate of one claim of Claims.
type ClaimResult struct {
	Grant Grant
	Err   error // as of Claim
}

// Claims claims many units at once, as they stand in st. One unit's failure does not touch the
// others; the error is that of the call as a whole.
func (g *Group) Claims(ctx context.Context, st *State, units []int, member, incarnation, reason string, opts *ClaimOptions) ([]ClaimResult, error) {
	me, version, ok := st.Member(member)
	if !ok || me.Incarnation != incarnation {
		return nil, g.notMember(member, incarnation)
	}
	self := Entry{Key: g.MemberKey(member), Version: version}
	out := make([]ClaimResult, len(units))
	var txns []Txn
	var at []int // txn → unit index
	for i, n := range units {
		if n < 0 || n >= len(st.Units) {
			out[i].Err = fmt.Errorf("unit %d: group %q has %d units: %w", n, g.name, len(st.Units), ErrInvalid)
			continue
		}
		u := &st.Units[n]
		c := claim{unit: n, owner: u.Owner, version: u.OwnerVersion, self: self}
		if holder, v, ok := st.Member(u.Owner.Member); ok {
			c.holder = Entry{Key: g.MemberKey(holder.ID), Value: Encode(holder), Version: v}
		}
		t, grant, err := g.claimTxn(ctx, c, member, incarnation, reason, opts)
		if err != nil {
			out[i].Err = err
			continue
		}
		out[i].Grant = grant
		txns, at = append(txns, t), append(at, i)
	}
	results, err := g.r.Apply(ctx, txns)
	if err != nil {
		return nil, err
	}
	for j, res := range results {
		i := at[j]
		if res.Err == nil {
			out[i].Grant.Version = res.Versions[0]
			continue
		}
		// Our own entry may have moved on, or the outcome is unknown: find out one by one.
		out[i].Grant, out[i].Err = g.Claim(ctx, units[i], member, incarnation, st.Units[units[i]].Owner.Epoch, reason, opts)
	}
	return out, nil
}

// claim is what a claim was decided on.
type claim struct {
	unit    int
	owner   Owner
	version Version // of the owner entry
	self    Entry   // the claimer's member entry
	holder  Entry   // the present owner's member entry, if there is one
}

func (g *Group) claimTxn(ctx context.Context, c claim, member, incarnation, reason string, opts *ClaimOptions) (Txn, Grant, error) {
	next, err := g.r.follow(ctx, c.owner.Epoch, Owner{Member: member, Incarnation: incarnation, Reason: reason})
	if err != nil {
		return Txn{}, Grant{}, err
	}
	t := Txn{
		Checks: []Check{{Key: g.OwnerKey(c.unit), Version: c.version}, {Key: c.self.Key, Version: c.self.Version}},
		Puts:   []Put{{Key: g.OwnerKey(c.unit), Value: Encode(next)}},
	}
	if c.owner.Member != "" && (opts == nil || !opts.Force) {
		if c.holder.Version != "" {
			var m Member
			if err := decode(c.holder, &m); err != nil {
				return Txn{}, Grant{}, err
			}
			if m.Incarnation == c.owner.Incarnation {
				return Txn{}, Grant{}, fmt.Errorf("claim of unit %d of group %q: its owner %q is alive at epoch %d: %w", c.unit, g.name, c.owner.Member, c.owner.Epoch, ErrConflict)
			}
		}
		if c.owner.Member != member { // it is still dead
			t.Checks = append(t.Checks, Check{Key: g.MemberKey(c.owner.Member), Version: c.holder.Version})
		}
	}
	return t, Grant{Unit: c.unit, Epoch: next.Epoch}, nil
}

// member reads the entry of a member that has to be registered in that incarnation.
func (g *Group) member(ctx context.Context, member, incarnation string) (Entry, error) {
	var m Member
	e, err := g.r.read(ctx, g.MemberKey(member), &m)
	if err != nil {
		return Entry{}, err
	}
	if e.Version == "" || m.Incarnation != incarnation {
		return Entry{}, g.notMember(member, incarnation)
	}
	return e, nil
}

func (g *Group) notMember(member, incarnation string) error {
	return fmt.Errorf("member %q (incarnation %s) is not registered in group %q: its session has ended or it was started again: %w",
		member, incarnation, g.name, ErrFenced)
}
