package ring

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/registry"
)

// deleteBatch keeps the transactions of a deletion within the limits of stores.
const deleteBatch = 64

// Delete removes a ring with its history. ErrNotFound when there is none; ErrConflict while it has
// members. The next Delete or Join finishes an interrupted deletion.
func Delete(ctx context.Context, reg *registry.Registry, name string) error {
	if err := registry.CheckID("ring", name); err != nil {
		return err
	}
	k := keys{name}
	e, err := reg.Get(ctx, k.meta())
	if errors.Is(err, registry.ErrNotFound) {
		return fmt.Errorf("ring %q: %w", name, ErrNotFound)
	}
	if err != nil {
		return fmt.Errorf("ring %q: %w", name, err)
	}
	var had metaDoc
	if err := decode(e, &had); err != nil {
		return err
	}
	if had.Deleting {
		return removeAll(ctx, reg, name, e.Version)
	}
	v, err := Look(ctx, reg, name)
	if err != nil {
		return err
	}
	alive, err := reg.List(ctx, k.members())
	if err != nil {
		return fmt.Errorf("ring %q: %w", name, err)
	}
	if v.Mode == Table && len(v.Members) > 0 || len(alive.Entries) > 0 {
		return fmt.Errorf("ring %q has members; stop them first: %w", name, ErrConflict)
	}
	// Once it is marked as deleted, no member can join: joining checks the version of this entry.
	mark := metaDoc{Format: format, Mode: v.Mode, Slots: v.Slots, Deleting: true}
	versions, err := reg.Txn(ctx, registry.Txn{
		Checks: []registry.Check{{Key: e.Key, Version: e.Version}},
		Puts:   []registry.Put{{Key: e.Key, Value: registry.Encode(mark)}},
	})
	if err != nil {
		return fmt.Errorf("ring %q: %w", name, err)
	}
	return removeAll(ctx, reg, name, versions[0])
}

// removeAll removes everything of a ring that is marked as deleted: members first, because without
// its entry none can claim anything, and the mark last.
func removeAll(ctx context.Context, reg *registry.Registry, name string, mark registry.Version) error {
	k := keys{name}
	for _, prefix := range []string{k.members(), k.table() + "groups/" + slotsName + "/members/", k.prefix()} {
		snap, err := reg.List(ctx, prefix)
		if err != nil {
			return fmt.Errorf("ring %q: %w", name, err)
		}
		var found []string
		for _, e := range snap.Entries {
			if e.Key != k.meta() {
				found = append(found, e.Key)
			}
		}
		for batch := range slices.Chunk(found, deleteBatch) {
			if err := remove(ctx, reg, k, mark, batch); err != nil {
				return err
			}
		}
	}
	return remove(ctx, reg, k, mark, []string{k.meta()})
}

func remove(ctx context.Context, reg *registry.Registry, k keys, mark registry.Version, found []string) error {
	_, err := reg.Txn(ctx, registry.Txn{Checks: []registry.Check{{Key: k.meta(), Version: mark}}, Deletes: found})
	if err != nil && !errors.Is(err, registry.ErrConflict) { // then another process finished it
		return fmt.Errorf("ring %q: %w", k.ring, err)
	}
	return nil
}
