package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
)

func (a *app) subscriptionReshard() *cobra.Command {
	var opts admin.ReshardSubscriptionOptions
	var shards int
	cmd := &cobra.Command{
		Use:   "reshard NAME --shards N",
		Short: "Change how many shards a subscription has, while it is delivered",
		Long: `Change how many shards share the partitions of a subscription's topic: at most one for
each partition. Members do it while they deliver: what is being delivered ends, and the
new shards go on with all that is parked and all dead letters, in the order of each key.
"subscription describe" shows how far it is, and how long a key had to wait at most.

While a change is under way another one is a conflict (exit code 4). Without a member
it waits for one.`,
		Example: `  ringfence subscription reshard billing --shards 4 --dry-run
  ringfence subscription reshard billing --shards 4`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().IntVar(&shards, "shards", 0, "how many shards there are to be")
	cmd.Flags().BoolVar(&opts.DryRun, "dry-run", false, "only say what would be done")
	_ = cmd.MarkFlagRequired("shards") // made just above
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		plan, err := rf.Admin().ReshardSubscription(ctx, args[0], shards, &opts)
		if err != nil {
			return err
		}
		return a.emit(plan, func(r *report) { reshardReport(r, plan) })
	})
	return cmd
}

func reshardReport(r *report, plan *api.Reshard) {
	if plan.From == plan.To {
		r.line("subscription %s has %s already", plan.Name, plural(int64(plan.From), "shard"))
		return
	}
	verb := "turns"
	if !plan.Begun {
		verb = "would turn"
	}
	r.line("subscription %s %s from %s to %d; %s handed over, and nothing is delivered again", plan.Name, verb, plural(int64(plan.From), "shard"), plan.To,
		plural(int64(plan.Parked), "parked record"))
	r.line("")
	rows := make([][]cell, len(plan.Shards))
	for i, s := range plan.Shards {
		rows[i] = []cell{number(int64(s.Shard)), left(numbers(s.Partitions)), left(numbers(s.After))}
	}
	r.table([]string{"SHARD", "PARTITIONS", "AFTER THE SHARDS OF NOW"}, rows)
}

// numbers shows a list that has no gaps.
func numbers(all []int) string {
	if len(all) == 1 {
		return fmt.Sprint(all[0])
	}
	return fmt.Sprintf("%d to %d", all[0], all[len(all)-1])
}

// setsTable shows the shard sets of a subscription that has turned.
func setsTable(r *report, d *api.Subscription) {
	if len(d.Sets) == 1 {
		of := ""
		if n := d.Set().Storage; n > 0 {
			of = fmt.Sprintf(" of storage topic %d", n)
		}
		r.line("%s%s", plural(int64(d.Set().Shards), "shard"), of)
		return
	}
	r.line("")
	grown := d.Sets[0].Storage+d.Set().Storage > 0
	head, rows := []string{"SHARD SET", "SHARDS", "STATE", "SINCE", "PAUSE"}, make([][]cell, len(d.Sets))
	if grown {
		head = append(head, "STORAGE")
	}
	for i, s := range d.Sets {
		since, pause := string(s.Since), ""
		if s.PauseMS > 0 {
			pause = (time.Duration(s.PauseMS) * time.Millisecond).String()
		}
		rows[i] = []cell{left(s.ID), number(int64(s.Shards)), left(s.State), left(since), left(pause)}
		if grown {
			rows[i] = append(rows[i], number(int64(s.Storage)))
		}
	}
	r.table(head, rows)
}
