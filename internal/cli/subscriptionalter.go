package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/internal/apply"
	"github.com/ringfence/ringfence/internal/fault"
)

// subscriptionSettings registers the flags of what a subscription is made with and can be altered in.
func subscriptionSettings(cmd *cobra.Command, cfg *admin.SubscriptionConfig) {
	fl := cmd.Flags()
	endpointFlags(fl, &cfg.Endpoint)
	fl.IntVar(&cfg.Retry.Attempts, "attempts", 0, "after so many attempts a record is given up (default 10)")
	fl.DurationVar(&cfg.Retry.Initial, "retry-initial", 0, "wait after the first failure of a record (default 1s)")
	fl.DurationVar(&cfg.Retry.Max, "retry-max", 0, "longest wait between two tries (default 1m, or --retry-initial where that is more)")
	fl.DurationVar(&cfg.Retry.AfterMax, "retry-after-max", 0, "longest wait that an answer may ask for, with Retry-After (default: --retry-max, or 1h where that is more)")
	fl.DurationVar(&cfg.Hold, "hold", 0, "how long a failing record is held in memory before it is parked (default 5s; 0: not at all)")
	fl.StringVar(&cfg.Filter, "filter", "", "deliver only records that this `expression` is true of, such as 'headers.region == \"eu\" and value.amount > 100'")
	limitFlags(fl, cfg)
	fl.StringVar((*string)(&cfg.DeadLetters), "dead-letters", "", "what a record that is given up does to its key: block it, skip the record, or drop the record for good (default block)")
	completeWith(cmd, "dead-letters", "block", "skip", "drop")
	bounded(fl, 1, math.MaxInt, "attempts")
	bounded(fl, time.Millisecond, group.LongestTime, "retry-initial", "retry-max", "retry-after-max", "timeout")
}

func limitFlags(fl *pflag.FlagSet, cfg *admin.SubscriptionConfig) {
	fl.IntVar(&cfg.Rate, "rate", 0, "how many attempts all members begin in a second, at most (0: no bound)")
	fl.IntVar(&cfg.Concurrency, "concurrency", 0, "how many attempts all members have under way, at most; each shard has one at least (0: no bound)")
}

// settled gives a setting the value that a flag means.
func settled(fl *pflag.FlagSet, cfg *admin.SubscriptionConfig) {
	if fl.Changed("hold") && cfg.Hold == 0 {
		cfg.Hold = -time.Millisecond // 0 is the default
	}
}

// unsettable are the settings that --unset ends.
var unsettable = []string{
	"attempts", "cloudevents", "concurrency", "dead-letters", "endpoint", "filter", "give-up-first", "hold", "rate", "retry-after-max", "retry-initial", "retry-max", "secret-file", "timeout",
}

func (a *app) subscriptionAlter() *cobra.Command {
	var set admin.SubscriptionConfig
	var unset []string
	cmd := &cobra.Command{
		Use:   "alter NAME",
		Short: "Change a subscription while it is delivered",
		Long: `Change the settings that are named, of a subscription that may be delivered meanwhile;
the others stay. --unset gives one its default, or ends it. Members follow within a second
or so: the new settings judge attempts that end from then on, and filter what is parked
too. A pause that has begun lasts as long as it was to ("subscription retry" ends it), and
a dead letter stays one. For another endpoint, time-out or secret file the members drain
and begin anew.

The topic and the order never change, as what is parked goes by them: make another
subscription. "subscription reshard" changes the shards, and "subscription reset" goes to
another place.`,
		Example: `  ringfence subscription alter billing --attempts 20 --retry-max 5m
  ringfence subscription alter billing --endpoint https://new.example.com/in
  ringfence subscription alter billing --rate 50 --unset filter`,
	}
	fl := cmd.Flags()
	subscriptionSettings(cmd, &set)
	fl.StringSliceVar(&unset, "unset", nil, "give the setting of this `name` its default, or end it: "+strings.Join(unsettable, ", "))
	completeWith(cmd, "unset", unsettable...)
	cmd.MarkFlagsOneRequired(append(slices.Clone(unsettable), "unset")...)
	cmd.PreRunE = checked(func() error {
		settled(fl, &set)
		var errs []error
		for _, name := range unset {
			switch {
			case !slices.Contains(unsettable, name):
				errs = append(errs, fmt.Errorf("--unset %q: expected one of %s: %w", name, strings.Join(unsettable, ", "), fault.Invalid))
			case fl.Changed(name):
				errs = append(errs, fmt.Errorf("--unset %s and --%s: expected one of them: %w", name, name, fault.Invalid))
			}
		}
		return errors.Join(append(errs, checkEndpoint(&set.Endpoint, true))...)
	})
	cmd.RunE = show(a, func(ctx context.Context, c *admin.Client, args []string) (*api.Subscription, error) {
		return c.AlterSubscription(ctx, args[0], func(now *admin.SubscriptionConfig) error {
			for _, name := range unsettable {
				switch {
				case fl.Changed(name):
					apply.Copy(now, &set, name)
				case name == "endpoint" && slices.Contains(unset, name):
					now.Endpoint = admin.EndpointConfig{} // with all that is of it
				case slices.Contains(unset, name):
					apply.Copy(now, &admin.SubscriptionConfig{}, name)
				}
			}
			if now.Endpoint.URL == "" && now.Endpoint != (admin.EndpointConfig{}) {
				return fmt.Errorf("subscription %q has no endpoint; expected --endpoint with --timeout, --secret-file, --cloudevents and --give-up-first: %w", args[0], fault.Invalid)
			}
			return nil
		}, nil)
	}, func(r *report, d *api.Subscription) {
		r.line("subscription %s is altered; its members follow within a second or so", d.Name)
	})
	return cmd
}

func (a *app) subscriptionLimit() *cobra.Command {
	var set admin.SubscriptionConfig
	cmd := &cobra.Command{
		Use:   "limit NAME [--rate N] [--concurrency N]",
		Short: "Change how much of a subscription is delivered in a second, and at once",
		Long: `A short form of "subscription alter" for its limits. A bound that is not named stays as
it is, and 0 ends a bound. Members follow within a second or so; attempts under way go on.
A record that a limit holds back loses no attempt.`,
		Example: `  ringfence subscription limit billing --rate 100
  ringfence subscription limit billing --rate 0 --concurrency 32`,
	}
	fl := cmd.Flags()
	limitFlags(fl, &set)
	cmd.MarkFlagsOneRequired("rate", "concurrency")
	cmd.RunE = show(a, func(ctx context.Context, c *admin.Client, args []string) (*api.Subscription, error) {
		return c.AlterSubscription(ctx, args[0], func(now *admin.SubscriptionConfig) error {
			for _, name := range []string{"rate", "concurrency"} {
				if fl.Changed(name) {
					apply.Copy(now, &set, name)
				}
			}
			return nil
		}, nil)
	}, func(r *report, d *api.Subscription) { r.line("subscription %s delivers %s", d.Name, limitText(d)) })
	return cmd
}
