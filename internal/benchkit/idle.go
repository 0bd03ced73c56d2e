package benchkit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence"
)

// IdleConfig says what to measure; zero fields have defaults.
type IdleConfig struct {
	Common
	Partitions int // default 64
	Processes  int // default 3
}

// idleLimit is what each process of an idle group may take, in percent of a core: three on 64
// partitions take 1 in all.
const idleLimit = 1.0 / 3

// Idle measures the processor time of a group to which nothing is produced.
func Idle(ctx context.Context, c IdleConfig) (_ *Result, err error) {
	setDefault(&c.For, 2*time.Second)
	c.Common = c.Common.withDefaults()
	setDefault(&c.Partitions, 64)
	setDefault(&c.Processes, 3)
	var d demand
	d.positive("--partitions", c.Partitions)
	d.positive("--processes", c.Processes)
	d.that(len(c.Command) > 0, "idle needs a program to start")
	if err := errors.Join(d.errs...); err != nil {
		return nil, err
	}
	dir, rf, end, err := c.aside(ctx, ringfence.Sync)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	if err := rf.EnsureTopic(ctx, "idle", ringfence.TopicConfig{Partitions: c.Partitions}); err != nil {
		return nil, err
	}
	owner := make([]int, c.Partitions) // 0: nobody, else member + 1
	crew := newCrew(&c.Common, c.Processes, memberJob{Dir: dir, Topic: "idle"}, func(h heard) {
		if h.Kind == kindAssigned {
			owner[h.Partition] = h.member + 1
		}
	})
	defer crew.close()
	if err := crew.startAll(ctx); err != nil {
		return nil, err
	}
	if err := crew.until(ctx, "every member to own its share", func(heard) bool { return even(owner, c.Processes) }); err != nil {
		return nil, err
	}
	return c.measure(ctx, crew)
}

func (c *IdleConfig) measure(ctx context.Context, crew *crew) (*Result, error) {
	var game contest
	row := game.add("an idle group", "% of a core", "", 1, func(*histogram) (float64, error) {
		before, began := time.Duration(0), time.Now()
		if err := crew.ask(ctx, kindCPU, -1, func(h heard) { before += h.CPU }); err != nil {
			return 0, err
		}
		if err := crew.pass(ctx, c.For); err != nil {
			return 0, err
		}
		after := time.Duration(0)
		if err := crew.ask(ctx, kindCPU, -1, func(h heard) { after += h.CPU }); err != nil {
			return 0, err
		}
		return 100 * float64(after-before) / float64(time.Since(began)), nil
	})
	row.atMost(fmt.Sprintf("an idle group of %s on %s", many(c.Processes, "process"), many(c.Partitions, "partition")), idleLimit*float64(c.Processes))
	rows, figures, err := game.run(c.Rounds, c.Logf)
	if err != nil {
		return nil, err
	}
	return &Result{Bench: "idle", Rows: rows, Figures: figures, About: fmt.Sprintf("%s, %s, no records, all processes together, %s of %s%s",
		many(c.Processes, "consumer process"), many(c.Partitions, "partition"), many(c.Rounds, "round"), c.For, c.about())}, nil
}

// even says whether everybody owns its share.
func even(owner []int, members int) bool {
	count := make([]int, members+1)
	for _, m := range owner {
		count[m]++
	}
	return count[0] == 0 && slices.Max(count[1:])-slices.Min(count[1:]) <= 1
}
