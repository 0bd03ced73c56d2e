package protocol

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/registry"
)

// Retire marks the units below first as finished for ever, and removes their owners and checkpoints.
// Members that still know these units as unfinished follow the mark. A group that does not exist,
// consumes another topic, or numbers its units by another layout than first does, stays as it is.
//
// Each step is done only while the check also holds, and is ErrConflict otherwise.
func (g *Group) Retire(ctx context.Context, topic string, first int, also registry.Check) error {
	for {
		m, e, err := g.meta(ctx)
		if err != nil || e.Version == "" || m.Deleting || m.Topic != topic || m.Layout != "" {
			return err
		}
		want := m
		if first > want.Units {
			want = want.Grown(first)
		}
		gone, epoch, err := g.unitsBelow(ctx, first)
		if err != nil {
			return err
		}
		want.First, want.Retired = max(want.First, first), max(want.Retired, epoch)
		checks := []registry.Check{also, {Key: e.Key, Version: e.Version}}
		if want != m {
			res, err := resolve(ctx, g.r, registry.Txn{Checks: checks, Puts: []registry.Put{{Key: e.Key, Value: registry.Encode(want)}}})
			if err != nil {
				return err
			}
			if errors.Is(res.Err, registry.ErrConflict) && res.Failed > 0 {
				continue // a member was faster, or our own first try was
			}
			if res.Err != nil {
				return fmt.Errorf("retire units below %d of group %q: %w", first, g.name, res.Err)
			}
			checks[1].Version = res.Versions[0]
		}
		changed, err := g.removeUnits(ctx, first, gone, checks)
		if err != nil || !changed {
			return err
		}
	}
}

// unitsBelow returns the keys of the owners and checkpoints of the units below first, and the highest epoch in which
// they were handed out.
func (g *Group) unitsBelow(ctx context.Context, first int) (keys []string, epoch int64, _ error) {
	for _, prefix := range []string{g.owners, g.checkpoints} {
		snap, err := g.r.List(ctx, prefix)
		if err != nil {
			return nil, 0, err
		}
		for _, e := range snap.Entries {
			if n, err := unitOf(e.Key); err != nil || n >= first {
				continue
			}
			var u Unit
			if prefix == g.owners {
				_ = decode(e, &u.Owner) // one that can't be read has no epoch that counts
			} else if c := new(Checkpoint); decode(e, c) == nil {
				u.Checkpoint = c
			}
			keys, epoch = append(keys, e.Key), max(epoch, u.HandedOut())
		}
	}
	return keys, epoch, nil
}

// removeUnits removes the entries of the units below first. changed: the group's document did, and the last check
// failed.
func (g *Group) removeUnits(ctx context.Context, first int, gone []string, checks []registry.Check) (changed bool, _ error) {
	for batch := range slices.Chunk(gone, deleteBatch) {
		res, err := resolve(ctx, g.r, registry.Txn{Checks: checks, Deletes: batch})
		if err != nil {
			return false, err
		}
		if errors.Is(res.Err, registry.ErrConflict) && res.Failed > 0 {
			return true, nil
		}
		if res.Err != nil {
			return false, fmt.Errorf("retire units below %d of group %q: %w", first, g.name, res.Err)
		}
	}
	return false, nil
}
