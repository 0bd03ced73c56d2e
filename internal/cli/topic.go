package cli

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription"
)

func (a *app) topicCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "topic",
		Short:   "Create, list, describe, alter, grow and delete topics",
		Args:    cobra.ArbitraryArgs,
		RunE:    a.needsSubcommand,
		Aliases: []string{"topics"},
	}
	cmd.AddCommand(a.topicCreate(), a.topicList(), a.topicDescribe(), a.topicPlan(), a.topicAddStorage(), a.topicSwitchProduce(), a.topicRetire(), a.topicAlter(), a.topicMirror(), a.topicDelete())
	return cmd
}

type topicCreateFlags struct {
	partitions     int
	router, hash   string
	retentionBytes int64
	retentionAge   time.Duration
	retentionForce bool
	mustBeNew      bool
	life           string
}

func (a *app) topicCreate() *cobra.Command {
	var f topicCreateFlags
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a topic",
		Long: `Create a topic with a number of partitions. Records of one key always go to one
partition, so the number bounds how many processes of a group share the work;
"topic add-storage" raises it later.

An existing topic of the same shape is fine; one of another shape is a conflict (exit
code 4). It keeps its retention, and a different one that was asked for is named on
stderr: "topic alter" changes it.`,
		Example: `  ringfence topic create payments --partitions 8
  ringfence topic create clicks --partitions 32 --retention-age 168h --retention-bytes 10000000000`,
		Args: cobra.ExactArgs(1),
	}
	fl := cmd.Flags()
	fl.IntVarP(&f.partitions, "partitions", "p", 8, "`number` of partitions")
	fl.StringVar(&f.router, "router", string(api.RouterModulo), "`rule` from keys to partitions: modulo or range")
	fl.StringVar(&f.hash, "hash", string(api.HashXXHash64), "hash `function` of keys: xxhash64, murmur2 (as Kafka's own producers) or fnv1a")
	fl.Int64Var(&f.retentionBytes, "retention-bytes", 0, "keep about so many `bytes` (0: all)")
	fl.DurationVar(&f.retentionAge, "retention-age", 0, "keep records for so long (0: for ever)")
	fl.BoolVar(&f.retentionForce, "retention-force", false, "let retention drop records that a group has not processed yet")
	fl.BoolVar(&f.mustBeNew, "must-be-new", false, "fail when the topic exists, also with the same shape")
	fl.StringVar(&f.life, "life", "", "take up records that the log has and the registry lost: the `end` of the names of their storage topics")
	cmd.RunE = a.withClient(true, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		return a.createTopic(ctx, rf, args[0], f)
	})
	return cmd
}

func (a *app) createTopic(ctx context.Context, rf *ringfence.Client, name string, f topicCreateFlags) error {
	cfg := admin.TopicConfig{
		Partitions:     f.partitions,
		Router:         api.Router(f.router),
		Hash:           api.Hash(f.hash),
		RetentionBytes: f.retentionBytes,
		RetentionAgeMS: ageMillis(f.retentionAge),
		RetentionForce: f.retentionForce,
		ID:             f.life,
	}
	if err := rf.Admin().CreateTopic(ctx, name, cfg, &admin.CreateTopicOptions{MustBeNew: f.mustBeNew}); err != nil {
		return err
	}
	t, err := rf.Admin().DescribeTopic(ctx, name)
	if err != nil {
		return err
	}
	return a.emit(t, func(r *report) {
		r.line("topic %s: %s", t.Name, plural(int64(f.partitions), "partition"))
	})
}

func (a *app) topicList() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the topics",
		Aliases: []string{"ls"},
		Args:    cobra.NoArgs,
		RunE: a.withClient(false, func(ctx context.Context, rf *ringfence.Client, _ []string) error {
			list, err := rf.Admin().ListTopics(ctx)
			if err != nil {
				return err
			}
			return a.emit(list, func(r *report) {
				var rows [][]cell
				head, parts := []string{"TOPIC", "PARTITIONS", "STORAGES", "CREATED"}, false
				for _, t := range list {
					parts = parts || t.Internal != ""
				}
				if parts { // of subscriptions, which users neither produce to nor delete
					head = append(head, "PART OF")
				}
				for _, t := range list {
					if t.Damaged != "" {
						rows = append(rows, []cell{left(t.Name), right("-"), right("-"), warnIf(true, left("can't be read: "+t.Damaged))})
						continue
					}
					row := []cell{left(t.Name), number(int64(t.Partitions)), number(int64(t.Storages)), left(string(t.Created))}
					if parts {
						row = append(row, left(dash(t.Internal)))
					}
					rows = append(rows, row)
				}
				r.table(head, rows)
			})
		}),
	}
}

func (a *app) topicDescribe() *cobra.Command {
	return &cobra.Command{
		Use:               "describe NAME",
		Short:             "Show a topic, the range of each partition, and its groups",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeTopics,
		RunE: a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
			t, err := rf.Admin().DescribeTopic(ctx, args[0])
			if err != nil {
				return err
			}
			return a.emit(t, func(r *report) { renderTopic(r, &t) })
		}),
	}
}

func (a *app) topicDelete() *cobra.Command {
	var force, dryRun, yes bool
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a topic and its records",
		Long: `Delete a topic and its records, for good. A topic in which a consumer group has progress
is a conflict (exit code 4), unless --force drops the progress too. On a terminal it
asks first; --yes answers. Without a terminal it never asks.`,
		Example: `  ringfence topic delete payments --dry-run
  ringfence topic delete payments --force --yes`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeTopics,
	}
	cmd.Flags().BoolVar(&force, "force", false, "also while groups have progress in it")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would be deleted")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		result, life, err := plannedDeletion(ctx, rf, args[0], force)
		if err != nil {
			return err
		}
		if dryRun {
			return a.emitDeletion(result)
		}
		if err := a.agreed(ctx, yes, fmt.Sprintf("Delete topic %s with about %s?", result.Name, plural(result.Records, "record")), fmt.Sprintf("topic %q was not deleted", result.Name)); err != nil {
			return err
		}
		if err := rf.Admin().DeleteTopic(ctx, args[0], &admin.DeleteTopicOptions{Force: force, ID: life}); err != nil {
			return err
		}
		result.Deleted = true
		return a.emitDeletion(result)
	})
	return cmd
}

// plannedDeletion is what deleting a topic would do, or why it would be refused; and which one it is.
func plannedDeletion(ctx context.Context, rf *ringfence.Client, name string, force bool) (d deletion, life string, _ error) {
	d = deletion{What: "topic", Name: name}
	info, err := rf.Admin().DescribeTopic(ctx, name)
	if err != nil {
		// One that is there but can't be described, half made say, can be deleted all the same.
		if listed, listErr := isListed(ctx, rf, name); listErr != nil || !listed {
			return d, "", err
		}
	}
	d.Records = info.Kept
	groups, err := rf.Admin().ListGroups(ctx)
	if err != nil {
		return d, "", err
	}
	for _, g := range groups {
		if g.Topic != name {
			continue
		}
		d.Groups = append(d.Groups, g.Name)
		if _, _, ok := subscription.OfGroup(g.Name); force && len(g.Members) > 0 && !ok {
			return d, "", fmt.Errorf("topic %q is being consumed by group %q, which has %s; stop them first: %w", name, g.Name, plural(int64(len(g.Members)), "live member"), fault.Conflict)
		}
	}
	return d, info.ID, rf.Admin().DeleteTopic(ctx, name, &admin.DeleteTopicOptions{Force: force, DryRun: true, ID: info.ID})
}

// namesOf is "group a" or "groups a, b".
func namesOf(what string, names []string) string {
	if len(names) > 1 {
		what += "s"
	}
	return what + " " + strings.Join(names, ", ")
}

func isListed(ctx context.Context, rf *ringfence.Client, name string) (bool, error) {
	topics, err := rf.Admin().ListTopics(ctx)
	return slices.ContainsFunc(topics, func(t api.TopicSummary) bool { return t.Name == name }), err
}

// deletion says what a delete command removed, or would remove.
type deletion struct {
	What    string   `json:"what"`
	Name    string   `json:"name"`
	Records int64    `json:"records"`
	Groups  []string `json:"groups,omitempty"` // that lose their progress with a topic
	Deleted bool     `json:"deleted"`
}

func (a *app) emitDeletion(d deletion) error {
	return a.emit(d, func(r *report) {
		verb := "deleted"
		if !d.Deleted {
			verb = "would delete"
		}
		if d.What == "topic" {
			r.line("%s topic %s with about %s", verb, d.Name, plural(d.Records, "record"))
			if len(d.Groups) > 0 {
				r.line("%s the progress of %s", verb, namesOf("group", d.Groups))
			}
			return
		}
		r.line("%s %s %s", verb, d.What, d.Name)
	})
}

// agreed asks unless the answer is yes already. The error says what was not done.
func (a *app) agreed(ctx context.Context, yes bool, question, undone string) error {
	if yes || a.confirm(ctx, question) {
		return nil
	}
	return fmt.Errorf("%s: the answer was not yes: %w", undone, fault.NotDone)
}

// asks says whether a person can be asked.
func (a *app) asks() bool { return isTerminal(a.stdin) && isTerminal(a.stderr) }

// confirm asks a person, for as long as ctx; without a terminal it is true.
func (a *app) confirm(ctx context.Context, question string) bool {
	if !a.asks() {
		return true
	}
	fmt.Fprint(a.stderr, question+" [y/N] ")
	answer, err := readUntil(ctx, func() (string, error) { return bufio.NewReader(a.stdin).ReadString('\n') })
	if err != nil {
		fmt.Fprintln(a.stderr) // the question's line has no end yet
		return false
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true
	}
	return false
}

// completeStorages offers the names of storage topics to the shell.
func (a *app) completeStorages(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, func(ctx context.Context, rf *ringfence.Client) (names []string, err error) {
		topics, err := rf.Admin().ListTopics(ctx)
		for _, t := range topics {
			d, unread := rf.Admin().DescribeTopic(ctx, t.Name)
			if unread != nil {
				continue
			}
			for _, s := range d.Storage {
				if !s.Retired() {
					names = append(names, s.Name)
				}
			}
		}
		return names, err
	})
}

// completeTopics offers the names of topics to the shell.
func (a *app) completeTopics(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.complete(cmd, func(ctx context.Context, rf *ringfence.Client) (names []string, err error) {
		topics, err := rf.Admin().ListTopics(ctx)
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
