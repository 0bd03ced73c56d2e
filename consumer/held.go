package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/topic"
)

// The log's own copy of how far a group got are its holds, which are never above what the group needs. A registry that
// went back has older checkpoints, or none, and the holds tell two things: where a group from the latest record
// began, and that the group had finished what retention has dropped.

// Held is what a group holds of a topic: the lowest offset that it needs of each partition, by storage topic; -1: it
// holds nothing there.
type Held map[int][]int64

// HeldBy reads the holds of a group as they are stored. Where that of the group may be one that is damaged, it holds all.
func HeldBy(ctx context.Context, t *topic.Topic, group string) (Held, error) {
	held := Held{}
	doc := t.Document()
	for i := doc.Left(); i < len(doc.Storage); i++ {
		log, err := t.Storage(i)
		if err == nil {
			var all map[string][]int64
			all, err = log.Holds(ctx)
			own, there := all[group]
			if errors.Is(err, fault.Corrupt) { // the group replaces its own
				if err = nil; !there {
					own = make([]int64, doc.Storage[i].Partitions)
				}
			}
			if own != nil {
				held[i] = own
			}
		}
		if err != nil && !t.IsRetired(ctx, i, err) {
			return nil, err
		}
	}
	return held, nil
}

// at is the hold of a partition; -1: there is none.
func (h Held) at(storage, partition int) int64 {
	if own := h[storage]; partition < len(own) {
		return own[partition]
	}
	return -1
}

// known reports whether the group holds something anywhere in the topic: it began before now.
func (h Held) known() bool {
	for _, own := range h {
		for _, at := range own {
			if at >= 0 {
				return true
			}
		}
	}
	return false
}

// keep changes the offsets that a group needs of a storage topic by what it holds there already.
//
// A group from the latest record needs what lies behind its hold where it has no checkpoint; a new one begins at the
// ends. And a checkpoint that went back below what retention has dropped needs no more than what is left, if the hold
// was above that: otherwise the hold, lowered, would say no longer that the rest was finished.
func (h Hold) keep(ctx context.Context, st *protocol.State, doc *topic.Document, storage int, offsets []int64, own func() (Held, error)) error {
	last, stored := h.told[storage]
	all := h.member && !h.latest
	var at map[int]bool
	if !all {
		at = begunAt(st, storage)
	}
	for p := range offsets {
		begun := all || at[p]
		switch {
		case offsets[p] < 0, begun && stored && p < len(last.offsets) && last.offsets[p] <= offsets[p]:
			continue
		case !begun && stored && last.offsets[p] >= 0:
			offsets[p] = last.offsets[p]
			continue
		}
		held, err := own()
		if err != nil {
			return err
		}
		if err := h.keepOne(ctx, st, doc, storage, p, &offsets[p], held, begun); err != nil {
			return err
		}
	}
	return nil
}

func (h Hold) keepOne(ctx context.Context, st *protocol.State, doc *topic.Document, storage, p int, at *int64, held Held, begun bool) error {
	have := held.at(storage, p)
	if !begun && (have < 0 && (!h.member || held.known()) || isYounger(st, doc, storage, p)) || begun && have <= *at {
		return nil
	}
	if !begun && have >= 0 {
		*at = have
		return nil
	}
	log, err := h.topic.Storage(storage)
	if err == nil && !begun {
		err = log.Settle(ctx) // the place is stored where it outlives the records below it
	}
	if err != nil {
		return err
	}
	b, err := log.Bounds(ctx, p)
	switch {
	case err != nil:
		return err
	case !begun:
		*at = b.Next
	case *at < b.First && b.First <= have:
		*at = b.First
	}
	return nil
}

// isYounger reports whether a partition came after its group: nothing in it is older than the group.
func isYounger(st *protocol.State, doc *topic.Document, storage, partition int) bool {
	return storage > doc.Produce || st.Meta != nil && st.Meta.Initial > 0 && doc.Unit(storage, partition) >= st.Meta.Initial
}

// begunAt are the partitions of a storage topic that a checkpoint names.
func begunAt(st *protocol.State, storage int) map[int]bool {
	at := map[int]bool{}
	for i := range st.Units {
		ck := st.Units[i].Checkpoint
		if ck == nil {
			continue
		}
		for _, p := range ck.Positions {
			if p.Storage == storage {
				at[p.Partition] = true
			}
		}
	}
	return at
}

// endLooks and endPause: a log whose server has just changed may name an earlier end for a moment.
const (
	endLooks = 5
	endPause = time.Second
)

// reaches ends the member when a partition ends before what the definition or the checkpoint knows of it: then the log
// is older than its registry, and a group that went on would pass over what is appended up to that place.
func (w *unitWorker) reaches(ctx context.Context, in dispatch.Input, end int64, start []protocol.Position) error {
	known, by := end, topic.ByDefinition
	for i := range start {
		if p := &start[i]; p.Storage == in.Storage && p.Partition == in.Partition && p.Next > known {
			known, by = p.Next, fmt.Sprintf("group %q", w.group.Name())
		}
	}
	if known <= 0 {
		return nil
	}
	for look := 1; ; look++ {
		b, err := in.Source.Bounds(ctx)
		if err != nil || b.Next >= known {
			return err
		}
		if look == endLooks {
			err = &topic.OlderError{Topic: w.Topic.Document().Name, Storage: in.Storage, Partition: in.Partition, Known: known, End: b.Next, By: by}
			w.lost(err)
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(endPause):
		}
	}
}

// finished moves positions that lie below the first record to that, where the group's own hold is not below it: the
// log was told that the group needs nothing there, so the checkpoint is from a registry that went back.
func (w *unitWorker) finished(ctx context.Context, unit int, in []dispatch.Input, start []protocol.Position) ([]protocol.Position, error) {
	var held Held
	moved := append([]protocol.Position(nil), start...)
	for i := range moved {
		p := &moved[i]
		for _, at := range in {
			if at.Storage != p.Storage || at.Partition != p.Partition {
				continue
			}
			b, err := at.Source.Bounds(ctx)
			if err != nil {
				return nil, err
			}
			if p.Next >= b.First {
				break
			}
			if held == nil {
				if held, err = HeldBy(ctx, w.Topic, w.group.Name()); err != nil {
					return nil, err
				}
			}
			if held.at(p.Storage, p.Partition) < b.First {
				break // the reader says what is missing
			}
			w.Logger.Warn("the registry went back: the checkpoint is below the first record that is kept, and the log was told that the group had finished those before; it goes on there; look at pauses, limits and seeks, which may have gone back too",
				"group", w.group.Name(), "unit", unit, "storage", p.Storage, "partition", p.Partition, "checkpoint", p.Next, "first", b.First)
			*p = protocol.Position{Storage: p.Storage, Partition: p.Partition, Next: b.First}
		}
	}
	return moved, nil
}
