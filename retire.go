package ringfence

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/ringfence/ringfence/topic"
)

// RetireOptions are the options of RetireStorage.
type RetireOptions struct {
	DryRun bool // only say what would be done
}

// Retirement says what became of the sealed storage topics of a topic.
type Retirement struct {
	Topic string `json:"topic"`
	Done  bool   `json:"done"` // false: a dry run
	topic.Retirement
}

// RetireStorage removes the storage topics of a topic that can't deliver a record to anybody any more:
// sealed, without a record, as retention has dropped them, and behind every group. Their places stay, so
// that no index shifts. What groups know of their partitions goes, too. The oldest goes first; the result
// says of each sealed one that stays why it does.
//
// Members do the same by themselves, every ten minutes or so. It can be repeated after a failure.
// ErrNotFound for an unknown topic, ErrConflict when it was moved to another log.
func (c *Client) RetireStorage(ctx context.Context, name string, opts *RetireOptions) (*Retirement, error) {
	t, err := c.current(ctx, name)
	if err != nil {
		return nil, err
	}
	dry := opts != nil && opts.DryRun
	r := &Retirement{Topic: name, Done: !dry}
	var done *topic.Retirement
	if dry {
		done, err = c.catalog.PlanRetirement(ctx, name)
	} else if err = c.spend(ctx, t); err == nil {
		done, err = c.catalog.Retire(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	r.Retirement = *done
	return r, t.Refresh(ctx)
}

// spend lets go of what is in sealed storage topics when those after it hold as many bytes as the topic
// keeps: by itself each keeps so many for ever.
func (c *Client) spend(ctx context.Context, t *topic.Topic) error {
	doc := t.Document()
	r, bytes := doc.Retention(), 0.0
	if r.Bytes == 0 || doc.Moved != nil {
		return nil
	}
	for i := len(doc.Storage) - 1; i >= doc.Left(); i-- {
		if bytes >= float64(r.Bytes) && i < doc.Produce {
			if err := c.catalog.Spend(ctx, doc.Name, doc.Life, i); err != nil {
				return err
			}
			continue
		}
		st, err := t.Storage(i)
		for p := 0; p < doc.Storage[i].Partitions && err == nil && bytes < float64(r.Bytes); p++ {
			var e extent
			e, err = extentOf(ctx, st, p, r)
			bytes += e.bytes
		}
		if err != nil && !retired(ctx, t, i, err) {
			return err
		}
	}
	return nil
}

// retireEvery is about how often a member looks whether something can be retired.
const retireEvery = 10 * time.Minute

// retirer retires storage topics while a topic is consumed. Of all members of a group one does it: who
// has the first partition that takes new records.
type retirer struct {
	client *Client
	worker *unitWorker
	logger *slog.Logger
}

// aide is run for a goroutine.
func (r retirer) aide(ctx context.Context) func() { return func() { r.run(ctx) } }

func (r retirer) run(ctx context.Context) {
	failing := false
	for ctx.Err() == nil {
		pause := time.NewTimer(retireEvery/2 + rand.N(retireEvery)) // groups don't do it in step
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
		doc := r.worker.topic.Document()
		if _, mine := r.worker.running.Load(doc.Unit(doc.Produce, 0)); !mine || doc.Left() == doc.Produce {
			continue
		}
		done, err := r.client.RetireStorage(ctx, doc.Name, nil)
		switch {
		case ctx.Err() != nil:
		case err != nil && !failing:
			r.logger.Warn("storage topics that nobody needs can't be retired; it is tried again and again", "topic", doc.Name, "error", err)
		case err == nil && len(done.Retired) > 0:
			r.logger.Info("storage topics were retired: all groups had finished them, and no record was left", "topic", doc.Name, "storage", done.Retired)
		}
		failing = err != nil
	}
}
