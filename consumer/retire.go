package consumer

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/ringfence/ringfence/topic"
)

// retireEvery is about how often a member looks for something to retire.
const retireEvery = 10 * time.Minute

// retirer retires storage topics while a topic is consumed. One member of a group does it: the owner
// of the first partition that takes new records.
type retirer struct {
	catalog *topic.Catalog
	worker  *unitWorker
	logger  *slog.Logger
}

func (r retirer) run(ctx context.Context) {
	failing := false
	for ctx.Err() == nil {
		select {
		case <-time.After(retireEvery/2 + rand.N(retireEvery)): // groups must not do it in step
		case <-ctx.Done():
			return
		}
		doc := r.worker.Topic.Document()
		if _, mine := r.worker.running.Load(partitionID{doc.Produce, 0}); !mine || doc.Left() == doc.Produce {
			continue
		}
		done, err := r.catalog.RetireSpent(ctx, r.worker.Topic)
		switch {
		case ctx.Err() != nil:
		case err != nil && !failing:
			r.logger.Warn("storage topics without any use can't be retired; it is tried again and again", "topic", doc.Name, "error", err)
		case err == nil && len(done.Retired) > 0:
			r.logger.Info("storage topics were retired: all groups had finished them, and no record was left", "topic", doc.Name, "storage", done.Retired)
		}
		failing = err != nil
	}
}
