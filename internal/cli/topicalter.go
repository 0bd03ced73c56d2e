package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/spell"
)

func (a *app) topicAlter() *cobra.Command {
	var bytes int64
	var age time.Duration
	var force, dryRun, yes bool
	cmd := &cobra.Command{
		Use:   "alter NAME",
		Short: "Change the retention of a topic",
		Long: `Change the retention of an existing topic. A bound that is not named stays as it is.
Other processes that have the topic open follow within a minute.
Partitions are added by "topic add-storage" and "topic switch-produce".

It shows about how many records of each partition are due to go; --dry-run changes
nothing. A record that a group has not processed stays until it is, unless the retention
is forced. On a terminal it asks before records go; --yes answers. Without a terminal it
never asks.`,
		Example: `  ringfence topic alter payments --retention-age 24h --dry-run
  ringfence topic alter payments --retention-age 168h --retention-bytes 0`,
	}
	fl := cmd.Flags()
	retentionFlags(fl, &bytes, &age, &force)
	noFlag(cmd, "partitions", `"topic add-storage" and "topic switch-produce" give a topic more partitions`)
	fl.BoolVar(&dryRun, "dry-run", false, "only show what would go")
	fl.BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.MarkFlagsOneRequired("retention-bytes", "retention-age", "retention-force")
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		info, err := rf.Admin().DescribeTopic(ctx, args[0])
		if err != nil {
			return err
		}
		r := info.Retention
		if fl.Changed("retention-bytes") {
			r.Bytes = bytes
		}
		if fl.Changed("retention-age") {
			r.AgeMS = age.Milliseconds()
		}
		if fl.Changed("retention-force") {
			r.Force = force
		}
		change, err := rf.Admin().AlterTopic(ctx, args[0], r, &admin.AlterTopicOptions{DryRun: true})
		if err != nil {
			return err
		}
		if !dryRun {
			n := dropped(change)
			if err := a.agreed(ctx, n == 0 || yes, fmt.Sprintf("Let about %s of topic %s go?", plural(n, "record"), args[0]), fmt.Sprintf("the retention of topic %q was not changed", args[0])); err != nil {
				return err
			}
			if change, err = rf.Admin().AlterTopic(ctx, args[0], r, &admin.AlterTopicOptions{Estimate: change}); err != nil {
				return err
			}
		}
		return emit(a, change, renderAlteration)
	})
	return cmd
}

func retentionFlags(fl *pflag.FlagSet, bytes *int64, age *time.Duration, force *bool) {
	fl.Var((*bytesValue)(bytes), "retention-bytes", "keep about so many `bytes`, such as 10GB or 512MiB (0: all)")
	fl.Var((*ageValue)(age), "retention-age", "keep records for this `time`, such as 36h or 7d (0: for ever)")
	fl.BoolVar(force, "retention-force", false, "let retention drop records that a group has not processed yet")
}

// bytesValue is a flag for a number of bytes with a unit.
type bytesValue int64

func (v *bytesValue) Set(text string) error {
	n, err := spell.ParseBytes(text)
	*v = bytesValue(n)
	return err
}
func (v *bytesValue) String() string { return strconv.FormatInt(int64(*v), 10) }
func (*bytesValue) Type() string     { return "int64" }

// ageValue is a flag for a time in days, and in whole milliseconds, as it is stored.
type ageValue time.Duration

func (v *ageValue) Set(text string) error {
	d, err := spell.ParseTime(text)
	if err == nil && d%time.Millisecond != 0 {
		err = errors.New("expected whole milliseconds, of which 1ms is the least")
	}
	*v = ageValue(d)
	return err
}
func (v *ageValue) String() string { return time.Duration(*v).String() }
func (*ageValue) Type() string     { return "duration" }

// dropped is about how many records a change of retention drops.
func dropped(c *api.RetentionChange) (n int64) {
	for _, d := range c.Drops {
		n += d.Records
	}
	return n
}

func renderAlteration(r *report, c *api.RetentionChange) {
	verb := "would be: "
	if c.Done {
		verb = "is now: "
	}
	r.line("topic      %s", r.paint(bold, c.Topic))
	r.line("retention  %s%s", verb, retentionText(c.After))
	r.line("before     %s", retentionText(c.Before))
	if len(c.Drops) == 0 {
		r.line("due to go  nothing")
		return
	}
	r.line("due to go  about %s", plural(dropped(c), "record"))
	r.line("")
	tableOf(r, []string{"INDEX", "PARTITION", "FIRST", "UNTIL", "RECORDS", "BYTES", "HELD BY GROUPS"}, c.Drops, func(d api.RetentionDrop) []cell {
		return []cell{number(d.Storage), number(d.Partition), number(d.First), number(d.Until), number(d.Records), number(d.Bytes), number(d.Held)}
	})
}
