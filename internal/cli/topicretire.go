package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
)

func (a *app) topicRetire() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "retire NAME",
		Short: "Remove the storage topics that can't deliver anything any more",
		Long: `Remove the storage topics that producers were switched away from, that have no record
any more, and that every group is past; with what groups know of their partitions.
Their indexes stay taken. The oldest goes first, and of each that stays it says why.
No record goes by this: retention drops them, see "topic alter".

Consumers do it by themselves every ten minutes or so; this is for those who do not
want to wait. --dry-run only says what would be done.`,
		Example: `  ringfence topic retire payments --dry-run
  ringfence topic retire payments`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeTopics,
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would be done")
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		done, err := rf.Admin().RetireStorage(ctx, args[0], &admin.RetireStorageOptions{DryRun: dryRun})
		if err != nil {
			return err
		}
		return a.emit(done, func(r *report) { renderRetirement(r, done) })
	})
	return cmd
}

func renderRetirement(r *report, done *api.Retirement) {
	verb := "would retire"
	if done.Done {
		verb = "retired"
	}
	indexes := make([]string, len(done.Retired))
	for i, index := range done.Retired {
		indexes[i] = thousands(int64(index))
	}
	what := "nothing"
	if len(indexes) > 0 {
		what = namesOf("storage topic", indexes)
	}
	r.line("topic %s: %s %s", done.Topic, verb, what)
	if len(done.Kept) == 0 {
		return
	}
	r.line("")
	var rows [][]cell
	for _, k := range done.Kept {
		rows = append(rows, []cell{number(int64(k.Index)), left(k.Why)})
	}
	r.table([]string{"INDEX", "STAYS BECAUSE"}, rows)
}
