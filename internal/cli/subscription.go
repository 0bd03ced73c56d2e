package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/dispatch"
)

func (a *app) subscriptionCommand() *cobra.Command {
	return a.holder(&cobra.Command{
		Use:   "subscription",
		Short: "Deliver a topic in order per key, with retries, dead letters and their redrive",
		Long: `A subscription delivers the records of a topic to an HTTP endpoint or a command, the
records of a key in order. A failing record is tried again with growing pauses while
only its key waits. A record that is given up becomes a dead letter, and its key waits
until you redrive, edit, skip or discard it; then the rest of the key follows in order.`,
		Aliases: []string{"subscriptions", "sub"},
	}, subscriptionNames, a.subscriptionCreate(), listing(a, "List the subscriptions with their lag, what is parked, and dead letters", (*admin.Client).MeasureSubscriptions, subscriptionTable), a.subscriptionDescribe(), a.subscriptionRun(), a.subscriptionPause(), a.subscriptionResume(),
		a.subscriptionAlter(), a.subscriptionLimit(), a.subscriptionRetry(), a.subscriptionReshard(), a.subscriptionReset(), a.subscriptionDelete(), a.subscriptionWhy(), a.deadLetters())
}

func (a *app) subscriptionCreate() *cobra.Command {
	var cfg admin.SubscriptionConfig
	var order, from string
	cmd := &cobra.Command{
		Use:   "create NAME --topic TOPIC",
		Short: "Make a subscription; one that is there keeps its settings",
		Long: `Make a subscription. An existing one of the same topic and order keeps its settings, and
those that differ are named on stderr ("subscription alter" changes them); one of another
topic or order is a conflict (exit code 4).`,
		Example: `  ringfence subscription create billing --topic payments --attempts 5 --dead-letters block
  ringfence subscription create invoices --topic payments --endpoint https://api.example.com/in --secret-file /etc/ringfence/invoices`,
	}
	fl := cmd.Flags()
	subscriptionSettings(cmd, &cfg)
	fl.StringVar(&cfg.Topic, "topic", "", "`name` of the topic")
	fl.StringVar(&order, "order", "key", "what is delivered in order: key (the records of a key), none, or function (the records for which a function of your Go program returns the same; only that program can deliver them)")
	fl.StringVar(&from, "from", "earliest", "where it begins: earliest or latest")
	fl.IntVar(&cfg.Shards, "shards", 0, "how many shards share the partitions of the topic (default: one for each)")
	_ = cmd.MarkFlagRequired("topic") // made just above
	_ = cmd.RegisterFlagCompletionFunc("topic", a.offers(topicNames))
	completeWith(cmd, "order", "key", "none")
	completeWith(cmd, "from", "earliest", "latest")
	bounded(fl, 1, math.MaxInt, "shards")
	cmd.PreRunE = checked(func() error {
		settled(fl, &cfg)
		return checkEndpoint(&cfg.Endpoint, false)
	})
	cmd.RunE = show(a, func(ctx context.Context, c *admin.Client, args []string) (*api.Subscription, error) {
		cfg.Order = api.Order(order)
		if fl.Changed("from") {
			cfg.From = api.From(from)
		}
		return c.CreateSubscription(ctx, args[0], cfg)
	}, func(r *report, d *api.Subscription) {
		to := ""
		if d.Endpoint != nil {
			to = " to " + d.Endpoint.URL
		}
		r.line("subscription %s delivers topic %s%s", d.Name, d.Topic, to)
	})
	return cmd
}

func subscriptionTable(r *report, all []*api.SubscriptionStatus) {
	tableOf(r, []string{"SUBSCRIPTION", "TOPIC", "SHARDS", "LAG", "OLDEST", "PARKED", "DEAD", "STATE"}, all, func(d *api.SubscriptionStatus) []cell {
		if d.Damaged != "" {
			return []cell{left(d.Name), left("-"), right("-"), right("-"), right("-"), right("-"), right("-"), unreadableCell(d.Damaged)}
		}
		lag, oldest := right("-"), right("-")
		if d.Group != nil {
			lag, oldest = number(d.Group.Lag), age(d.Group.OldestMS)
		}
		state := deliveryState(d)
		return []cell{
			left(d.Name), left(d.Topic), number(d.Set().Shards), lag, oldest,
			warnIf(d.Failing > 0, number(d.Parked.Records)), warnIf(d.Dead.Records > 0, number(d.Dead.Records)), warnIf(state != "delivering", left(state)),
		}
	})
}

// deliveryState is what is going on with a subscription, in a word or two.
func deliveryState(d *api.SubscriptionStatus) string {
	switch {
	case d.Paused != nil:
		return "paused"
	case len(d.Problems) > 0:
		return "problem: " + d.Problems[0]
	case refusedHere(d) != "":
		return "no members: " + refusedHere(d)
	case d.Group == nil:
		return "never delivered"
	case len(d.Group.Members) == 0:
		return "no members"
	case d.Breaker != nil && len(d.Breaker.Open) > 0:
		return "breaker open: " + d.Breaker.Open[0].Why
	case d.Changing():
		return "changing shards"
	}
	return "delivering"
}

// delivering is the command that delivers a subscription.
func delivering(program string, d *api.Subscription) string {
	switch {
	case d.Order == api.OrderByFunction:
		return "the program that has the function"
	case d.Endpoint != nil:
		return program + " serve"
	}
	return program + " subscription run " + d.Name + " --exec COMMAND"
}

func (a *app) subscriptionDelete() *cobra.Command {
	var f deleteFlags
	var id string
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a subscription, its progress and its dead letters",
		Long: `Delete a subscription with its progress and its internal topics; its topic stays. A
subscription with live members, parked records or dead letters is a conflict (exit
code 4), unless --force ends the members and drops those records. So is one that only
the log knows, unless --force --id ID names it: another registry may know it. Repeat an
interrupted deletion to finish it. On a terminal it asks first; --yes answers, and
without a terminal it is needed.`,
		Example: `  ringfence subscription delete billing --dry-run
  ringfence subscription delete billing --force --yes`,
	}
	f.register(cmd.Flags(), "also while members run, and while records are parked or dead letters")
	cmd.Flags().StringVar(&id, "id", "", "only the subscription of this `ID`")
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		remove := func(dryRun bool) error {
			return rf.Admin().DeleteSubscription(ctx, args[0], &admin.DeleteSubscriptionOptions{Force: f.force, DryRun: dryRun, ID: id})
		}
		if f.dryRun || !f.yes && a.asks() {
			if err := remove(true); err != nil {
				return err // before the question
			}
		}
		question := fmt.Sprintf("Delete subscription %s, its progress and what it has parked?", args[0])
		return a.remove(ctx, &f, api.Deletion{What: "subscription", Name: args[0]}, question, func() error { return remove(false) })
	})
	return cmd
}

// What a command says of a record by its exit code, from sysexits.h; any other one but 0: try again.
const (
	exPermanent = 65 // EX_DATAERR: it can never succeed
	exOutage    = 69 // EX_UNAVAILABLE: what is needed for any record is not there
)

func (a *app) subscriptionRun() *cobra.Command {
	var f consumeFlags
	var opts ringfence.SubscribeOptions
	var out outbound
	cmd := &cobra.Command{
		Use:   "run NAME",
		Short: "Deliver a subscription in this process; several processes share its shards",
		Long: `Deliver the records of a subscription to its endpoint. Without one, print the records, or
run a command for each with --exec, as "ringfence consume" does. The exit code of the
command decides: 0 is done; 65 (EX_DATAERR) gives the record up; 69 (EX_UNAVAILABLE)
says that the command works for no record now, and costs the record no attempt. After
any other code the record is tried again. When the host can't start the command, that
counts as 69.

An endpoint on this host or in a private network gets nothing unless --allow-net has
its address. --endpoint-rate and --endpoint-concurrency bound all processes together:
give this process the same values as the daemons ("ringfence serve").

SIGTERM, SIGINT and SIGHUP drain. Start it as often as you like: each shard has one
owner at a time, and what is parked survives its owner.`,
		Example: `  ringfence subscription run billing --exec ./charge
  ringfence subscription run billing --print value
  ringfence subscription run invoices --allow-net 10.1.0.0/16`,
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.exec, "exec", "e", "", "run this `command` (with sh -c) for each record")
	fl.BoolVar(&f.execStores, "exec-stores", false, "leave RINGFENCE_LOG and RINGFENCE_REGISTRY, with their passwords, in the environment of the command")
	fl.StringVar(&f.print, "print", "json", "what is printed of a record: json, value (its bytes and a newline) or none")
	fl.StringVar(&opts.Member, "member", "", "`ID` of this member (default: host, process and a random part)")
	fl.IntVar(&opts.Concurrency, "concurrency", 0, "records delivered at once in a shard, each of another key (default 16)")
	fl.DurationVar(&opts.DrainTimeout, "drain-timeout", 0, "how long running records may take when a shard moves or at the end (default 10s)")
	sessionFlag(fl, &opts.SessionTTL)
	fl.DurationVar(&opts.HandlerTimeout, "handler-timeout", 0, "a record that takes longer makes the member give its shard up (0: never)")
	out.register(fl)
	noFlag(cmd, "endpoint", `"subscription create" and "subscription alter" name the endpoint`)
	completeWith(cmd, "print", "json", "value", "none")
	bounded(fl, 1, dispatch.MostInFlight, "concurrency")
	cmd.PreRunE = checked(func() error {
		f.group, f.from, f.opts.Member = "subscription", string(ringfence.Earliest), opts.Member
		_, unparsed := out.limits.parse()
		return errors.Join(f.check(), out.check(), unparsed)
	})
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		working, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		d, err := rf.Admin().GetSubscription(ctx, args[0])
		if err != nil {
			return err
		}
		here, err := runsCommand(d, &f, &out, cmd.Flags().Changed("print"))
		if err != nil {
			return err
		}
		opts.ID = d.ID // the next one of its name is delivered in another way
		if !here {
			return a.post(ctx, rf, args[0], &out, &opts)
		}
		process, done := a.processor(&f, stop)
		defer done()
		err = rf.Subscribe(working, args[0], func(ctx context.Context, m *ringfence.Message) error {
			err := process(ctx, m)
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				switch exit.ExitCode() {
				case exPermanent:
					return ringfence.Permanent(err)
				case exOutage:
					return ringfence.Outage(err)
				}
			}
			return err
		}, &opts)
		if cause := context.Cause(working); err == nil && !errors.Is(cause, errSignalled) {
			return cause
		}
		return err
	})
	return cmd
}
