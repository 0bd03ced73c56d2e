package consumer

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/topic"
)

// publishEvery is how often a member copies its checkpoints to a log whose server has tools that
// show the lag of groups.
const publishEvery = 5 * time.Second

// publishAgain is after how many turns everything is copied anew, moved or not: a stalled member may
// have copied an older position over that of the unit's next owner.
const publishAgain = 12

// offsetPublisher copies the checkpoints of one member to the log's server. Only the registry
// decides: a copy that fails is merely late.
type offsetPublisher struct {
	log    *commitlog.Log
	group  *protocol.Group
	topic  *topic.Topic
	member string
	logger *slog.Logger
}

type partitionID struct{ storage, partition int }

// run copies until ctx ends, and then once more.
func (m offsetPublisher) run(ctx context.Context) {
	if !m.log.PublishesOffsets() {
		return
	}
	copied := map[partitionID]int64{}
	failing := false
	tick := time.NewTicker(publishEvery)
	defer tick.Stop()
	for turn := 1; ctx.Err() == nil; turn++ {
		select {
		case <-ctx.Done():
		case <-tick.C:
			if turn%publishAgain == 0 {
				clear(copied)
			}
			failing = m.turn(ctx, copied, failing)
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishEvery)
	defer cancel()
	m.turn(last, copied, failing)
}

// turn copies once, and logs when copying begins to fail and when it works again: a foreign group of
// the same name can stay for days.
func (m offsetPublisher) turn(ctx context.Context, copied map[partitionID]int64, failing bool) bool {
	n, err := m.copy(ctx, copied)
	switch {
	case ctx.Err() != nil || err == nil && n == 0:
		return failing
	case err != nil && !failing:
		m.logger.Warn("the checkpoints can't be copied to the log's server, whose tools show an old lag; it is tried again and again", "group", m.group.Name(), "error", err)
	case err == nil && failing:
		m.logger.Info("the checkpoints are copied to the log's server again", "group", m.group.Name())
	}
	return err != nil
}

// copy copies the positions of this member's units that are not in copied, and says how many.
func (m offsetPublisher) copy(ctx context.Context, copied map[partitionID]int64) (int, error) {
	st, err := m.group.Sketch(ctx, true)
	if err != nil {
		return 0, err
	}
	doc := m.topic.Document()
	if st.Meta == nil || st.Meta.Topic != doc.Name {
		return 0, nil
	}
	var at []commitlog.PublishedOffset
	var keys []partitionID
	for _, u := range st.Units {
		if u.Checkpoint == nil || u.Owner.Member != m.member && u.Checkpoint.Member != m.member {
			continue
		}
		for _, p := range u.Checkpoint.Positions {
			key := partitionID{p.Storage, p.Partition}
			if next, ok := copied[key]; p.Storage >= len(doc.Storage) || ok && next == p.Next {
				continue
			}
			log, err := m.topic.Storage(p.Storage)
			if errors.Is(err, topic.ErrRetired) {
				continue
			}
			if err != nil {
				return 0, err
			}
			at = append(at, commitlog.PublishedOffset{Topic: log.Config().Name, Partition: p.Partition, Next: p.Next})
			keys = append(keys, key)
		}
	}
	if err := m.log.PublishOffsets(ctx, m.group.Name(), at); err != nil {
		return 0, err
	}
	for i, key := range keys {
		copied[key] = at[i].Next
	}
	return len(at), nil
}
