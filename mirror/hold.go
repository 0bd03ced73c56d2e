package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/topic"
)

// Retention at two places. The source is held at what is not copied yet. The target has the
// retention of the source, but no group that consumes there before the cut-over: it is held from
// before its first record, no further on than where the source begins, which is held by the groups
// there, until the cut-over has given each group a hold of its own. All of it also while nothing is ever
// dropped: a topic may be given a retention at any time.

// holdName is what a mirror holds the source under; no group can have such a name.
func holdName(target string) string { return "mirror:" + target }

// incomingName is what a mirror holds its target under.
func incomingName(source string) string { return "mirror-from:" + source }

// holdPause is between two notes to the source's retention of what was copied.
const holdPause = 5 * time.Second

// hold tells the retention of both sides what is needed; once, or again and again until all is
// copied. What fails is tried again: until then what was held before stays held, or nothing.
func (m *Mirror) hold(ctx context.Context, copied <-chan struct{}, from, to *commitlog.Topic, storage int, once bool) {
	for {
		err := m.holdNow(ctx, from, to, storage)
		if ctx.Err() != nil || m.retired(ctx, storage, err) {
			return
		}
		m.problems.note("retention", err)
		pause := holdPause
		switch {
		case err != nil:
			pause = retryPause
		case once:
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-copied:
			return
		case <-time.After(pause):
		}
	}
}

func (m *Mirror) holdNow(ctx context.Context, from, to *commitlog.Topic, storage int) error {
	source, target := make([]int64, from.Config().Partitions), make([]int64, from.Config().Partitions)
	for p := range source {
		s, err := m.readState(ctx, m.stateKey(storage, p))
		if err != nil {
			return err
		}
		if s.version == "" {
			continue // all is needed
		}
		b, err := from.Bounds(ctx, p)
		if err != nil {
			return err
		}
		source[p], target[p] = s.From, s.beginAt(b.First)
	}
	return errors.Join(from.Hold(ctx, holdName(m.c.To.Name), source), m.holdTarget(ctx, to, target))
}

// beginAt is a place of the target below which there is only what stood below first at the source.
func (s *state) beginAt(first int64) int64 {
	at := int64(0)
	for _, a := range s.Anchors {
		if a.Source <= first {
			at = a.Target
		}
	}
	return at
}

// holdTarget holds the target from some offsets on, in place of groups that will consume there.
func (m *Mirror) holdTarget(ctx context.Context, to *commitlog.Topic, offsets []int64) error {
	return to.Hold(ctx, incomingName(m.c.From.Name), offsets)
}

// handHoldsOver lets each group hold at the target what its progress leaves to be done there.
func (m *Mirror) handHoldsOver(ctx context.Context, p *plan, progress func(ctx context.Context, group string, units int) ([]protocol.Unit, error)) error {
	all := make([][]protocol.Unit, len(p.Names))
	for i, name := range p.Names {
		var err error
		if all[i], err = progress(ctx, name, p.Groups[i].Units); err != nil {
			return err
		}
	}
	for storage, s := range p.Document.Storage {
		to, err := m.c.To.Log.Topic(ctx, s.Name)
		if errors.Is(err, fault.NotFound) && (s.Retired || storage == p.Document.Produce) {
			continue
		}
		if err != nil {
			return err
		}
		to = to.First(s.Partitions)
		for i, units := range all {
			err = errors.Join(err, to.Hold(ctx, p.Names[i], protocol.LowestNeeded(units, storage, s.Partitions)))
		}
		if err = errors.Join(err, to.Close()); err != nil {
			return fmt.Errorf("retention at the target: %w", err)
		}
	}
	return nil
}

// planned is what a group gets at the target.
func (m *Mirror) planned(ctx context.Context, group string, units int) ([]protocol.Unit, error) {
	all := make([]protocol.Unit, units)
	for unit := range all {
		switch c, _, err := m.readCarried(ctx, group, unit); {
		case err == nil:
			all[unit] = protocol.Unit{Number: unit, Checkpoint: &c.Checkpoint}
		case !errors.Is(err, fault.NotFound):
			return nil, err
		}
	}
	return all, nil
}

// standing is what a group has at the target.
func (m *Mirror) standing(ctx context.Context, group string, _ int) ([]protocol.Unit, error) {
	g, err := protocol.NewGroup(m.c.To.Registry, group)
	if err != nil {
		return nil, err
	}
	st, err := g.Load(ctx, true)
	if err != nil {
		return nil, err
	}
	return st.Units, nil
}

// releaseTarget ends the hold of the mirror at the target.
func (m *Mirror) releaseTarget(ctx context.Context, doc *topic.Document) error {
	for i := doc.Left(); i < len(doc.Storage); i++ {
		to, err := m.c.To.Log.Topic(ctx, doc.Storage[i].Name)
		if err != nil {
			return err
		}
		to = to.First(doc.Storage[i].Partitions)
		if err = errors.Join(m.holdTarget(ctx, to, commitlog.NoHold(doc.Storage[i].Partitions)), to.Close()); err != nil {
			return err
		}
	}
	return nil
}

// Abandon takes back that a cut-over to the target was begun, which ErrConflict says is too late once
// its groups are being moved, and lets the source forget what a mirror to the target of that name has not copied. It needs
// no target, where what was copied stays held until the topic is deleted. A mirror that still runs holds it again, and one that goes on later may find that the
// source has dropped what it wants. ErrNotFound for an unknown topic.
func Abandon(ctx context.Context, from Side, topicName, target string) error {
	c := topic.NewCatalog(from.Log, from.Registry, from.Namespace)
	doc, err := c.Get(ctx, topicName)
	if err != nil {
		return err
	}
	if ended, err := c.Ended(ctx, doc); err != nil || ended != nil {
		doc.Moved = ended
		return cmp.Or(err, doc.CheckHere())
	}
	if doc.Moved != nil && doc.Moved.To == target {
		if err := c.Mark(ctx, topicName, doc.Life, nil); err != nil {
			return err // it is done
		}
	}
	var names []string
	for _, s := range doc.Storage {
		names = append(names, s.Name)
	}
	return release(ctx, from.Log, names, target)
}

// release ends the holds of a mirror on storage topics of the source. One that is gone holds nothing.
func release(ctx context.Context, from *commitlog.Log, storage []string, target string) error {
	for _, name := range storage {
		t, err := from.Topic(ctx, name)
		if errors.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		err = t.Hold(ctx, holdName(target), commitlog.NoHold(t.Config().Partitions))
		if err = errors.Join(err, t.Close()); err != nil {
			return err
		}
	}
	return nil
}
