package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
)

// chosen are the flags that choose among dead letters.
type chosen struct {
	ids []string
	key string
	all bool

	decided bool // list those too that are decided about

	since string
	after time.Time // what since says

	filter string
	wait   time.Duration // for members to carry an order out
}

// carriedOut waits until no order about what was chosen is left. An order that was written down stays so.
func (c *chosen) carriedOut(ctx context.Context, rf *ringfence.Client, name string, o *admin.DeadLetterOptions) error {
	if c.wait <= 0 {
		return nil
	}
	late := time.NewTimer(c.wait)
	defer late.Stop()
	for {
		left, err := rf.Admin().ListDeadLetters(ctx, name, o)
		if err != nil {
			return err
		}
		left = slices.DeleteFunc(left, func(l api.DeadLetter) bool { return l.Ordered == "" })
		if len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-late.C:
			return &exitError{fmt.Errorf("after %s (--wait) %s of subscription %q waits to be %s; that is written down, and carried out as soon as a member is there: %w",
				c.wait, plural(len(left), "dead letter"), name, left[0].Ordered, context.DeadlineExceeded), fault.ExitTimeout}
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// register adds the flags that choose, and decided or wait, which a command may have.
func (c *chosen) register(fl *pflag.FlagSet) {
	fl.StringVar(&c.key, "key", "", "only those of this `key`")
	fl.StringVar(&c.filter, "filter", "", "only those that this `expression` is true of, such as 'answer contains \"404\" and attempts > 3'")
	fl.StringVar(&c.since, "since", "", "only those that failed first at this `time` (2026-01-31T12:00:00Z) or later, or so long ago at most (15m)")
}

func (c *chosen) waitFlag(fl *pflag.FlagSet) {
	fl.DurationVar(&c.wait, "wait", 0, "wait so long for the members of the subscription to carry it out; exit code 124 when they have not (0: don't wait)")
}

// check understands since.
func (c *chosen) check(cmd *cobra.Command) error {
	if !cmd.Flags().Changed("since") {
		return nil
	}
	age, err := time.ParseDuration(c.since)
	if err == nil {
		c.after = time.Now().Add(-age.Abs())
		return nil
	}
	if c.after, err = time.Parse(time.RFC3339, c.since); err != nil {
		return fmt.Errorf("--since %q: expected a time such as 2026-01-31T12:00:00Z, or an age such as 15m: %w", c.since, fault.Invalid)
	}
	return nil
}

func (c *chosen) options(cmd *cobra.Command) *admin.DeadLetterOptions {
	o := &admin.DeadLetterOptions{IDs: c.ids, Since: c.after, Decided: c.decided, Filter: c.filter}
	if cmd.Flags().Changed("key") {
		o.Key = []byte(c.key)
	}
	return o
}

func (a *app) deadLetters() *cobra.Command {
	return a.holder(&cobra.Command{
		Use:   "dead-letters",
		Short: "List, show, redrive, skip, edit and discard the records that were given up",
		Long: `List, show, redrive, skip, edit and discard the records of a subscription that were
given up. The name may come before the verb too: "dead-letters billing list". An order is
written down, and the members of the subscription carry it out as soon as there are some.
An order about a record that is decided about already, or that only waits behind a failed
one, is a conflict (exit code 4); about a record that was never given up, "not found" (3).`,
		Aliases: []string{"dlq"},
	}, subscriptionNames,
		a.deadLettersList(&cobra.Command{
			Use:   "list NAME",
			Short: "List the records that wait for a decision",
			Long: `List the records of a subscription that wait for a decision, in order of key and place:
"failed" records were given up, and "blocked" records wait behind a failed one of their
key. With --all also records that were decided about, with the user and the time:
"redriven", "edited", "skipped", "discarded". The log keeps decisions for 30 days, through
reshards and growth. JSON is one object a line.`,
		}, deadLetterTable),
		a.deadLettersShow(),
		a.deadLettersList(&cobra.Command{
			Use:   "export NAME",
			Short: "Write what is not delivered as lines of JSON, whatever --format says",
		}, nil),
		a.deadLettersEdit(),
		a.deadLettersOrder("redrive", "Deliver dead letters again, in order, before what waits behind them", (*admin.Client).RedriveDeadLetters),
		a.deadLettersOrder("skip", "Pass dead letters over, as they are dealt with in another way; their keys go on", (*admin.Client).SkipDeadLetters),
		a.deadLettersOrder("discard", "Finish dead letters as they are; their keys go on without them", (*admin.Client).DiscardDeadLetters))
}

// deadLettersList makes a command that lists: in text by a table, if there is one.
func (a *app) deadLettersList(cmd *cobra.Command, table func(*report, []api.DeadLetter)) *cobra.Command {
	var c chosen
	var limit int
	cmd.Flags().BoolVar(&c.decided, "all", false, "also those that were decided about")
	c.register(cmd.Flags())
	if table != nil {
		cmd.Flags().IntVar(&limit, "limit", 0, "at most so `many` (0: all)")
	}
	cmd.PreRunE = checked(func() error { return c.check(cmd) })
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		list, err := rf.Admin().ListDeadLetters(ctx, args[0], c.options(cmd))
		if limit > 0 && len(list) > limit {
			list = list[:limit]
		}
		switch {
		case table == nil || a.global.format == "json":
			return errors.Join(err, a.writeDeadLetters(list))
		case err != nil && len(list) == 0:
			return err
		}
		return errors.Join(err, emit(a, list, table)) // the rest is there all the same
	})
	return cmd
}

func deadLetterTable(r *report, list []api.DeadLetter) {
	columns := []string{"ID", "KEY", "STATUS", "ATTEMPTS", "REASON", "FAILED AT", "ANSWER"}
	history := slices.ContainsFunc(list, func(d api.DeadLetter) bool { return d.DecidedAt != "" })
	if history {
		columns = slices.Insert(columns, 6, "DECIDED AT", "BY")
	}
	tableOf(r, columns, list, func(d api.DeadLetter) []cell {
		if d.Lost != "" && d.DecidedAt == "" {
			d.Answer = "LOST, it can only be skipped or discarded: " + d.Lost
		}
		key, status := "-", string(d.Status)
		if d.Key != nil {
			key = *d.Key
		}
		if d.Ordered != "" {
			status += ", to be " + string(d.Ordered)
		}
		cells := []cell{left(d.ID), left(key), alarmIf(d.Status == api.Failed, left(status)), number(d.Attempts), left(dash(d.Reason)), left(dash(string(d.FailedAt))), left(dash(d.Answer))}
		if history {
			cells = slices.Insert(cells, 6, left(dash(string(d.DecidedAt))), left(dash(d.DecidedBy)))
		}
		return cells
	})
}

// writeDeadLetters writes one object a line.
func (a *app) writeDeadLetters(list []api.DeadLetter) error {
	for i := range list {
		if err := writeJSON(a.stdout, &list[i], ""); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) deadLettersOrder(verb, short string, order func(*admin.Client, context.Context, string, *admin.DeadLetterOptions) (int, error)) *cobra.Command {
	var c chosen
	var dry, yes bool
	discards := verb == "discard"
	cmd := &cobra.Command{
		Use:   verb + " NAME ([--id] ID... | --key K | --since T | --filter EXPR | --all)",
		Short: short,
		Long: short + `. The order is written down, and the
members of the subscription carry it out as soon as there are some.`,
		Args: cobra.MinimumNArgs(1),
	}
	cmd.Flags().StringSliceVar(&c.ids, "id", nil, "that of this `ID`; may be repeated")
	c.register(cmd.Flags())
	cmd.Flags().BoolVar(&c.all, "all", false, "all of them")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say how many these are")
	if discards {
		cmd.Long += ` On a terminal it asks before
records are finished that were never delivered; --yes answers. Without a terminal it
never asks.`
		cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	}
	c.waitFlag(cmd.Flags())
	cmd.PreRunE = checked(func() error {
		c.ids = append(c.ids, cmd.Flags().Args()[min(1, cmd.Flags().NArg()):]...)
		if c.all == (len(c.ids) > 0 || cmd.Flags().Changed("key") || cmd.Flags().Changed("since") || cmd.Flags().Changed("filter")) {
			return fmt.Errorf("expected --all, or which ones: an ID, --key, --since or --filter: %w", fault.Invalid)
		}
		return c.check(cmd)
	})
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		o := c.options(cmd)
		o.DryRun = dry || discards && !yes && a.asks()
		n, err := order(rf.Admin(), ctx, args[0], o)
		if err == nil && o.DryRun && !dry {
			question := fmt.Sprintf("Finish %s of subscription %s undelivered?", plural(n, "dead letter"), args[0])
			if err := a.agreed(ctx, n == 0, question, fmt.Sprintf("no dead letter of subscription %q was discarded", args[0])); err != nil {
				return err
			}
			o.DryRun = false
			n, err = order(rf.Admin(), ctx, args[0], o)
		}
		if err != nil {
			return err
		}
		err = emit(a, ordered(ctx, rf.Admin(), api.DeadLetterOrder{Subscription: args[0], Order: verb, Records: n, DryRun: dry}), orderLine)
		if dry {
			return err
		}
		return errors.Join(err, c.carriedOut(ctx, rf, args[0], o))
	})
	return cmd
}

// ordered notes whether an order waits for a member.
func ordered(ctx context.Context, c *admin.Client, o api.DeadLetterOrder) api.DeadLetterOrder {
	if d, err := c.GetSubscription(ctx, o.Subscription); err == nil && o.Records > 0 && !o.DryRun {
		g, err := c.DescribeGroup(ctx, d.Group())
		o.Waits = errors.Is(err, fault.NotFound) || err == nil && len(g.Members) == 0
	}
	return o
}

func orderLine(r *report, o api.DeadLetterOrder) {
	end := ""
	switch {
	case o.DryRun:
		end = ", if it were not a dry run"
	case o.Waits:
		end = "; no process delivers subscription " + o.Subscription + " now, and the order waits for one"
	}
	r.line("%s: %s%s", o.Order, plural(o.Records, "record"), end)
}

func (a *app) deadLettersEdit() *cobra.Command {
	var file string
	var c chosen
	cmd := &cobra.Command{
		Use:   "edit NAME ID --value-file FILE",
		Short: "Deliver a dead letter again with another value, in its place in the order of its key",
		Long: `Deliver a dead letter again with the value that is in a file ("-": stdin), byte for
byte, before what waits behind it. Key and headers stay; the header ringfence-edited says
which dead letter it was. The topic keeps the record as it is.`,
		Example: `  ringfence subscription dead-letters edit billing 0.3.668.0 --value-file fixed.json`,
	}
	cmd.Flags().StringVar(&file, "value-file", "", "the `file` with the new value")
	_ = cmd.MarkFlagRequired("value-file") // made just above
	c.waitFlag(cmd.Flags())
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		value, err := a.readInput(ctx, file, commitlog.MaxRecordBytes, "the new value, byte for byte")
		if err == nil {
			err = rf.Admin().EditDeadLetter(ctx, args[0], args[1], value)
		}
		if err != nil {
			return err
		}
		err = emit(a, ordered(ctx, rf.Admin(), api.DeadLetterOrder{Subscription: args[0], Order: "edit", Records: 1}), orderLine)
		return errors.Join(err, c.carriedOut(ctx, rf, args[0], &admin.DeadLetterOptions{IDs: args[1:]}))
	})
	return cmd
}

func (a *app) deadLettersShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME ID",
		Short: "Show one record that is not delivered, or was decided about, as a line of JSON",
		RunE: a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
			list, err := rf.Admin().ListDeadLetters(ctx, args[0], &admin.DeadLetterOptions{IDs: args[1:], Decided: true})
			if err != nil && len(list) == 0 {
				return err
			}
			if len(list) == 0 {
				return fmt.Errorf("subscription %q has no record %q that waits for a decision, or was decided about: %w", args[0], args[1], fault.NotFound)
			}
			return errors.Join(err, a.writeDeadLetters(list))
		}),
	}
}

// nameFirst lets the name of a subscription come before the verb, as in "dead-letters billing list".
func nameFirst(root *cobra.Command, args []string) []string {
	at := slices.IndexFunc(args, func(s string) bool { return s == "dead-letters" || s == "dlq" })
	if at < 1 || !slices.Contains([]string{"subscription", "subscriptions", "sub"}, args[at-1]) || at+2 >= len(args) {
		return args
	}
	parent, _, err := root.Find([]string{"subscription", "dead-letters"})
	verb := func(s string) bool {
		return err == nil && slices.ContainsFunc(parent.Commands(), func(c *cobra.Command) bool { return c.Name() == s })
	}
	if verb(args[at+1]) || !verb(args[at+2]) {
		return args
	}
	args = slices.Clone(args)
	args[at+1], args[at+2] = args[at+2], args[at+1]
	return args
}
