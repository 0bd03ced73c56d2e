package registry

import (
	"context"
	"errors"
	"fmt"
)

// Handoff gives a unit to another member in one transaction: the last checkpoint and the new
// owner, in the next epoch. There is no moment without an owner, and nothing is repeated.
// ErrFenced when the grant is no longer the owner's; ErrNotFound when the target is not a live
// member of that incarnation, then hand it to another or release it.
func (g *Group) Handoff(ctx context.Context, grant Grant, last Checkpoint, target, incarnation, reason string) error {
	for try := 1; ; try++ {
		var m Member
		e, err := g.r.read(ctx, g.MemberKey(target), &m)
		if err != nil {
			return err
		}
		if e.Version == "" || m.Incarnation != incarnation {
			return fmt.Errorf("handoff of unit %d of group %q: member %q (incarnation %s) is gone: %w", grant.Unit, g.name, target, incarnation, ErrNotFound)
		}
		next, err := g.r.follow(ctx, grant.Epoch, Owner{Member: target, Incarnation: incarnation, Reason: reason})
		if err != nil {
			return err
		}
		res, err := g.change(ctx, grant, &last, next, Check{Key: e.Key, Version: e.Version})
		if err != nil || res.Err == nil {
			return err
		}
		if !errors.Is(res.Err, ErrConflict) || try == settleTries {
			return res.Err
		}
		if res.Failed == 0 {
			return g.fenced(ctx, grant, next, &last)
		}
	}
}

// Release gives a unit up: nobody owns it, in the next epoch. With a last checkpoint, that is
// written in the same transaction; nil leaves the stored one. ErrFenced when the grant is no
// longer the owner's.
func (g *Group) Release(ctx context.Context, grant Grant, last *Checkpoint, reason string) error {
	next, err := g.r.follow(ctx, grant.Epoch, Owner{Reason: reason})
	if err != nil {
		return err
	}
	res, err := g.change(ctx, grant, last, next)
	if err != nil {
		return err
	}
	if errors.Is(res.Err, ErrConflict) {
		return g.fenced(ctx, grant, next, last)
	}
	return res.Err
}

// ReleaseAll releases all units of one incarnation of a member, for example of a dead one, and
// returns which. Units that somebody took meanwhile are passed over.
func (g *Group) ReleaseAll(ctx context.Context, member, incarnation, reason string) ([]int, error) {
	st, err := g.load(ctx, false)
	if err != nil {
		return nil, err
	}
	var done []int
	var failed []error
	for i := range st.Units {
		grant, ok := st.Units[i].Grant(member, incarnation)
		if !ok || member == "" {
			continue
		}
		switch err := g.Release(ctx, grant, nil, reason); {
		case err == nil:
			done = append(done, grant.Unit)
		case !errors.Is(err, ErrFenced):
			failed = append(failed, err)
		}
	}
	return done, errors.Join(failed...)
}

// change writes a new owner and, if given, a checkpoint, under the grant's fence.
func (g *Group) change(ctx context.Context, grant Grant, last *Checkpoint, next Owner, more ...Check) (Result, error) {
	t := Txn{
		Checks: append([]Check{{Key: g.OwnerKey(grant.Unit), Version: grant.Version}}, more...),
		Puts:   []Put{{Key: g.OwnerKey(grant.Unit), Value: Encode(next)}},
	}
	if last != nil {
		t.Puts = append(t.Puts, Put{Key: g.CheckpointKey(grant.Unit), Value: stamped(*last, grant.Epoch).Encode()})
	}
	if grant.Version == "" {
		return Result{}, fmt.Errorf("unit %d of group %q: an empty grant: %w", grant.Unit, g.name, ErrInvalid)
	}
	return g.r.settle(ctx, t)
}

// fenced tells a grant that was overtaken from one that this very write used up, the reply to
// which was lost: then the owner entry is ours to the letter, and so is the checkpoint, or the
// new owner has moved it on already.
func (g *Group) fenced(ctx context.Context, grant Grant, next Owner, last *Checkpoint) error {
	u, err := g.Unit(ctx, grant.Unit)
	if err != nil {
		return err
	}
	next.Since, next.Epoch = u.Owner.Since, u.Owner.Epoch // an earlier call of ours had another time
	if u.Owner == next {
		moved := u.Checkpoint != nil && u.Checkpoint.Epoch > grant.Epoch
		if last == nil || moved || u.Checkpoint != nil && u.Checkpoint.same(stamped(*last, grant.Epoch)) {
			return nil
		}
	}
	return fmt.Errorf("unit %d of group %q: epoch %d is over, it is at epoch %d, owned by %q (%s): %w",
		grant.Unit, g.name, grant.Epoch, u.Owner.Epoch, u.Owner.Member, u.Owner.Reason, ErrFenced)
}
