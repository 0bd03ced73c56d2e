package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
)

// stateOf is what a list says of a subscription.
func stateOf(d *api.Subscription) string {
	if d.Paused != nil {
		return "paused"
	}
	return d.State
}

// pauseLine says that a subscription is paused.
func pauseLine(r *report, d *api.Subscription) {
	if d.Paused == nil {
		return
	}
	why := ""
	if d.Paused.Reason != "" {
		why = ": " + d.Paused.Reason
	}
	r.line("paused since %s%s", d.Paused.Since, why)
}

func (a *app) subscriptionPause() *cobra.Command {
	var opts admin.PauseSubscriptionOptions
	cmd := &cobra.Command{
		Use:   "pause NAME",
		Short: "Deliver nothing of a subscription until it is resumed",
		Long: `Deliver nothing of a subscription until it is resumed. Its members hear of it within
a second or so: they begin no attempt any more, and end what is under way. Progress,
order and what is parked stay, and so do dead letters, for which orders may be given.`,
		Example: `  ringfence subscription pause billing --reason 'the bank is closed'`,
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&opts.Reason, "reason", "", "`why`, for people; one that is paused already keeps its own")
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		d, err := rf.Admin().PauseSubscription(ctx, args[0], &opts)
		if err != nil {
			return err
		}
		return a.emit(d, func(r *report) { r.line("subscription %s is paused", d.Name) })
	})
	return cmd
}

func (a *app) subscriptionResume() *cobra.Command {
	return &cobra.Command{
		Use:     "resume NAME",
		Short:   "Deliver a subscription that is paused from where it was",
		Example: `  ringfence subscription resume billing`,
		Args:    cobra.ExactArgs(1),
		RunE: a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
			d, err := rf.Admin().ResumeSubscription(ctx, args[0])
			if err != nil {
				return err
			}
			return a.emit(d, func(r *report) { r.line("subscription %s goes on", d.Name) })
		}),
	}
}
