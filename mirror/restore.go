package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/topic"
)

// restore makes known at the target again what its registry has forgotten of a cut-over that is done: the topic as
// the log has it, which may have grown since, and each group without progress goes on at its hold. What was
// processed since then may be processed again.
func (m *Mirror) restore(ctx context.Context) (Result, error) {
	source, err := m.sourceNow(ctx)
	if err != nil {
		return Result{}, err
	}
	_, err = m.target.Get(ctx, m.c.Topic)
	res := Result{Already: true, Restored: errors.Is(err, fault.NotFound)}
	if err != nil && !res.Restored {
		return Result{}, err
	}
	doc, err := m.target.Restore(ctx, m.c.Topic, m.lives.Target)
	if err != nil {
		return Result{}, fmt.Errorf("topic %q was cut over to %s: %w", m.c.Topic, m.c.To.Name, err)
	}
	holds := make([]map[string][]int64, len(doc.Storage))
	for i := doc.Left(); i < len(doc.Storage); i++ {
		if holds[i], err = m.holdsAt(ctx, doc.Storage[i]); err != nil {
			return Result{}, err
		}
	}
	groups, err := m.groups(ctx)
	if err != nil {
		return Result{}, err
	}
	for _, g := range groups {
		if err := m.restoreGroup(ctx, g, doc, holds); err != nil {
			return Result{}, fmt.Errorf("group %q at the target: %w", g.Name(), err)
		}
		res.Groups = append(res.Groups, g.Name())
	}
	if err := m.releaseTarget(ctx, doc); err != nil {
		return Result{}, err
	}
	var names []string
	for _, s := range source.Storage {
		names = append(names, s.Name)
	}
	m.problems.note("retention of the source", release(ctx, m.c.From.Log, names, m.c.To.Name))
	return res, m.source.Mark(ctx, m.c.Topic, m.lives.Source, &topic.Moved{To: m.c.To.Name, Done: true})
}

// holdsAt are the holds of a storage topic of the target, as places that it has.
func (m *Mirror) holdsAt(ctx context.Context, s topic.Storage) (map[string][]int64, error) {
	t, err := m.c.To.Log.Topic(ctx, s.Name)
	if err != nil {
		return nil, err
	}
	t = t.First(s.Partitions)
	holds, err := t.Holds(ctx)
	for p := 0; p < s.Partitions && err == nil; p++ {
		b, failed := t.Bounds(ctx, p)
		for _, offsets := range holds {
			if offsets[p] >= 0 {
				offsets[p] = min(max(offsets[p], b.First), b.Next)
			}
		}
		err = failed
	}
	return holds, errors.Join(err, t.Close())
}

func (m *Mirror) restoreGroup(ctx context.Context, from *protocol.Group, doc *topic.Document, holds []map[string][]int64) error {
	meta, err := from.Meta(ctx)
	if err != nil {
		return err
	}
	g, err := protocol.NewGroup(m.c.To.Registry, from.Name())
	if err != nil {
		return err
	}
	if have, err := g.Meta(ctx); err == nil {
		meta = have
	} else if !errors.Is(err, fault.NotFound) {
		return err
	}
	if meta, err = g.EnsureMeta(ctx, meta); err != nil {
		return err
	}
	st, err := g.Load(ctx, true)
	if err != nil {
		return err
	}
	for unit := range meta.Units {
		storage, partition, ok := doc.Partition(unit)
		at := int64(-1)
		if ok && partition < len(holds[storage][from.Name()]) {
			at = holds[storage][from.Name()][partition]
		}
		if at < 0 || slices.ContainsFunc(st.Units, func(u protocol.Unit) bool { return u.Number == unit && u.Checkpoint != nil }) {
			continue
		}
		c := protocol.Checkpoint{Positions: []protocol.Position{{Storage: storage, Partition: partition, Next: at}}}
		if err := g.Seek(ctx, unit, c, "carried over from another log"); err != nil {
			return err
		}
	}
	return nil
}
