package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/apply"
	"github.com/ringfence/ringfence/internal/limits"
)

func (a *app) applyCommand() *cobra.Command {
	var file string
	var dryRun, yes bool
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Make topics and subscriptions as a YAML file says",
		Long: `Make the topics and subscriptions of a YAML file, or change existing ones, and show
what changes. The fields are the flags of "topic create" and "subscription create". A
field that is not named stays as it is, and so does a topic or subscription that the
file does not name: the command never deletes.

When a field is wrong or can't be changed in place, nothing is done, and every such
field is named with its line and what to use instead. Applied again, a file changes
nothing; the next run finishes one that was cut off. A change by another process
meanwhile is a conflict (exit code 4). On a terminal it asks before a new retention
drops records; --yes answers. Without a terminal it never asks.`,
		Example: `  ringfence apply -f shop.yaml --dry-run
  cat topics.yaml | ringfence apply -f -

  # shop.yaml
  topics:
    payments:
      partitions: 8
      retention-age: 168h
  subscriptions:
    billing:
      topic: payments
      attempts: 5`,
	}
	fl := cmd.Flags()
	fl.StringVarP(&file, "file", "f", "", "the YAML `file`, of one or more documents; - is stdin")
	fl.BoolVar(&dryRun, "dry-run", false, "only show what would change")
	fl.BoolVarP(&yes, "yes", "y", false, "do not ask")
	_ = cmd.MarkFlagFilename("file", "yaml", "yml") // made just above
	_ = cmd.MarkFlagRequired("file")                // made just above
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		raw, err := a.readInput(ctx, file, limits.SettingsFileBytes, "a YAML document")
		if err != nil {
			return err
		}
		if file == "-" {
			file = "standard input"
		}
		wanted, err := apply.Decode(file, raw)
		if err != nil {
			return err
		}
		return a.onClient(ctx, !dryRun, func(ctx context.Context, rf *ringfence.Client) error {
			plan, err := apply.Make(ctx, rf.Admin(), wanted)
			if err != nil {
				return err
			}
			if plan.DryRun = dryRun; !dryRun {
				if n := plan.Drops(); n > 0 {
					err = a.agreed(ctx, yes, fmt.Sprintf("Let about %s go?", plural(n, "record")), plan.File+" was not applied")
				}
				if err != nil {
					return err
				}
				err = plan.Apply(ctx)
			}
			return errors.Join(emit(a, plan, renderPlan), err)
		})
	})
	return cmd
}

func renderPlan(r *report, p *apply.Plan) {
	verbs := map[apply.Action][3]string{ // done, not done, of a dry run
		apply.Create: {"created", "not created", "would create"},
		apply.Alter:  {"changed", "not changed", "would change"},
	}
	changes := 0
	for _, c := range p.Changes {
		word, st := string(c.Action), faint
		if verb, ok := verbs[c.Action]; ok {
			st = yellow
			changes++
			switch {
			case p.DryRun:
				word = verb[2]
			case c.Done:
				word, st = verb[0], green
			default:
				word = verb[1]
			}
		}
		r.line("%s %s %s", r.paint(st, word), c.Kind, c.Name)
		for _, f := range c.Fields {
			if c.Action == apply.Create {
				r.line("  %s: %s", f.Field, f.To)
			} else {
				r.line("  %s: %s -> %s", f.Field, f.From, f.To)
			}
		}
		if c.Unfinished {
			r.line("  a change of its retention was interrupted and is finished")
		}
		if c.Drops > 0 {
			r.line("  about %s due to go", plural(c.Drops, "record"))
		}
	}
	if p.DryRun {
		r.line("nothing was changed: a dry run")
	} else if changes == 0 {
		r.line("nothing to change")
	}
}
