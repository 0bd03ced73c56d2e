package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
)

func (a *app) subscriptionPause() *cobra.Command {
	var opts admin.PauseSubscriptionOptions
	cmd := &cobra.Command{
		Use:   "pause NAME",
		Short: "Deliver nothing of a subscription until it is resumed",
		Long: `Deliver nothing of a subscription until it is resumed. Within a second or so its members
begin no attempt any more and end those under way. Progress, order, parked records and
dead letters stay; orders about dead letters may be given meanwhile.`,
		Example: `  ringfence subscription pause billing --reason 'the bank is closed'`,
	}
	cmd.Flags().StringVar(&opts.Reason, "reason", "", "`why`, for people; one that is paused already keeps its own")
	already := false
	cmd.RunE = show(a, func(ctx context.Context, c *admin.Client, args []string) (*api.Subscription, error) {
		before, err := c.GetSubscription(ctx, args[0])
		if err != nil {
			return nil, err
		}
		already = before.Paused != nil
		return c.PauseSubscription(ctx, args[0], &opts)
	}, func(r *report, d *api.Subscription) {
		if already {
			r.line("subscription %s was paused already, since %s%s; that stays", d.Name, d.Paused.Since, pauseText(d.Paused))
			return
		}
		r.line("subscription %s is paused", d.Name)
	})
	return cmd
}

func (a *app) subscriptionResume() *cobra.Command {
	paused := false
	return &cobra.Command{
		Use:     "resume NAME",
		Short:   "Deliver a subscription that is paused from where it was",
		Example: `  ringfence subscription resume billing`,
		RunE: show(a, func(ctx context.Context, c *admin.Client, args []string) (*api.Subscription, error) {
			before, err := c.GetSubscription(ctx, args[0])
			if err != nil {
				return nil, err
			}
			paused = before.Paused != nil
			return c.ResumeSubscription(ctx, args[0])
		}, func(r *report, d *api.Subscription) {
			if !paused {
				r.line("subscription %s was not paused", d.Name)
				return
			}
			r.line("subscription %s goes on", d.Name)
		}),
	}
}

func (a *app) subscriptionRetry() *cobra.Command {
	var opts admin.RetrySubscriptionOptions
	var key string
	var all bool
	cmd := &cobra.Command{
		Use:   "retry NAME (--id ID... | --key K | --all)",
		Short: "Try failing records now, in place of at the end of their pauses",
		Long: `Try failing records of a subscription now: their pauses end, and so does the wait for the
next look at an endpoint that does not work, also one that a Retry-After asked for. A record
keeps its attempts and its place in the order of its key. The members of the subscription
carry it out, as soon as there are some. It prints how many of the records are parked;
--key and --all are about those too that members hold in memory.

A record that was given up is a conflict (exit code 4): "subscription dead-letters redrive"
delivers it again.`,
		Example: `  ringfence subscription retry billing --all
  ringfence subscription retry billing --key acct-42`,
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&opts.IDs, "id", nil, "the parked record of this `ID`, as \"subscription why\" shows it; may be repeated")
	fl.StringVar(&key, "key", "", "the records of this `key`")
	fl.BoolVar(&all, "all", false, "all of them")
	cmd.MarkFlagsOneRequired("id", "key", "all")
	cmd.MarkFlagsMutuallyExclusive("id", "key", "all")
	cmd.RunE = show(a, func(ctx context.Context, c *admin.Client, args []string) (api.DeadLetterOrder, error) {
		if fl.Changed("key") {
			opts.Key = []byte(key)
		}
		n, err := c.RetrySubscription(ctx, args[0], &opts)
		if err != nil {
			return api.DeadLetterOrder{}, err
		}
		return ordered(ctx, c, api.DeadLetterOrder{Subscription: args[0], Order: "retry", Records: n}), nil
	}, orderLine)
	return cmd
}

func (a *app) subscriptionReshard() *cobra.Command {
	var opts admin.ReshardSubscriptionOptions
	var shards int
	cmd := &cobra.Command{
		Use:   "reshard NAME --shards N",
		Short: "Change how many shards a subscription has, while it is delivered",
		Long: `Change how many shards share the partitions of a subscription's topic: at most one for
each partition. Members do it while they deliver: attempts under way end, and the new
shards go on with all parked records and dead letters, in the order of each key.
"subscription describe" shows the progress, and the longest wait of a key.

A second change while one is under way is a conflict (exit code 4). Without a member
the change waits for one.`,
		Example: `  ringfence subscription reshard billing --shards 4 --dry-run
  ringfence subscription reshard billing --shards 4`,
	}
	cmd.Flags().IntVar(&shards, "shards", 0, "how many shards there are to be")
	cmd.Flags().BoolVar(&opts.DryRun, "dry-run", false, "only say what would be done")
	_ = cmd.MarkFlagRequired("shards") // made just above
	cmd.RunE = show(a, func(ctx context.Context, c *admin.Client, args []string) (*api.Reshard, error) {
		return c.ReshardSubscription(ctx, args[0], shards, &opts)
	}, reshardReport)
	return cmd
}

func reshardReport(r *report, plan *api.Reshard) {
	if plan.From == plan.To {
		r.line("subscription %s has %s already", plan.Name, plural(plan.From, "shard"))
		return
	}
	verb := "goes"
	if !plan.Begun {
		verb = "would go"
	}
	r.line("subscription %s %s from %s to %d; %s handed over, and nothing is delivered again", plan.Name, verb, plural(plan.From, "shard"), plan.To,
		plural(plan.Parked, "parked record"))
	r.line("")
	tableOf(r, []string{"SHARD", "PARTITIONS", "AFTER THE SHARDS OF NOW"}, plan.Shards, func(s api.NewShard) []cell {
		return []cell{number(s.Shard), left(numbers(s.Partitions)), left(numbers(s.After))}
	})
}

// numbers shows a list that has no gaps.
func numbers(all []int) string {
	if len(all) == 1 {
		return fmt.Sprint(all[0])
	}
	return fmt.Sprintf("%d to %d", all[0], all[len(all)-1])
}

func (a *app) subscriptionReset() *cobra.Command {
	var opts admin.ResetSubscriptionOptions
	var to string
	var storage int
	cmd := &cobra.Command{
		Use:   "reset NAME --to WHERE",
		Short: "Send a subscription back or forward in its topic, while it is delivered",
		Long: `Send a subscription to another place: earliest, latest, an offset, a time such as
2026-01-31T12:00:00Z, or an age such as -15m. Members carry it out while they deliver:
they end the attempts under way, and then deliver every record from that place on, each
key in its order, also records that were done, parked or dead letters. Parked records
and dead letters below that place stay, and their keys wait for them; --drop-parked
drops them.

In a topic that has grown, earliest is in the oldest storage topic, latest in the newest,
and a time in the one of that time. An offset is in the storage topic that is delivered
now; --storage names another. Delivery goes on through all later storage topics.

A reset while another one or a reshard is under way is a conflict (exit code 4). Without
a member it waits for one.`,
		Example: `  ringfence subscription reset billing --to -15m --dry-run
  ringfence subscription reset billing --to -15m
  ringfence subscription reset billing --to 4711 --partition 3
  ringfence subscription reset billing --to latest --drop-parked`,
	}
	fl := cmd.Flags()
	fl.StringVar(&to, "to", "", "`where`: earliest, latest, an offset, a time or an age")
	fl.IntVar(&storage, "storage", 0, "begin in the storage topic of this `index` (default: the one that has the target)")
	fl.IntSliceVar(&opts.Partitions, "partition", nil, "only this `partition`; may be repeated")
	fl.BoolVar(&opts.DropParked, "drop-parked", false, "drop the parked records and dead letters below the new place: they are never delivered")
	fl.BoolVar(&opts.DryRun, "dry-run", false, "only say what is delivered again, passed over and kept")
	_ = cmd.MarkFlagRequired("to") // made just above
	completeWith(cmd, "to", "earliest", "latest")
	cmd.RunE = show(a, func(ctx context.Context, c *admin.Client, args []string) (*api.Reset, error) {
		target, err := ringfence.ParseSeek(to)
		if err != nil {
			return nil, err
		}
		if fl.Changed("storage") {
			opts.Storage = &storage
		}
		return c.ResetSubscription(ctx, args[0], target, &opts)
	}, resetReport)
	return cmd
}

func resetReport(r *report, s *api.Reset) {
	verb := "is sent"
	if !s.Begun {
		verb = "would be sent"
	}
	var again, skipped int64
	var anew, kept, dropped int
	for _, p := range s.Positions {
		again, skipped = again+p.Again, skipped+p.Skipped
		anew, kept, dropped = anew+p.Anew, kept+p.Kept, dropped+p.Dropped
	}
	r.line("subscription %s %s to %s: %s delivered again, %d passed over", s.Name, verb, s.To, plural(again, "record"), skipped)
	r.line("of what is parked or a dead letter %d begin anew, %d stay so, %d are dropped", anew, kept, dropped)
	if s.Earlier > 0 {
		r.line("%s of earlier storage topics %s", plural(s.Earlier, "parked record"), map[bool]string{true: "go as well, if all partitions are sent", false: "stay so"}[s.DropParked])
	}
	r.line("")
	tableOf(r, []string{"PARTITION", "FROM", "TO", "END", "AGAIN", "SKIPPED", "ANEW", "KEPT", "DROPPED"}, s.Positions, func(p api.ResetPosition) []cell {
		return []cell{
			right(partitionName(p.Storage, p.Partition)), checkpoint(p.From), number(p.To), number(p.Next),
			number(p.Again), number(p.Skipped), number(p.Anew), number(p.Kept), number(p.Dropped),
		}
	})
}
