package consumer

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/topic"
)

// Retention drops records by size and age, and knows no groups: a hold tells it the lowest offset that a
// group needs in each partition. It must exist before it is needed, and may be too low but never too high.
// So it is stored before the first record is handled, follows the checkpoints at intervals, goes down
// before a seek does (Descend), and is stored for future storage topics before anything is produced there
// (HoldNext).

// holdEvery is how often a member tells the log which records its group still needs. The hold is
// stored: it protects the records also while no member runs, but then frees fewer than it could.
const holdEvery = 5 * time.Second

// holdAgain is when an unchanged hold is stored again: a stalled member may have put an older one
// in its place.
const holdAgain = 30 * time.Second

// requireAgain is when a member that waits for its hold tries again.
const requireAgain = time.Second

// Hold keeps retention from dropping what a group has not processed. A group holds what it needs
// even without a retention: the topic may get one at any time.
type Hold struct {
	group  *protocol.Group
	topic  *topic.Topic
	logger *slog.Logger
	told   map[int]told // by storage topic
	member bool         // it is a member's, which knows where the group begins without a checkpoint; else that is at its hold
	latest bool         // of a member: at the latest record
}

// told is a hold and when it was stored.
type told struct {
	offsets []int64
	at      time.Time
}

// NewHold returns the hold of a group on a topic.
func NewHold(g *protocol.Group, t *topic.Topic, logger *slog.Logger) Hold {
	return Hold{group: g, topic: t, logger: logger, told: map[int]told{}}
}

// drops reports whether the log drops records by itself. While it does not, a hold that stays
// behind costs nothing.
func (h Hold) drops() bool {
	r := h.topic.Document().Retention()
	return r.Bytes > 0 || r.AgeMS > 0
}

// missing reports whether the log lacks the hold for some storage topic. That may not wait for news of
// a retention, which drops records before any member hears of it.
func (h Hold) missing() bool {
	doc := h.topic.Document()
	for i := doc.Left(); i < len(doc.Storage); i++ {
		if _, ok := h.told[i]; !ok {
			return true
		}
	}
	return false
}

// Begin stores the hold once. One that can't be stored (a full disk) is tried again by members that run.
func (h Hold) Begin(ctx context.Context) { h.warn(ctx, h.store(ctx, true)) }

// Require stores the hold before the first record is read: retention must not overtake the group's first
// checkpoint. While the hold can't be stored (a full disk), it is tried again, and the member reads nothing.
func (h Hold) Require(ctx context.Context) error {
	for told := false; ; told = true {
		err := h.store(ctx, true)
		if err == nil && h.latest { // another new member may have begun since, at an earlier end (lowerHold)
			err = h.store(ctx, true)
		}
		if err == nil || errors.Is(err, fault.NotFound) || errors.Is(err, fault.Closed) {
			if err == nil && told {
				h.logger.Info("the retention hold is stored; reading begins", "group", h.group.Name())
			}
			return err
		}
		if !told && ctx.Err() == nil {
			h.logger.Warn("the retention hold can't be stored, so retention might drop what the group needs; nothing is read until it can, and it is tried again and again", "group", h.group.Name(), "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(requireAgain):
		}
	}
}

// Run moves the hold along with the checkpoints until ctx ends.
func (h Hold) Run(ctx context.Context) {
	tick := time.NewTicker(holdEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if h.drops() || h.missing() {
				h.warn(ctx, h.store(ctx, false))
			}
		}
	}
}

// End stores where the group is now. A group that does not consume the topic after all, because it
// consumes another or was deleted, must hold nothing.
func (h Hold) End(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), holdEvery)
	defer cancel()
	clear(h.told)
	for range 2 { // a group deleted between the first look and its write is gone at the second
		h.warn(ctx, h.store(ctx, false))
	}
}

func (h Hold) warn(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		h.logger.Warn("retention could not be told how far the group got", "group", h.group.Name(), "error", err)
	}
}

// store tells the log the lowest offsets that the group needs. A group that does not exist yet is
// going to need everything.
func (h Hold) store(ctx context.Context, first bool) error {
	st, err := h.group.Sketch(ctx, true)
	if err != nil {
		return err
	}
	doc := h.topic.Document()
	elsewhere := st.Meta == nil && !first || st.Meta != nil && st.Meta.Topic != doc.Name
	if elsewhere && first {
		return nil // the group will refuse this member
	}
	own := sync.OnceValues(func() (Held, error) { return HeldBy(ctx, h.topic, h.group.Name()) }) // before any is changed
	for storage, s := range doc.Storage {
		offsets := commitlog.NoHold(s.Partitions)
		if !elsewhere && storage >= doc.Left() {
			offsets = h.needs(st, storage, s.Partitions)
			if err := h.keep(ctx, st, doc, storage, offsets, own); err != nil {
				return err
			}
		}
		if err := h.tell(ctx, storage, offsets); err != nil {
			return err
		}
	}
	return nil
}

// needs returns the lowest offsets that the group needs of a storage topic.
func (h Hold) needs(st *protocol.State, storage, partitions int) []int64 {
	if st.Past(h.group.Name(), storage) {
		return commitlog.NoHold(partitions)
	}
	return protocol.LowestNeeded(st.Units, storage, partitions)
}

// Descend lowers the hold of a group that is about to be sent to these positions, where one lies below
// what the group needed until now, or that can't be read (unread, by position). It stays low from then
// on.
func (h Hold) Descend(ctx context.Context, to []api.Position, unread []bool) error {
	st, err := h.group.Sketch(ctx, true)
	if err != nil {
		return err
	}
	held, err := HeldBy(ctx, h.topic, h.group.Name())
	if err != nil {
		return err
	}
	for storage, s := range h.topic.Document().Storage {
		offsets, begun := h.needs(st, storage, s.Partitions), begunAt(st, storage)
		for p := range offsets { // where a unit begins that has no checkpoint
			if own := held.at(storage, p); own >= 0 && !begun[p] {
				offsets[p] = own
			}
		}
		lower := false
		for i, p := range to {
			if p.Storage == storage && (offsets[p.Partition] < 0 || p.Checkpoint < offsets[p.Partition] || unread[i]) {
				offsets[p.Partition], lower = p.Checkpoint, true
			}
		}
		if lower {
			if err := h.tell(ctx, storage, offsets); err != nil {
				return err
			}
		}
	}
	return nil
}

// tell stores the hold of one storage topic, unless it was stored unchanged a short while ago.
func (h Hold) tell(ctx context.Context, storage int, offsets []int64) error {
	if last := h.told[storage]; slices.Equal(last.offsets, offsets) && time.Since(last.at) < holdAgain {
		return nil
	}
	if err := holdAt(ctx, h.topic, storage, h.group.Name(), offsets); err != nil {
		return err
	}
	h.told[storage] = told{offsets, time.Now()}
	return nil
}

// ReleaseHold forgets the hold of a deleted group. If another group has its name by now, that one holds what it
// needs.
func ReleaseHold(ctx context.Context, g *protocol.Group, t *topic.Topic) error {
	h := NewHold(g, t, nil)
	for range 2 { // a group that came between the first look and its write is there at the second
		if err := h.store(ctx, false); err != nil {
			return err
		}
	}
	return nil
}

// holdAt stores a hold. In a storage topic that is retired there is nothing to hold.
func holdAt(ctx context.Context, t *topic.Topic, storage int, name string, offsets []int64) error {
	log, err := t.Storage(storage)
	if err == nil {
		err = log.Hold(ctx, name, offsets)
	}
	if err != nil && t.IsRetired(ctx, storage, err) {
		return nil
	}
	return err
}

// HoldNext protects records of future storage topics until the groups that consume the topic have
// seen them, also groups without a running member.
func (c *Groups) HoldNext(ctx context.Context, name string) error {
	t, err := c.Topics.Current(ctx, name)
	if err != nil {
		return err
	}
	doc := t.Document()
	groups, err := c.List(ctx)
	if err != nil {
		return err
	}
	for _, g := range groups {
		if g.Topic != name {
			continue
		}
		for i := doc.Produce + 1; i < len(doc.Storage); i++ { // the group needs all records of them
			if err := holdAt(ctx, t, i, g.Name, make([]int64, doc.Storage[i].Partitions)); err != nil {
				return err
			}
		}
	}
	return nil
}
