package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/topic"
)

// growFlags are what the commands that grow a topic have in common.
type growFlags struct {
	partitions int
	shards     []int
	dryRun     bool
}

func (a *app) topicAddStorage() *cobra.Command {
	var f growFlags
	cmd := &cobra.Command{
		Use:   "add-storage NAME --partitions N",
		Short: "Give a topic another storage topic, with more partitions",
		Long: `Add a storage topic behind those that a topic has. Nothing changes for producers and
consumers before "topic switch-produce". With --shards it is refused (exit code 4)
when consumers that split the topic into so many fixed shards would see records of
a key out of order; consumer groups never do.`,
		Example: `  ringfence topic add-storage payments --partitions 24 --dry-run
  ringfence topic add-storage payments --partitions 24`,
	}
	cmd.Flags().IntVarP(&f.partitions, "partitions", "p", 0, "`number` of partitions")
	f.register(cmd)
	bounded(cmd.Flags(), 1, commitlog.MaxPartitions, "partitions") // for PlanTopic 0 would be another kind of plan
	_ = cmd.MarkFlagRequired("partitions")                         // made just above
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		return a.growTopic(ctx, rf, args[0], f, rf.Admin().AddStorage)
	})
	return cmd
}

func (a *app) topicSwitchProduce() *cobra.Command {
	var f growFlags
	cmd := &cobra.Command{
		Use:   "switch-produce NAME",
		Short: "Let new records go to the next storage topic",
		Long: `Seal the storage topic that takes new records and let the next one take them. Producers
that run go on by themselves, and in order; consumers finish a storage topic before
they begin with the next. A switch that was interrupted is finished.`,
		Example: `  ringfence topic switch-produce payments --dry-run
  ringfence topic switch-produce payments`,
	}
	f.register(cmd)
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		return a.growTopic(ctx, rf, args[0], f, func(ctx context.Context, name string, _ int) (api.Topic, error) {
			return rf.Admin().SwitchProduce(ctx, name)
		})
	})
	return cmd
}

func (f *growFlags) register(cmd *cobra.Command) {
	cmd.Flags().IntSliceVar(&f.shards, "shards", nil, "`number` of fixed shards that consumers have; may be repeated")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "only show what would be done")
}

// growTopic plans a change, and makes it unless that breaks the order of keys.
func (a *app) growTopic(ctx context.Context, rf *ringfence.Client, name string, f growFlags, change func(context.Context, string, int) (api.Topic, error)) error {
	plan, err := rf.Admin().PlanTopic(ctx, name, &admin.PlanTopicOptions{Partitions: f.partitions, Shards: f.shards})
	if err != nil {
		return err
	}
	if err := topic.Refusal(plan); err != nil {
		return err
	}
	info, err := rf.Admin().DescribeTopic(ctx, name)
	if err != nil {
		return err
	}
	result := api.TopicGrowth{TopicPlan: *plan, Done: !f.dryRun, Storage: len(info.Storage), Produce: info.Produce}
	if !f.dryRun {
		if info, err = change(ctx, name, f.partitions); err != nil {
			return err
		}
		result.Produce = info.Produce
	}
	if f.partitions == 0 { // a switch
		if f.dryRun {
			result.Produce++
		}
		result.Storage = result.Produce
		result.Ends = info.Storage[result.Produce-1].Ends
	}
	return emit(a, &result, renderGrowth)
}

func renderGrowth(r *report, g *api.TopicGrowth) {
	verb := "would be done"
	if g.Done {
		verb = "done"
	}
	r.line("topic %s: %s: %s", g.Topic, g.Change, verb)
	growthDetails(r, &g.TopicPlan)
	if g.Ends != nil {
		r.line("sealed at    %d", g.Ends)
	}
	r.line("producers    at storage topic %d", g.Produce)
}

func growthDetails(r *report, g *api.TopicPlan) {
	r.line("partitions   %d (K %d) to %d (K %d), router %s", g.From.Partitions, g.From.K, g.To.Partitions, g.To.K, string(g.Router))
	waits := fmt.Sprintf("each new partition starts when at most %s of the %d before are finished", plural(g.Parents, "partition"), g.From.Partitions)
	if g.Parents == g.From.Partitions {
		waits = "each new partition starts when all partitions before are finished"
	}
	r.line("groups       order holds; %s", waits)
	for _, s := range g.Shards {
		order := "order holds"
		if !s.Order {
			order = fmt.Sprintf("order BREAKS: %.0f %% of the keys change their shard", 100*s.Moved)
		}
		r.line("%-12s %s", plural(s.Shards, "shard"), order)
	}
	for _, w := range g.Warnings {
		r.line("warning      %s", w)
	}
	if g.Refused != "" {
		r.line("refused      %s", g.Refused)
		r.line("instead      %s", g.Remedy)
	}
}

func (a *app) topicPlan() *cobra.Command {
	var f growFlags
	cmd := &cobra.Command{
		Use:   "plan NAME",
		Short: "Show what growing a topic would do, and whether the order of keys holds",
		Long: `Show what "topic add-storage" with so many partitions, and the switch to it, would do;
without --partitions, what "topic switch-produce" would do. Nothing is changed. A
plan that would break the order of keys says so, and what to do instead; the exit
code is 0 all the same.`,
		Example: `  ringfence topic plan payments --partitions 24
  ringfence topic plan payments --partitions 20 --shards 2,10 --format json`,
	}
	cmd.Flags().IntVarP(&f.partitions, "partitions", "p", 0, "`number` of partitions of a new storage topic (default: the next that there is)")
	cmd.Flags().IntSliceVar(&f.shards, "shards", nil, "`number` of fixed shards that consumers have; may be repeated")
	bounded(cmd.Flags(), 1, commitlog.MaxPartitions, "partitions")
	cmd.RunE = show(a, func(ctx context.Context, c *admin.Client, args []string) (*api.TopicPlan, error) {
		return c.PlanTopic(ctx, args[0], &admin.PlanTopicOptions{Partitions: f.partitions, Shards: f.shards})
	}, func(r *report, plan *api.TopicPlan) {
		r.line("topic %s: %s", plan.Topic, plan.Change)
		growthDetails(r, plan)
	})
	return cmd
}

func (a *app) topicRetire() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "retire NAME",
		Short: "Remove the storage topics that can't deliver anything any more",
		Long: `Remove the storage topics that take no new records, hold none, and are finished by every
group, with the progress of groups in them. Their indexes stay taken. The oldest goes
first, and the command says why each of the others stays. It removes no record:
retention drops records, see "topic alter".

Consumers do it by themselves every ten minutes or so; use this command to do it now.
--dry-run only says what would be done.`,
		Example: `  ringfence topic retire payments --dry-run
  ringfence topic retire payments`,
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would be done")
	cmd.RunE = show(a, func(ctx context.Context, c *admin.Client, args []string) (*api.Retirement, error) {
		return c.RetireStorage(ctx, args[0], &admin.RetireStorageOptions{DryRun: dryRun})
	}, renderRetirement)
	return cmd
}

func renderRetirement(r *report, done *api.Retirement) {
	verb := "would retire"
	if done.Done {
		verb = "retired"
	}
	what := "nothing"
	if len(done.Retired) > 0 {
		what = namesOf("storage topic", strings.Fields(strings.Trim(fmt.Sprint(done.Retired), "[]")))
	}
	r.line("topic %s: %s %s", done.Topic, verb, what)
	if len(done.Kept) == 0 {
		return
	}
	r.line("")
	tableOf(r, []string{"INDEX", "STAYS BECAUSE"}, done.Kept, func(k api.KeptStorage) []cell { return []cell{number(k.Index), left(k.Why)} })
}
