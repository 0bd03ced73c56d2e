package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/document"
)

func limitFlags(fl *pflag.FlagSet, rate, concurrency *int) {
	fl.IntVar(rate, "rate", 0, "how many attempts all members begin in a second, at most (0: no bound)")
	fl.IntVar(concurrency, "concurrency", 0, "how many attempts all members have under way, at most; each shard has one at least (0: no bound)")
}

func (a *app) subscriptionLimit() *cobra.Command {
	var to ringfence.Limits
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
				*n = ringfence.NoLimit
			}
		}
		return nil
	})
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		d, err := rf.Limit(ctx, args[0], to, nil)
		if err != nil {
			return err
		}
		d = shownSubscription(d)
		return a.emit(d, func(r *report) { r.line("subscription %s delivers %s", d.Name, limitText(d)) })
	})
	return cmd
}

// limitText says what bounds there are.
func limitText(d *ringfence.SubscriptionInfo) string {
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

// limitUse is what a member has of the limits now.
type limitUse struct {
	Member      string  `json:"member"`
	Rate        float64 `json:"rate,omitempty"` // attempts in a second
	Concurrency int     `json:"concurrency,omitempty"`
	Used        *used   `json:"used,omitempty"`  // nil: it has told nothing, as it delivers nothing
	Eased       float64 `json:"eased,omitempty"` // attempts in a second that it tries at most, as most are refused; 0: as many as it may
}

// limitUses divides the limits as the members do.
func limitUses(d *ringfence.SubscriptionInfo, g *document.Group) (all []limitUse) {
	if g == nil {
		return nil
	}
	partitions := 0
	for _, u := range g.Units {
		partitions += len(u.Positions)
	}
	for _, m := range g.Members {
		use := limitUse{Member: m.ID}
		for _, u := range g.Units {
			if u.Owner == m.ID {
				use.Rate += float64(d.Rate()) * float64(len(u.Positions)) / float64(partitions)
				use.Concurrency += d.Concurrency(u.Unit)
				if told := u.Deliveries; told != nil {
					use.Eased = max(use.Eased, told.Eased)
				}
			}
		}
		if use.Used = usedBy(g, m.ID); d.Limits != nil || use.Eased > 0 {
			all = append(all, use)
		}
	}
	return all
}

// limitLines show the limits of a subscription, and what each member has of them.
func limitLines(r *report, d *ringfence.SubscriptionInfo, uses []limitUse) {
	if d.Limits != nil {
		r.line("%s", limitText(d))
	}
	for _, u := range uses {
		if u.Eased > 0 {
			r.line("%s tries at most %.4g a second, as most are refused for want of capacity", u.Member, u.Eased)
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
			r.line("    and uses %s", u.Used.text(time.Now()))
		}
	}
}
