package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/api"
)

func limitFlags(fl *pflag.FlagSet, rate, concurrency *int) {
	fl.IntVar(rate, "rate", 0, "how many attempts all members begin in a second, at most (0: no bound)")
	fl.IntVar(concurrency, "concurrency", 0, "how many attempts all members have under way, at most; each shard has one at least (0: no bound)")
}

func (a *app) subscriptionLimit() *cobra.Command {
	var to api.Limits
	cmd := &cobra.Command{
		Use:   "limit NAME [--rate N] [--concurrency N]",
		Short: "Change how much of a subscription is delivered in a second, and at once",
		Long: `Change how many attempts in a second the members of a subscription begin together, and
how many they have under way at the same time. What is not named stays as it is, and 0
ends a bound. Members hear of it within a second or so; what they have begun goes on.
An attempt that a limit holds back was none: it costs the record nothing.`,
		Example: `  ringfence subscription limit billing --rate 100
  ringfence subscription limit billing --rate 0 --concurrency 32`,
		Args: cobra.ExactArgs(1),
	}
	fl := cmd.Flags()
	limitFlags(fl, &to.Rate, &to.Concurrency)
	cmd.MarkFlagsOneRequired("rate", "concurrency")
	cmd.PreRunE = checked(func() error {
		for name, n := range map[string]*int{"rate": &to.Rate, "concurrency": &to.Concurrency} {
			if fl.Changed(name) && *n == 0 {
				*n = api.NoLimit
			}
		}
		return nil
	})
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		d, err := rf.Admin().LimitSubscription(ctx, args[0], to, nil)
		if err != nil {
			return err
		}
		d = shownSubscription(d)
		return a.emit(d, func(r *report) { r.line("subscription %s delivers %s", d.Name, limitText(d)) })
	})
	return cmd
}

// limitText says what bounds there are.
func limitText(d *api.Subscription) string {
	var bounds []string
	if l := d.Limits; l != nil && l.Rate > 0 {
		bounds = append(bounds, fmt.Sprintf("at most %s a second", plural(int64(l.Rate), "attempt")))
	}
	if l := d.Limits; l != nil && l.Concurrency > 0 {
		bounds = append(bounds, fmt.Sprintf("at most %d at once", l.Concurrency))
	}
	if bounds == nil {
		return "without a limit"
	}
	return strings.Join(bounds, ", ")
}

// limitLines show the limits of a subscription, and what each member has of them.
func limitLines(r *report, d *api.Subscription, uses []api.MemberLimits) {
	if d.Limits != nil {
		r.line("%s", limitText(d))
	}
	for _, u := range uses {
		if u.Backoff > 0 {
			r.line("%s tries at most %.4g a second, as most are refused for want of capacity", u.Member, u.Backoff)
		}
		if d.Limits == nil {
			continue
		}
		var parts []string
		if d.Limits.Rate > 0 {
			parts = append(parts, fmt.Sprintf("%.4g a second", u.Rate))
		}
		if d.Limits.Concurrency > 0 {
			parts = append(parts, fmt.Sprintf("%d at once", u.Concurrency))
		}
		r.line("  of it %s has %s", u.Member, strings.Join(parts, ", "))
		if u.Used != nil {
			r.line("    and uses %s", usedText(u.Used, time.Now()))
		}
	}
}
