package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/apply"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
	"github.com/ringfence/ringfence/subscription"
)

func (a *app) topicCommand() *cobra.Command {
	return a.holder(&cobra.Command{
		Use:     "topic",
		Short:   "Create, list, describe, alter, grow and delete topics",
		Aliases: []string{"topics"},
	}, topicNames, a.topicCreate(), listing(a, "List the topics", (*admin.Client).ListTopics, topicTable), a.topicDescribe(), a.topicPlan(), a.topicAddStorage(), a.topicSwitchProduce(), a.topicRetire(), a.topicAlter(), a.topicCheck(), a.topicRepair(),
		a.topicMirror(), a.topicDelete())
}

func (a *app) topicCreate() *cobra.Command {
	var cfg admin.TopicConfig
	var opts admin.CreateTopicOptions
	var age time.Duration
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
  ringfence topic create clicks --partitions 32 --retention-age 7d --retention-bytes 10GB`,
	}
	fl := cmd.Flags()
	fl.IntVarP(&cfg.Partitions, "partitions", "p", 8, "`number` of partitions")
	bounded(fl, 1, commitlog.MaxPartitions, "partitions")
	fl.StringVar((*string)(&cfg.Router), "router", string(api.RouterModulo), "`rule` from keys to partitions: modulo or range")
	fl.StringVar((*string)(&cfg.Hash), "hash", string(api.HashXXHash64), "hash `function` of keys: xxhash64, murmur2 (as Kafka's own producers) or fnv1a")
	retentionFlags(fl, &cfg.RetentionBytes, &age, &cfg.RetentionForce)
	fl.BoolVar(&opts.MustBeNew, "must-be-new", false, "fail when the topic exists, also with the same shape")
	fl.StringVar(&cfg.ID, "life", "", "take up the records of a topic that the registry lost: its `ID`, with which the names of its storage topics in the log end, as in NAME..0.ID")
	cmd.PreRunE = checked(func() error {
		if cfg.ID == "" || apply.TopicID.MatchString(cfg.ID) {
			return nil
		}
		return fmt.Errorf("--life %s: expected %s: %w", storeurl.Quote(cfg.ID), apply.TopicIDForm, fault.Invalid)
	})
	cmd.RunE = a.withClient(true, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		cfg.RetentionAgeMS = age.Milliseconds()
		if age > 0 && age < time.Second {
			a.logger().Warn("records go as soon as they are written, unless a group still needs them", "retention_age", age)
		}
		there, err := createTopic(ctx, rf.Admin(), args[0], cfg, opts)
		if err != nil {
			return err
		}
		t, err := rf.Admin().DescribeTopic(ctx, args[0])
		if err != nil {
			return err
		}
		if there {
			fmt.Fprintln(a.stderr, a.stderr.Line(fmt.Sprintf("topic %s is there already, and stays as it is; --must-be-new makes that exit code 4", t.Name)))
		}
		return emit(a, t, func(r *report, t api.Topic) { r.line("topic %s: %s", t.Name, plural(cfg.Partitions, "partition")) })
	})
	return cmd
}

// createTopic tells whether the topic was there already.
func createTopic(ctx context.Context, c *admin.Client, name string, cfg admin.TopicConfig, opts admin.CreateTopicOptions) (there bool, err error) {
	isNew := opts
	isNew.MustBeNew = true
	if err = c.CreateTopic(ctx, name, cfg, &isNew); errors.Is(err, fault.Exists) && !opts.MustBeNew {
		return true, c.CreateTopic(ctx, name, cfg, &opts)
	}
	return false, err
}

func topicTable(r *report, list []api.TopicSummary) {
	head := []string{"TOPIC", "PARTITIONS", "STORAGES", "CREATED"}
	parts := slices.ContainsFunc(list, func(t api.TopicSummary) bool { return t.Internal != "" })
	if parts { // of subscriptions, which users neither produce to nor delete
		head = append(head, "PART OF")
	}
	tableOf(r, head, list, func(t api.TopicSummary) []cell {
		if t.Damaged != "" {
			return []cell{left(t.Name), right("-"), right("-"), unreadableCell(t.Damaged)}
		}
		row := []cell{left(t.Name), number(t.Partitions), number(t.Storages), left(string(t.Created))}
		if parts {
			row = append(row, left(dash(t.Internal)))
		}
		return row
	})
}

func (a *app) topicDescribe() *cobra.Command {
	return &cobra.Command{
		Use:   "describe NAME",
		Short: "Show a topic, the range of each partition, and its groups",
		RunE: show(a, func(ctx context.Context, c *admin.Client, args []string) (api.Topic, error) {
			return c.DescribeTopic(ctx, args[0])
		}, renderTopic),
	}
}

func (a *app) topicDelete() *cobra.Command {
	var f deleteFlags
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a topic and its records",
		Long: `Delete a topic and its records, for good. A topic in which a consumer group has progress
is a conflict (exit code 4), unless --force drops the progress too. On a terminal it
asks first; --yes answers, and without a terminal it is needed.`,
		Example: `  ringfence topic delete payments --dry-run
  ringfence topic delete payments --force --yes`,
	}
	f.register(cmd.Flags(), "also while groups have progress in it")
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		d, id, err := plannedDeletion(ctx, rf.Admin(), args[0], f.force)
		if err != nil {
			return err
		}
		return a.remove(ctx, &f, d, fmt.Sprintf("Delete topic %s%s?", d.Name, withRecords(d)), func() error {
			return rf.Admin().DeleteTopic(ctx, args[0], &admin.DeleteTopicOptions{Force: f.force, ID: id})
		})
	})
	return cmd
}

// plannedDeletion is what deleting a topic would do, or why it would be refused; and which one it is.
func plannedDeletion(ctx context.Context, c *admin.Client, name string, force bool) (d api.Deletion, id string, _ error) {
	d = api.Deletion{What: "topic", Name: name}
	info, err := c.DescribeTopic(ctx, name)
	if err != nil {
		// One that is there but can't be described, half made say, can be deleted all the same.
		if listed, unlisted := topicNames(ctx, c); unlisted != nil || !slices.Contains(listed, name) {
			return d, "", err
		}
	}
	if err == nil {
		d.Records = &info.Kept
	}
	groups, err := c.ListGroups(ctx)
	if err != nil {
		return d, "", err
	}
	for _, g := range groups {
		if g.Topic != name {
			continue
		}
		d.Groups = append(d.Groups, g.Name)
		if _, _, ok := subscription.OfGroup(g.Name); force && len(g.Members) > 0 && !ok {
			return d, "", fmt.Errorf("topic %q is being consumed by group %q, which has %s; stop them first: %w", name, g.Name, plural(len(g.Members), "live member"), fault.Conflict)
		}
	}
	return d, info.ID, c.DeleteTopic(ctx, name, &admin.DeleteTopicOptions{Force: force, DryRun: true, ID: info.ID})
}
