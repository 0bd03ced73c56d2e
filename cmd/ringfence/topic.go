package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/fault"
)

func (a *app) topicCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "topic",
		Short:   "Create, list, describe and delete topics",
		Args:    cobra.ArbitraryArgs,
		RunE:    a.needsSubcommand,
		Aliases: []string{"topics"},
	}
	cmd.AddCommand(a.topicCreate(), a.topicList(), a.topicDescribe(), a.topicDelete())
	return cmd
}

type topicCreateFlags struct {
	partitions     int
	retentionBytes int64
	retentionAge   time.Duration
	retentionForce bool
	mustBeNew      bool
}

func (a *app) topicCreate() *cobra.Command {
	var f topicCreateFlags
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a topic",
		Long: `Create a topic with a fixed number of partitions. Records of one key always go to one
partition, so the number bounds how many processes of a group share the work.

Creating a topic that is there already with the same shape is fine; with another
shape it is a conflict (exit code 4).`,
		Example: `  ringfence topic create payments --partitions 8
  ringfence topic create clicks --partitions 32 --retention-age 168h --retention-bytes 10000000000`,
		Args: cobra.ExactArgs(1),
	}
	fl := cmd.Flags()
	fl.IntVarP(&f.partitions, "partitions", "p", 8, "`number` of partitions")
	fl.Int64Var(&f.retentionBytes, "retention-bytes", 0, "keep about so many `bytes` (0: all)")
	fl.DurationVar(&f.retentionAge, "retention-age", 0, "keep records for so long (0: for ever)")
	fl.BoolVar(&f.retentionForce, "retention-force", false, "let retention drop records that a group has not processed yet")
	fl.BoolVar(&f.mustBeNew, "must-be-new", false, "fail when the topic exists, also with the same shape")
	cmd.RunE = a.withClient(true, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		return a.createTopic(ctx, rf, args[0], f)
	})
	return cmd
}

func (a *app) createTopic(ctx context.Context, rf *ringfence.Client, name string, f topicCreateFlags) error {
	cfg := ringfence.TopicConfig{
		Partitions:     f.partitions,
		RetentionBytes: f.retentionBytes,
		RetentionAgeMS: f.retentionAge.Milliseconds(),
		RetentionForce: f.retentionForce,
	}
	create := rf.EnsureTopic
	if f.mustBeNew {
		create = rf.CreateTopic
	}
	if err := create(ctx, name, cfg); err != nil {
		return err
	}
	info, err := rf.DescribeTopic(ctx, name)
	if err != nil {
		return err
	}
	return a.emit(info, func(r *report) {
		r.line("topic %s: %s", info.Name, plural(int64(f.partitions), "partition"))
	})
}

func (a *app) topicList() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the topics",
		Aliases: []string{"ls"},
		Args:    cobra.NoArgs,
		RunE: a.withClient(false, func(ctx context.Context, rf *ringfence.Client, _ []string) error {
			topics, err := rf.Topics(ctx)
			if err != nil {
				return err
			}
			if topics == nil {
				topics = []ringfence.TopicInfo{}
			}
			return a.emit(topics, func(r *report) {
				var rows [][]cell
				for _, t := range topics {
					rows = append(rows, []cell{left(t.Name), number(partitionsOf(t)), number(int64(len(t.Storage))), left(timeText(t.Created))})
				}
				r.table([]string{"TOPIC", "PARTITIONS", "STORAGES", "CREATED"}, rows)
			})
		}),
	}
}

// partitionsOf is the number of partitions that new records go to.
func partitionsOf(t ringfence.TopicInfo) int64 { return int64(len(t.Storage[t.Produce].Partitions)) }

func (a *app) topicDescribe() *cobra.Command {
	return &cobra.Command{
		Use:               "describe NAME",
		Short:             "Show a topic, the range of each partition, and its groups",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeTopics,
		RunE: a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
			t, err := rf.DescribeTopic(ctx, args[0])
			if err != nil {
				return err
			}
			return a.emit(t, func(r *report) { describeTopic(r, t) })
		}),
	}
}

func describeTopic(r *report, t ringfence.TopicInfo) {
	r.line("topic    %s", r.paint(bold, t.Name))
	r.line("created  %s", timeText(t.Created))
	r.line("router   %v, hash %v", t.Router, t.Hash)
	r.line("")
	var rows [][]cell
	var total int64
	for _, s := range t.Storage {
		for _, p := range s.Partitions {
			state := "open"
			switch {
			case p.Sealed:
				state = "sealed"
			case s.Index == t.Produce:
				state = "producing"
			}
			total += p.Next - p.First
			rows = append(rows, []cell{left(s.Name), number(int64(s.Index)), number(int64(p.Partition)), number(p.First), number(p.Next), number(p.Next - p.First), left(state)})
		}
	}
	r.table([]string{"STORAGE", "INDEX", "PARTITION", "FIRST", "NEXT", "KEPT", "STATE"}, rows)
	r.line("%s kept at most", plural(total, "record"))
}

func (a *app) topicDelete() *cobra.Command {
	var force, dryRun, yes bool
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a topic and its records",
		Long: `Delete a topic and its records, for good. While a consumer group has progress in it
that is a conflict (exit code 4) unless --force drops the groups' progress too.
On a terminal it asks first; --yes answers. Without a terminal it never asks.`,
		Example: `  ringfence topic delete payments --dry-run
  ringfence topic delete payments --force --yes`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeTopics,
	}
	cmd.Flags().BoolVar(&force, "force", false, "also while groups have progress in it")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would be deleted")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		t, err := rf.DescribeTopic(ctx, args[0])
		if err != nil {
			return err
		}
		result := deletion{What: "topic", Name: t.Name, Records: recordsOf(t), Deleted: !dryRun}
		if dryRun {
			return a.emitDeletion(result)
		}
		if !yes && !a.confirm(fmt.Sprintf("Delete topic %s with about %s?", t.Name, plural(result.Records, "record"))) {
			return fmt.Errorf("topic %q was not deleted: nobody said yes: %w", t.Name, fault.NotDone)
		}
		if err := rf.DeleteTopic(ctx, args[0], &ringfence.DeleteTopicOptions{Force: force}); err != nil {
			return err
		}
		return a.emitDeletion(result)
	})
	return cmd
}

// deletion says what a delete command removed, or would remove.
type deletion struct {
	What    string `json:"what"`
	Name    string `json:"name"`
	Records int64  `json:"records,omitempty"`
	Deleted bool   `json:"deleted"`
}

func (a *app) emitDeletion(d deletion) error {
	return a.emit(d, func(r *report) {
		verb := "deleted"
		if !d.Deleted {
			verb = "would delete"
		}
		if d.What == "topic" {
			r.line("%s topic %s with about %s", verb, d.Name, plural(d.Records, "record"))
			return
		}
		r.line("%s %s %s", verb, d.What, d.Name)
	})
}

func recordsOf(t ringfence.TopicInfo) (n int64) {
	for _, s := range t.Storage {
		for _, p := range s.Partitions {
			n += p.Next - p.First
		}
	}
	return n
}

// confirm asks a person; where nobody can be asked it is true.
func (a *app) confirm(question string) bool {
	if !isTerminal(a.stdin) || !isTerminal(a.stderr) {
		return true
	}
	fmt.Fprint(a.stderr, question+" [y/N] ")
	answer, err := bufio.NewReader(a.stdin).ReadString('\n')
	if err != nil {
		return false
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true
	}
	return false
}

// completeTopics offers the names of topics to the shell.
func (a *app) completeTopics(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.complete(cmd, func(ctx context.Context, rf *ringfence.Client) (names []string, err error) {
		topics, err := rf.Topics(ctx)
		for _, t := range topics {
			names = append(names, t.Name)
		}
		return names, err
	})
}

// complete offers names from the stores; a store that does not answer offers nothing.
func (a *app) complete(cmd *cobra.Command, list func(context.Context, *ringfence.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(contextOf(cmd), time.Second)
	defer cancel()
	if a.settle(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c := a.clientConfig()
	c.MustExist = true
	rf, err := ringfence.Open(ctx, c)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer rf.Close()
	names, err := list(ctx, rf)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
