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

// holdRetention keeps retention from dropping what a group has not processed, until ctx ends.
func holdRetention(ctx context.Context, g *registry.Group, t *topic.Topic, logger *slog.Logger) {
	tick := time.NewTicker(holdEvery)
	defer tick.Stop()
	for {
		if err := holdOnce(ctx, g, t); err != nil && ctx.Err() == nil {
			logger.Warn("retention does not know yet how far the group got", "group", g.Name(), "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func holdOnce(ctx context.Context, g *registry.Group, t *topic.Topic) error {
	st, err := g.Load(ctx, true)
	if err != nil || st.Meta == nil {
		return err
	}
	for storage, s := range t.Document().Storage {
		lowest := make([]int64, s.Partitions)
		for _, u := range st.Units {
			if u.Checkpoint == nil {
				continue // nothing processed: from the first record on
			}
			for _, p := range u.Checkpoint.Positions {
				if p.Storage == storage && p.Partition >= 0 && p.Partition < len(lowest) {
					lowest[p.Partition] = p.Next
				}
			}
		}
		log, err := t.Storage(storage)
		if err != nil {
			return err
		}
		if err := log.Hold(ctx, g.Name(), lowest); err != nil {
			return err
		}
	}
	return nil
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
