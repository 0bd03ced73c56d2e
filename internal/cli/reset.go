package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
)

func (a *app) subscriptionReset() *cobra.Command {
	var opts admin.ResetSubscriptionOptions
	var to string
	var storage int
	cmd := &cobra.Command{
		Use:   "reset NAME --to WHERE",
		Short: "Send a subscription back or forward in its topic, while it is delivered",
		Long: `Send a subscription to another place: earliest, latest, an offset, a time such as
2026-01-31T12:00:00Z, or an age such as -15m. Members do it while they deliver: what is
being delivered ends, and everything from there on is delivered, each key in its order,
also what was done, parked or a dead letter there. What is parked below stays parked, in
front of what comes again of its key; --drop-parked leaves it behind.

Of a topic that has grown, earliest is the oldest storage topic, latest the newest, and a
time the one that has it; an offset is one of the storage topic that is delivered, and
--storage names another. The storage topics after it follow.

While another reset or a reshard is under way it is a conflict (exit code 4). Without a
member it waits for one.`,
		Example: `  ringfence subscription reset billing --to -15m --dry-run
  ringfence subscription reset billing --to -15m
  ringfence subscription reset billing --to 4711 --partition 3
  ringfence subscription reset billing --to latest --drop-parked`,
		Args: cobra.ExactArgs(1),
	}
	fl := cmd.Flags()
	fl.StringVar(&to, "to", "", "`where`: earliest, latest, an offset, a time or an age")
	fl.IntVar(&storage, "storage", 0, "the `index` of the storage topic to begin in (default the one where the target lies)")
	fl.IntSliceVar(&opts.Partitions, "partition", nil, "only this `partition`; may be repeated")
	fl.BoolVar(&opts.DropParked, "drop-parked", false, "leave what is parked behind, and all dead letters: what lies below the new place is not delivered any more")
	fl.BoolVar(&opts.DryRun, "dry-run", false, "only say what is delivered again, passed over and kept")
	_ = cmd.MarkFlagRequired("to") // made just above
	completeWith(cmd, "to", "earliest", "latest")
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		target, err := ringfence.ParseSeek(to)
		if err != nil {
			return err
		}
		if fl.Changed("storage") {
			opts.Storage = &storage
		}
		out, err := rf.Admin().ResetSubscription(ctx, args[0], target, &opts)
		if err != nil {
			return err
		}
		return a.emit(out, func(r *report) { resetReport(r, out) })
	})
	return cmd
}

func resetReport(r *report, s *api.Reset) {
	verb := "is sent"
	if !s.Begun {
		verb = "would be sent"
	}
	var again, skipped, anew, kept, dropped int64
	rows := make([][]cell, len(s.Positions))
	for i, p := range s.Positions {
		again, skipped = again+p.Again, skipped+p.Skipped
		anew, kept, dropped = anew+int64(p.Anew), kept+int64(p.Kept), dropped+int64(p.Dropped)
		from := right("-")
		if p.From >= 0 {
			from = number(p.From)
		}
		rows[i] = []cell{
			right(partitionName(p.Storage, p.Partition)), from, number(p.To), number(p.Next),
			number(p.Again), number(p.Skipped), number(int64(p.Anew)), number(int64(p.Kept)), number(int64(p.Dropped)),
		}
	}
	r.line("subscription %s %s to %s: %s delivered again, %d passed over", s.Name, verb, s.To, plural(again, "record"), skipped)
	r.line("of what is parked or a dead letter %d begin anew, %d stay so, %d are dropped", anew, kept, dropped)
	if s.Earlier > 0 {
		r.line("%s of earlier storage topics %s", plural(int64(s.Earlier), "parked record"), map[bool]string{true: "go as well, if all partitions are sent", false: "stay so"}[s.DropParked])
	}
	r.line("")
	r.table([]string{"PARTITION", "FROM", "TO", "END", "AGAIN", "SKIPPED", "ANEW", "KEPT", "DROPPED"}, rows)
}
