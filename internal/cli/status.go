package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/api"
)

func (a *app) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show all that is wrong, the worst first, with the command that mends it",
		Long: `Look at all topics, groups and subscriptions of the namespace, and show what is wrong:
its age, its cause, and the command that mends it or shows more. "critical" is what
keeps records from being processed and does not end by itself. When something is wrong,
the exit code is 1.`,
		Example: `  ringfence status
  ringfence status --format json | jq '.findings[] | select(.severity == "critical")'`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, _ []string) error {
		s, err := rf.Admin().Status(ctx)
		if err != nil {
			return err
		}
		if err := emit(a, s, findingsReport); err != nil || len(s.Findings) == 0 {
			return err
		}
		return fmt.Errorf("%s: %w", plural(len(s.Findings), "finding"), errReported)
	})
	return cmd
}

func findingsReport(r *report, s *api.Status) {
	if len(s.Findings) == 0 {
		r.line("nothing is wrong: %s, %s, %s", plural(s.Topics, "topic"), plural(s.Groups, "group"), plural(s.Subscriptions, "subscription"))
		return
	}
	now := s.At.Time()
	for _, f := range s.Findings {
		findingLines(r, &f, now)
	}
}

func findingLines(r *report, f *api.Finding, now time.Time) {
	st, age := yellow, "-"
	if f.Severity == api.Critical {
		st = red
	}
	if f.Since != "" {
		age = ageText(max(1, now.Sub(f.Since.Time()).Milliseconds()))
	}
	severity := r.paint(st, string(f.Severity)) + strings.Repeat(" ", len(api.Critical)-len(f.Severity))
	r.line("%s  %-7s  %s %s: %s", severity, age, f.What, f.Name, f.Cause)
	if f.Command != "" {
		r.line("%s> %s%s", strings.Repeat(" ", 19), f.Command, r.place)
	}
}
