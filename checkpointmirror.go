package ringfence

import (
	"context"
	"log/slog"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/topic"
)

// mirrorEvery is how often a member copies its checkpoints to a log whose server has tools that
// show the lag of groups.
const mirrorEvery = 5 * time.Second

// checkpointMirror copies what one member has checkpointed to the log's server. The registry
// stays the only truth: a copy that fails is late, and nothing else.
type checkpointMirror struct {
	log    *commitlog.Log
	group  *registry.Group
	topic  *topic.Topic
	member string
	logger *slog.Logger
}

type mirrorKey struct{ storage, partition int }

// aide is run for a goroutine.
func (m checkpointMirror) aide(ctx context.Context) func() { return func() { m.run(ctx) } }

// run copies until ctx ends, and then once more.
func (m checkpointMirror) run(ctx context.Context) {
	if !m.log.MirrorsCheckpoints() {
		return
	}
	copied := map[mirrorKey]int64{}
	tick := time.NewTicker(mirrorEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			m.warn(ctx, m.copy(ctx, copied))
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), mirrorEvery)
	defer cancel()
	m.warn(last, m.copy(last, copied))
}

func (m checkpointMirror) warn(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		m.logger.Warn("the checkpoints could not be copied to the log's server, whose tools show an old lag", "group", m.group.Name(), "error", err)
	}
}

// copy copies the positions that this member has moved since the last time.
func (m checkpointMirror) copy(ctx context.Context, copied map[mirrorKey]int64) error {
	st, err := m.group.Load(ctx, true)
	if err != nil {
		return err
	}
	doc := m.topic.Document()
	if st.Meta == nil || st.Meta.Topic != doc.Name {
		return nil
	}
	var at []commitlog.MirrorPosition
	var keys []mirrorKey
	for _, u := range st.Units {
		if u.Checkpoint == nil || u.Owner.Member != m.member && u.Checkpoint.Member != m.member {
			continue
		}
		for _, p := range u.Checkpoint.Positions {
			key := mirrorKey{p.Storage, p.Partition}
			if next, ok := copied[key]; p.Storage >= len(doc.Storage) || ok && next == p.Next {
				continue
			}
			log, err := m.topic.Storage(p.Storage)
			if err != nil {
				return err
			}
			at = append(at, commitlog.MirrorPosition{Topic: log.Config().Name, Partition: p.Partition, Next: p.Next})
			keys = append(keys, key)
		}
	}
	if err := m.log.MirrorCheckpoints(ctx, m.group.Name(), at); err != nil {
		return err
	}
	for i, key := range keys {
		copied[key] = at[i].Next
	}
	return nil
}
