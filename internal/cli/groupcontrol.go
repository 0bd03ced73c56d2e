package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
)

func (a *app) groupSeek() *cobra.Command {
	var to string
	var partitions []string
	var storage int
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "seek NAME --to WHERE",
		Short: "Send a group, live or not, to another place in its topic",
		Long: `Send a group to another place: earliest, latest, an offset, a time such as
2026-01-31T12:00:00Z, or an age such as -15m. The group may be running: its members go
on from there, and records that they were processing can't move the checkpoint.

In a topic of several storage topics an offset needs --storage or --partition
STORAGE/PARTITION. Where a partition goes back, those of later storage topics that
hold later records of its keys begin again after it.`,
		Example: `  ringfence group seek billing --to earliest --dry-run
  ringfence group seek billing --to -15m
  ringfence group seek billing --to 4711 --partition 3
  ringfence group seek billing --to 4711 --partition 1/3`,
	}
	cmd.Flags().StringVar(&to, "to", "", "`where`: earliest, latest, an offset, a time or an age")
	cmd.Flags().StringSliceVar(&partitions, "partition", nil, "only this `partition`, or STORAGE/PARTITION; may be repeated")
	cmd.Flags().IntVar(&storage, "storage", -1, "only in the storage topic of this `index` (-1: in all)")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only show where each partition would go")
	_ = cmd.MarkFlagRequired("to") // made just above
	completeWith(cmd, "to", "earliest", "latest")
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		target, err := ringfence.ParseSeek(to)
		if err != nil {
			return err
		}
		before, err := rf.Admin().DescribeGroup(ctx, args[0])
		if err != nil {
			return err
		}
		opts := &admin.SeekGroupOptions{DryRun: dryRun}
		if cmd.Flags().Changed("storage") {
			opts.Storage = &storage
		}
		if opts.Partitions, err = unitsOf(&before, partitions, opts.Storage != nil); err != nil {
			return err
		}
		result, err := rf.Admin().SeekGroup(ctx, args[0], target, opts)
		if err != nil {
			return err
		}
		return emit(a, result, seekTable)
	})
	return cmd
}

func seekTable(r *report, s *api.Seek) {
	verb := "moved"
	if !s.Done {
		verb = "would move"
	}
	r.line("%s group %s to %s", verb, s.Group, s.To)
	tableOf(r, []string{"PARTITION", "FROM", "TO", "END", "LAG"}, s.Positions, func(p api.SeekPosition) []cell {
		return []cell{right(partitionName(p.Storage, p.Partition)), checkpoint(p.From), number(p.Checkpoint), number(p.Next), number(p.Lag)}
	})
}

// checkpoint is an offset, or that there is none.
func checkpoint(offset int64) cell {
	if offset < 0 {
		return right("-")
	}
	return number(offset)
}

func (a *app) groupControl(verb, short string, control func(*admin.Client, context.Context, string, *admin.PauseGroupOptions) error) *cobra.Command {
	var partitions []string
	cmd := &cobra.Command{
		Use:   verb + " NAME",
		Short: short,
		Example: fmt.Sprintf(`  ringfence group %[1]s billing
  ringfence group %[1]s billing --partition 3 --partition 5`, verb),
	}
	cmd.Flags().StringSliceVar(&partitions, "partition", nil, "only this `partition`, or STORAGE/PARTITION; may be repeated")
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		g, err := rf.Admin().DescribeGroup(ctx, args[0])
		if err != nil {
			return err
		}
		some, err := unitsOf(&g, partitions, false)
		if err != nil {
			return err
		}
		if err := control(rf.Admin(), ctx, args[0], &admin.PauseGroupOptions{Partitions: some}); err != nil {
			return err
		}
		result := api.GroupPause{Group: args[0], Paused: verb == "pause", All: len(some) == 0, Partitions: some}
		if result.All {
			result.Partitions = make([]int, len(g.Units))
			for i, u := range g.Units {
				result.Partitions[i] = u.Unit
			}
		}
		return emit(a, result, func(r *report, _ api.GroupPause) {
			what := "all partitions"
			if !result.All {
				what = namesOf("partition", unitNames(&g, some))
			}
			if verb == "resume" && !g.Paused && !slices.ContainsFunc(g.Units, func(u api.Unit) bool { return u.Paused && slices.Contains(result.Partitions, u.Unit) }) {
				r.line("group %s was not paused: %s", args[0], what)
				return
			}
			r.line("%sd group %s: %s", verb, args[0], what)
		})
	})
	return cmd
}

func (a *app) groupDelete() *cobra.Command {
	var f deleteFlags
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a group and its progress",
		Long: `Delete a group and its progress; its topic stays. A group with live members is a
conflict (exit code 4). --force deletes it all the same, and also a group whose
documents can't be read, or that only its retention hold in the log tells of. On a
terminal it asks first; --yes answers, and without a terminal it is needed.`,
	}
	f.register(cmd.Flags(), "also with members, or with documents that can't be read")
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		g, err := rf.Admin().DescribeGroup(ctx, args[0])
		if f.force && (unreadableDocument(err) || !f.dryRun && errors.Is(err, fault.NotFound)) { // the log alone may know it
			g, err = api.Group{Name: args[0], Topic: "(unknown)"}, nil
		}
		if err != nil {
			return err
		}
		if n := len(g.Members); f.dryRun && n > 0 && !f.force {
			return fmt.Errorf("group %q has %s, %q among them; it would not be deleted before they are stopped: %w", g.Name, plural(n, "live member"), g.Members[0].ID, fault.Conflict)
		}
		return a.remove(ctx, &f, api.Deletion{What: "group", Name: g.Name}, fmt.Sprintf("Delete group %s and its progress in topic %s?", g.Name, g.Topic), func() error {
			return rf.Admin().DeleteGroup(ctx, args[0], &admin.DeleteGroupOptions{Force: f.force})
		})
	})
	return cmd
}
