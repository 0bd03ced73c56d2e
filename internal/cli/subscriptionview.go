package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/push"
)

// backlogLine says how much is held back, and since when.
func backlogLine(r *report, b *api.Backlog, now time.Time) {
	parked := plural(b.Parked.Records, "record")
	if b.Parked.Keys > 0 {
		parked += " of " + plural(b.Parked.Keys, "key")
	}
	behind := ""
	if b.Blocked > 0 {
		behind = ", " + plural(b.Blocked, "record") + " behind"
	}
	r.line("parked: %s%s; dead letters: %s%s%s", parked, oldestText(&b.Parked, now), thousands(int64(b.Dead.Records)), oldestText(&b.Dead, now), behind)
}

func oldestText(h *api.Heap, now time.Time) string {
	if h.OldestAt == "" {
		return ""
	}
	return ", oldest " + ageText(max(1, now.Sub(h.OldestAt.Time()).Milliseconds())) // the producer may have another clock
}

// What the owners of shards tell with their progress: whether the breaker is open, and what is used of limits.

func breakerLines(r *report, v *api.Breaker) {
	if v == nil {
		return
	}
	if v.State == "closed" {
		r.line("breaker: closed")
	}
	for _, o := range v.Open {
		shards := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(o.Shards)), ", "), "[]")
		next := "one record is tried each second"
		if string(o.Next) != "" {
			next = "the next try is at " + string(o.Next)
		}
		r.line("breaker: open since %s at %s (shards %s): %q; %s", string(o.Since), o.Member, shards, o.Why, next)
	}
}

func usedText(u *api.Used, now time.Time) string {
	return fmt.Sprintf("%.4g a second, %d at once, as of %s ago", u.Rate, u.Running, ageText(max(1, now.Sub(u.At.Time()).Milliseconds())))
}

func endpointLines(r *report, v *api.EndpointLimits) {
	if v == nil {
		return
	}
	for _, m := range v.Members {
		var most, here []string
		if m.Rate > 0 {
			most, here = append(most, fmt.Sprintf("%.4g a second", m.Rate)), append(here, fmt.Sprintf("%.4g a second", m.RateHere))
		}
		if m.Concurrency > 0 {
			most, here = append(most, fmt.Sprintf("%d at once", m.Concurrency)), append(here, fmt.Sprintf("%d at once", m.ConcurrencyHere))
		}
		r.line("%s gets at most %s from all; of it the process of %s has %s", v.Origin, strings.Join(most, ", "), m.Member, strings.Join(here, ", "))
	}
	if v.Used != nil {
		r.line("  all use %s", usedText(v.Used, time.Now()))
	}
}

// pauseText says which user paused a subscription, and why.
func pauseText(p *api.Pause) string {
	text := ""
	if p.By != "" {
		text = " by " + p.By
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}

// pauseLine says that a subscription is paused.
func pauseLine(r *report, d *api.Subscription) {
	if d.Paused == nil {
		return
	}
	r.line("paused since %s%s", d.Paused.Since, pauseText(d.Paused))
}

// limitText says what bounds there are.
func limitText(d *api.Subscription) string {
	var bounds []string
	if l := d.Limits; l != nil && l.Rate > 0 {
		bounds = append(bounds, fmt.Sprintf("at most %s a second", plural(l.Rate, "attempt")))
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

// setsTable shows the shard sets of a subscription that was resharded or reset.
func setsTable(r *report, d *api.Subscription) {
	if len(d.Sets) == 1 {
		of := ""
		if n := d.Set().Storage; n > 0 {
			of = fmt.Sprintf(" of storage topic %d", n)
		}
		r.line("%s%s", plural(d.Set().Shards, "shard"), of)
		return
	}
	r.line("")
	grown := d.Sets[0].Storage+d.Set().Storage > 0
	head := []string{"SHARD SET", "SHARDS", "STATE", "SINCE", "PAUSE"}
	if grown {
		head = append(head, "STORAGE")
	}
	tableOf(r, head, d.Sets, func(s api.ShardSet) []cell {
		pause := ""
		if s.PauseMS > 0 {
			pause = (time.Duration(s.PauseMS) * time.Millisecond).String()
		}
		row := []cell{left(s.ID), number(s.Shards), left(s.State), left(string(s.Since)), left(pause)}
		if grown {
			row = append(row, number(s.Storage))
		}
		return row
	})
}

func endpointTerms(e *api.Endpoint) string {
	text := ""
	if e.TimeoutMS > 0 {
		text += fmt.Sprintf(", in at most %s", time.Duration(e.TimeoutMS)*time.Millisecond)
	}
	if e.SecretFile != "" {
		text += ", signed with the secret in " + e.SecretFile
	}
	if e.CloudEvents {
		text += ", as CloudEvents"
	}
	return text
}

func (a *app) subscriptionDescribe() *cobra.Command {
	return &cobra.Command{
		Use:   "describe NAME",
		Short: "Show a subscription: its policy, owners, lag, parked records, dead letters, breaker and limits",
		Long: `Show a subscription: its policy, owners, lag, parked records and dead letters, whether
its endpoint or handler works (the breaker), and its limits with what is used of them.
The owner of a shard stores breaker and use together with its progress, at most once a
second; their age is shown.`,
		RunE: show(a, func(ctx context.Context, c *admin.Client, args []string) (*api.SubscriptionStatus, error) {
			return c.DescribeSubscription(ctx, args[0])
		}, a.statusReport),
	}
}

// refusedHere says why a daemon without --allow-net refuses the endpoint of a subscription without members; "": it doesn't.
func refusedHere(v *api.SubscriptionStatus) string {
	if v.Endpoint == nil || v.Group != nil && len(v.Group.Members) > 0 {
		return ""
	}
	if err := push.NeedsAllowNet(v.Endpoint.URL); err != nil {
		return strings.TrimSuffix(err.Error(), ": "+fault.Invalid.Error())
	}
	return ""
}

func (a *app) statusReport(r *report, v *api.SubscriptionStatus) {
	d := &v.Subscription
	r.line("subscription %s of topic %s, ordered by %s", d.Name, d.Topic, string(d.Order))
	r.line("up to %d attempts, pauses of %s to %s; dead letters: %s", d.Retry.MaxAttempts,
		time.Duration(d.Retry.InitialMS)*time.Millisecond, time.Duration(d.Retry.MaxMS)*time.Millisecond, string(d.DeadLetters))
	if e := v.Endpoint; e != nil {
		r.line("delivered to %s%s", e.URL, endpointTerms(e))
	}
	if why := refusedHere(v); why != "" {
		r.line("%s", why)
	}
	if d.Filter != "" {
		r.line("only what this is true of: %s", d.Filter)
	}
	limitLines(r, d, v.Limited)
	endpointLines(r, v.EndpointLimits)
	pauseLine(r, d)
	breakerLines(r, v.Breaker)
	setsTable(r, d)
	backlogLine(r, &v.Backlog, time.Now())
	switch {
	case v.Group != nil:
		r.line("")
		groupTable(r, []api.Group{*v.Group})
	case len(v.Problems) == 0:
		what := "it"
		if len(d.Sets) > 1 {
			what = "its newest shard set"
		}
		r.line("%s was never delivered: start %s", what, delivering(a.program(), d))
	}
}
