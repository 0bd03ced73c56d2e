package benchkit

import (
	"context"
	"fmt"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/measure"
)

// idle measures what a group costs to which nothing is produced, and a daemon whose subscriptions have nothing to
// deliver.
type idle struct{ Partitions, Processes, Subscriptions int }

func (c *idle) settings(s *settings) {
	s.turns()
	s.number(&c.Partitions, "partitions", 64, 1, "partitions")
	s.number(&c.Processes, "processes", 3, 1, "consumer processes")
	s.number(&c.Subscriptions, "subscriptions", 100, 1, "subscriptions of one shard that a daemon delivers")
	s.program("idle")
}

func (c *idle) measure(ctx context.Context, r *run) error {
	rf, err := r.open(ctx, "", ringfence.Sync)
	if err != nil {
		return err
	}
	if err := rf.EnsureTopic(ctx, "idle", ringfence.TopicConfig{Partitions: c.Partitions}); err != nil {
		return err
	}
	owner := make([]int, c.Partitions)
	crew := r.crew(c.Processes, func(i int) harness.Job {
		return &memberJob{Dir: r.dir, Topic: "idle", Member: fmt.Sprintf("member-%d", i)}
	}, func(h heard) {
		if h.Kind == kindAssigned {
			owner[h.Partition] = h.member + 1
		}
	})
	if err := crew.startAll(ctx); err != nil {
		return err
	}
	if err := crew.until(ctx, "every member to own its share", func(heard) bool { return even(owner, c.Processes) }); err != nil {
		return err
	}
	args := []any{measure.Many(c.Processes, "process"), measure.Many(c.Partitions, "partition")}
	r.Add(measure.Entry{Name: "an idle group", Unit: "% of a core", Kind: "idle", Size: c.Processes, Args: args, Turn: func(*measure.Histogram) (float64, error) {
		used, began := time.Duration(0), time.Now()
		if err := crew.ask(ctx, kindCPU, -1, func(h heard) { used -= h.CPU }); err != nil {
			return 0, err
		}
		if err := crew.pass(ctx, r.For); err != nil {
			return 0, err
		}
		if err := crew.ask(ctx, kindCPU, -1, func(h heard) { used += h.CPU }); err != nil {
			return 0, err
		}
		return 100 * float64(used) / float64(time.Since(began)), nil
	}})
	told, err := c.enterDaemon(ctx, r, rf)
	if err != nil {
		return err
	}
	if err := r.play(); err != nil {
		return err
	}
	if err := told(); err != nil {
		return err
	}
	return r.done("%s, %s, no records, all processes together; a daemon of %s; %s of %s",
		measure.Many(c.Processes, "consumer process"), measure.Many(c.Partitions, "partition"), measure.Many(c.Subscriptions, "subscription"), measure.Many(r.Rounds, "round"), r.For)
}
