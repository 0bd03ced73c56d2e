package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
)

func (a *app) topicCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check NAME",
		Short: "Compare what the registry says of a topic with what the log has",
		Long: `Show the storage topics of a topic as the registry and as the log have them, and what the
registry has forgotten, as after a backup of it was put back. It changes nothing. The exit
code is 1 when the two differ; "topic repair" brings the registry forward.`,
		Example: `  ringfence topic check payments
  ringfence topic check payments --format json | jq .differences`,
		RunE: a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
			c, err := rf.Admin().CheckTopic(ctx, args[0])
			if err != nil {
				return err
			}
			if err := emit(a, c, renderTopicCheck); err != nil {
				return err
			}
			return differs(c)
		}),
	}
}

func (a *app) topicRepair() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "repair NAME",
		Short: "Bring what the registry says of a topic forward to what the log has",
		Long: `Bring the definition of a topic forward to what the log has: storage topics, seals, ends,
retirements and the retention that the registry has forgotten, or the whole topic. It
removes no record and changes no storage topic that has any. Producers and consumers do
the same by themselves where the two contradict each other.

The exit code is 1 when something differs that can't be repaired. --dry-run only says what
would be done.`,
		Example: `  ringfence topic repair payments --dry-run
  ringfence topic repair payments`,
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would be done")
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		c, err := rf.Admin().RepairTopic(ctx, args[0], &admin.RepairTopicOptions{DryRun: dryRun})
		if err != nil {
			return err
		}
		if err := emit(a, c, renderTopicCheck); err != nil {
			return err
		}
		if c.Repaired || dryRun && c.Problem == "" {
			return nil
		}
		return differs(c)
	})
	return cmd
}

// differs is the error of a check that found something.
func differs(c *api.TopicCheck) error {
	if len(c.Differences) == 0 && c.Problem == "" {
		return nil
	}
	return &exitError{fmt.Errorf("topic %s: registry and log differ: %w", c.Topic, errReported), fault.ExitFailure}
}

func renderTopicCheck(r *report, c *api.TopicCheck) {
	switch {
	case c.Problem != "":
		r.line("topic %s: %s", c.Topic, c.Problem)
	case len(c.Differences) == 0:
		r.line("topic %s: registry and log agree", c.Topic)
	case c.Repaired:
		r.line("topic %s: repaired; the registry did not know:", c.Topic)
	default:
		r.line("topic %s: the registry is behind the log, and does not know (ringfence topic repair %s):", c.Topic, c.Topic)
	}
	for _, d := range c.Differences {
		r.line("  %s", d)
	}
	if len(c.Storage) == 0 {
		return
	}
	r.line("")
	tableOf(r, []string{"INDEX", "STORAGE TOPIC", "REGISTRY", "LOG"}, c.Storage, func(s api.CheckedStorage) []cell {
		return []cell{number(s.Index), left(s.Name), left(s.Registry), left(s.Log)}
	})
}
