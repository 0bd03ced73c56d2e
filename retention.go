package ringfence

import (
	"context"
	"log/slog"
	"time"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/topic"
)

// holdEvery is how often a member tells the log which records its group still needs. The hold is
// stored: it protects the records also while no member runs, only less of them than it could free.
const holdEvery = 5 * time.Second

// retentionHold keeps retention from dropping what a group has not processed.
type retentionHold struct {
	group  *registry.Group
	topic  *topic.Topic
	logger *slog.Logger
}

// needed says whether the log drops records by itself.
func (h retentionHold) needed() bool {
	doc := h.topic.Document()
	return doc.RetentionBytes > 0 || doc.RetentionAgeMS > 0
}

// begin stores the hold before the first record is handled: retention must not be faster than
// the group's first checkpoint. A hold that can't be stored (a full disk) is tried again later.
func (h retentionHold) begin(ctx context.Context) { h.warn(ctx, h.store(ctx, true)) }

// run moves the hold along with the checkpoints until ctx ends.
func (h retentionHold) run(ctx context.Context) {
	tick := time.NewTicker(holdEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			h.warn(ctx, h.store(ctx, false))
		}
	}
}

// end stores where the group is now. A group that does not consume the topic after all, because
// it consumes another or was deleted, must hold nothing.
func (h retentionHold) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), holdEvery)
	defer cancel()
	h.warn(ctx, h.store(ctx, false))
}

func (h retentionHold) warn(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		h.logger.Warn("retention could not be told how far the group got", "group", h.group.Name(), "error", err)
	}
}

// store tells the log the lowest offsets that the group needs. A group that does not exist yet is
// going to need everything.
func (h retentionHold) store(ctx context.Context, first bool) error {
	st, err := h.group.Load(ctx, true)
	if err != nil {
		return err
	}
	doc := h.topic.Document()
	if st.Meta == nil && !first || st.Meta != nil && st.Meta.Topic != doc.Name {
		if first {
			return nil // the group is going to refuse this member
		}
		return releaseRetention(ctx, h.group.Name(), h.topic)
	}
	for storage, s := range doc.Storage {
		log, err := h.topic.Storage(storage)
		if err != nil {
			return err
		}
		if err := log.Hold(ctx, h.group.Name(), lowest(st.Units, storage, s.Partitions)); err != nil {
			return err
		}
	}
	return nil
}

// lowest is the next offset that the units need of each partition; 0, all that is kept, of those
// without a checkpoint.
func lowest(units []registry.Unit, storage, partitions int) []int64 {
	offsets := make([]int64, partitions)
	for _, u := range units {
		if u.Checkpoint == nil {
			continue
		}
		for _, p := range u.Checkpoint.Positions {
			if p.Storage == storage && p.Partition >= 0 && p.Partition < partitions {
				offsets[p.Partition] = p.Next
			}
		}
	}
	return offsets
}

// releaseRetention forgets what a deleted group held.
func releaseRetention(ctx context.Context, name string, t *topic.Topic) error {
	for storage, s := range t.Document().Storage {
		none := make([]int64, s.Partitions)
		for p := range none {
			none[p] = -1
		}
		log, err := t.Storage(storage)
		if err != nil {
			return err
		}
		if err := log.Hold(ctx, name, none); err != nil {
			return err
		}
	}
	return nil
}
