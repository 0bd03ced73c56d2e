package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/assign"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/internal/command"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/pipe"
	"github.com/ringfence/ringfence/internal/storeurl"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/subscription/shard"
)

type consumeFlags struct {
	group      string
	max        int64
	idleExit   time.Duration
	exec       string
	execStores bool
	print      string
	attempts   int
	from       string
	opts       ringfence.ConsumeOptions
}

func (a *app) consumeCommand() *cobra.Command {
	var f consumeFlags
	cmd := &cobra.Command{
		Use:   "consume TOPIC --group NAME",
		Short: "Process records as a member of a consumer group",
		Long: `Share the partitions of a topic with the other members of the group and process their
records. Start as many members as you like: each partition has one owner at a time, and
when a member dies, the others go on from its checkpoints.

Each record is printed as one line of JSON and counts as processed when the line was
written. With --exec it counts as processed when the command exits 0. The command gets
the same line on stdin and RINGFENCE_RECORD_TOPIC, _STORAGE, _PARTITION,
_OFFSET, _EPOCH, _TOKEN, _ATTEMPT, _TIMESTAMP and _KEY (no _KEY: there is none, or it
holds a NUL byte). It does not get RINGFENCE_LOG and RINGFENCE_REGISTRY, which may hold
passwords, unless --exec-stores is given. After another exit code the record is handed
to it again, in order: later records of its key wait, those of other keys go on. With
--max-attempts the member ends instead, and leaves the record to its next start. A
command that can't be run (its exit code is 126 or 127) ends it at the first record,
with exit code 2.

A key or value that is no UTF-8 is printed in base64, and "key_encoding" or
"value_encoding" says so.

SIGTERM, SIGINT and SIGHUP drain: running records finish, the checkpoint is written,
the partitions are handed over. A second signal quits at once. With nohup a terminal
that is closed ends nothing. With a member that dies, its commands die too, and what
they have started.`,
		Example: `  ringfence consume payments --group billing
  ringfence consume payments --group audit --max 10 --idle-exit 2s | jq .value
  ringfence consume mails --group sender --exec ./send-mail.sh --concurrency 4
  ringfence consume clicks --group copy --print value > clicks.log`,
		ValidArgsFunction: first(a.offers(topicNames)),
	}
	f.register(cmd.Flags())
	_ = cmd.MarkFlagRequired("group") // made just above
	_ = cmd.RegisterFlagCompletionFunc("group", a.offers(groupNames))
	completeWith(cmd, "from", "earliest", "latest")
	completeWith(cmd, "print", "json", "value", "none")
	completeWith(cmd, "assignor", "sticky", "fair", "roundrobin")
	cmd.PreRunE = checked(func() error {
		err := f.check()
		if f.execStores && f.exec == "" {
			err = errors.Join(err, fmt.Errorf("--exec-stores needs --exec: there is no command that could have the stores: %w", fault.Invalid))
		}
		if f.exec != "" && cmd.Flags().Changed("print") {
			err = errors.Join(err, fmt.Errorf("--print %s: with --exec the command prints; expected one of both: %w", f.print, fault.Invalid))
		}
		return err
	})
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		return a.consume(ctx, rf, args[0], &f)
	})
	return cmd
}

func (f *consumeFlags) register(fl *pflag.FlagSet) {
	o := &f.opts
	fl.StringVarP(&f.group, "group", "g", "", "`name` of the consumer group")
	fl.StringVar(&o.Member, "member", "", "`ID` of this member (default: host, process and a random part)")
	fl.StringVar(&f.from, "from", "earliest", "where a group without a checkpoint starts: earliest or latest")
	fl.Int64VarP(&f.max, "max", "n", 0, "exit after so many records (0: never)")
	fl.DurationVar(&f.idleExit, "idle-exit", 0, "exit when nothing was there to do for so long (0: never)")
	fl.StringVarP(&f.exec, "exec", "e", "", "run this `command` (with sh -c) for each record")
	fl.BoolVar(&f.execStores, "exec-stores", false, "leave RINGFENCE_LOG and RINGFENCE_REGISTRY, with their passwords, in the environment of the command")
	fl.IntVar(&f.attempts, "max-attempts", 0, "end with exit code 1 when a record has failed so often (0: try it for ever)")
	fl.StringVar(&f.print, "print", "json", "what is printed of a record: json, value (its bytes and a newline) or none")
	fl.IntVar(&o.Concurrency, "concurrency", 0, "records processed at once in a partition, each of another key (default 16)")
	fl.IntVar(&o.MaxInFlight, "max-in-flight", 0, "records of a partition in memory (default 8192)")
	fl.DurationVar(&o.CommitInterval, "commit-interval", 0, "time between two checkpoints (default 100ms)")
	fl.DurationVar(&o.DrainTimeout, "drain-timeout", 0, "how long running records may take when a partition moves or at the end (default 10s)")
	sessionFlag(fl, &o.SessionTTL)
	fl.DurationVar(&o.HandlerTimeout, "handler-timeout", 0, "a record that takes longer makes the member give its partition up (0: never)")
	fl.DurationVar(&o.Retry.Initial, "retry-initial", 0, "wait after the first failure of a record (default 100ms)")
	fl.DurationVar(&o.Retry.Max, "retry-max", 0, "longest wait between two tries (default 30s)")
	fl.StringVar(&o.Assignor, "assignor", "", "how partitions are shared: sticky, fair or roundrobin (default sticky)")
	fl.IntVar(&o.Weight, "weight", 0, "share of the partitions relative to other members (default 1)")
	fl.StringVar(&o.Zone, "zone", "", "`where` the member runs; it is given the partitions of its zone first, see --partition-zones")
	fl.StringSliceVar(&o.PartitionZones, "partition-zones", nil, "the `zones` of partition 0, 1 … (eu,eu,us,us), the same for all members")
	fl.BoolVar(&o.Static, "static", false, "keep the partitions through a restart of this member; needs --member")
	fl.DurationVar(&o.RestartWindow, "restart-window", 0, "how long a static member may be away (default 30s)")
	bounded(fl, 1, dispatch.MostInFlight, "concurrency", "max-in-flight")
	bounded(fl, 1, assign.MaxWeight, "weight")
}

// check reports every flag that can't be right.
func (f *consumeFlags) check() error {
	var errs []error
	demand := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format+": %w", append(args, fault.Invalid)...))
		}
	}
	o := &f.opts
	o.From = ringfence.From(f.from)
	demand(o.From == ringfence.Earliest || o.From == ringfence.Latest,
		"--from %s: expected \"earliest\" or \"latest\"; to move a group that has checkpoints use \"ringfence group seek\"", storeurl.Quote(f.from))
	errs = append(errs, oneOf("print", f.print, "json", "value", "none"))
	demand(o.Retry.Initial <= 0 || o.Retry.Max <= 0 || o.Retry.Initial <= o.Retry.Max,
		"--retry-initial %s is longer than --retry-max %s: expected it to be at most that", o.Retry.Initial, o.Retry.Max)
	demand(!o.Static || o.Member != "", "--static needs --member: the ID is how the member is known again")
	if f.group != "" { // else cobra says that it is required
		errs = append(errs, registry.CheckID("--group", f.group))
	}
	if o.Member != "" {
		errs = append(errs, registry.CheckID("--member", o.Member))
	}
	if o.Assignor != "" {
		_, err := assign.ByName(o.Assignor)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Why a consume ends by itself.
var (
	errMaximum = errors.New("as many records as wanted were processed")
	errIdle    = errors.New("nothing was there to do")
)

func (a *app) consume(ctx context.Context, rf *ringfence.Client, topic string, f *consumeFlags) error {
	a.warnOfNamesake(ctx, rf, f.group)
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	process, done := a.processor(f, stop)
	defer done()
	var left unreadable
	t := pipe.NewTally(func(ctx context.Context, m *ringfence.Message) error {
		err := process(ctx, m)
		if err == nil {
			left.clear(m.Partition)
		} else if f.attempts > 0 && m.Attempt >= f.attempts && ctx.Err() == nil {
			stop(fmt.Errorf("partition %d offset %d failed %s, and was left to the next start (--max-attempts): %w", m.Partition, m.Offset, plural(m.Attempt, "time"), err))
		}
		return err
	}, f.max, func() { stop(errMaximum) })
	ev := &f.opts.Events
	ev.Trouble = left.trouble
	ev.Assigned = func(unit int, _ int64, _, _ string) {
		t.Owns()
		left.clear(unit)
	}
	ev.Revoked = func(unit int, _ int64, _ string) {
		t.Forget(unit)
		if working.Err() == nil { // it goes elsewhere; at the end it is given up as it is
			left.clear(unit)
		}
	}
	var watching sync.WaitGroup
	watching.Go(func() { t.Watch(working, f.idleExit, func() { stop(errIdle) }) }) // joined below
	if isTerminal(a.stderr) && !isTerminal(a.stdout) {
		watching.Go(func() { a.showProcessed(working, t) }) // joined below
	}
	err := rf.Consume(working, topic, f.group, t.Handle, &f.opts)
	cause := context.Cause(working) // before the end of this function gives it another
	stop(nil)
	watching.Wait()
	switch {
	case err != nil:
		return err
	case errors.Is(cause, context.DeadlineExceeded):
		return fmt.Errorf("%s processed: %w", plural(t.Processed(), "record"), cause)
	case errors.Is(cause, errIdle):
		return errors.Join(left.fault(f.group), answered(ctx, rf, f.group))
	case errors.Is(cause, errSignalled):
		return left.fault(f.group)
	case errors.Is(cause, errMaximum), errors.Is(cause, syscall.EPIPE):
		return nil
	}
	return cause
}

// answered fails when that nothing came does not mean that nothing is there: the stores do not answer, or the group is
// paused before the end.
func answered(ctx context.Context, rf *ringfence.Client, group string) error {
	g, err := rf.Admin().DescribeGroup(ctx, group)
	switch {
	case errors.Is(err, ringfence.ErrUnavailable):
		return fmt.Errorf("whether there is anything to do is not known: %w", err)
	case err == nil && g.Paused && g.Lag > 0:
		by := ""
		if g.PausedBy != "" {
			by = fmt.Sprintf(" by %q", g.PausedBy)
		}
		return fmt.Errorf("group %q is paused%s, and %s wait: \"ringfence group resume %s\" lets it go on: %w", group, by, plural(g.Lag, "record"), group, fault.NotDone)
	}
	return nil
}

// warnOfNamesake says that a group has nothing to do with the subscription of its name.
func (a *app) warnOfNamesake(ctx context.Context, rf *ringfence.Client, group string) {
	if _, err := rf.Admin().GetSubscription(ctx, group); err == nil {
		a.logger().Warn("a subscription has this name too; the group is another thing, with progress of its own", "group", group, "see", "ringfence subscription describe "+group)
	}
}

// showProcessed shows the number of records on a terminal that does not show the records, until ctx ends.
func (a *app) showProcessed(ctx context.Context, t *pipe.Tally) {
	bar, ticker := a.newProgress()
	defer ticker.Stop()
	defer bar.clear()
	for {
		select {
		case <-ticker.C:
			bar.show(t.Processed(), "records processed")
		case <-ctx.Done():
			return
		}
	}
}

// processor is what is done with a record, and how to end it; it calls stop when it can do nothing any more.
func (a *app) processor(f *consumeFlags, stop func(error)) (ringfence.Handler, func()) {
	if f.exec != "" {
		hidden := []string{envPrefix + "RECORD_KEY"} // of another record: a command may run this process, and a record may have no key
		if !f.execStores {
			hidden = append(hidden, envName("log"), envName("registry")) // which may hold passwords
		}
		x := &command.Runner{
			Command: f.exec, Environ: without(a.environ, hidden), Stdout: a.stdout.Exact(), Stderr: a.stderr.Exact(), Logger: a.logger(),
			Running: &a.children,
		}
		return a.runnable(x.Process, stop), func() {}
	}
	if f.print == "none" {
		return func(context.Context, *ringfence.Message) error { return nil }, func() {}
	}
	s := pipe.NewSink(a.records(f.print), stop)
	return func(ctx context.Context, m *ringfence.Message) error {
		line, err := printed(f.print, m)
		if err != nil {
			return err
		}
		if err = s.Write(ctx, line); err != nil {
			err = shard.Uncounted(err, time.Second) // the command ends, and the record is not to blame
		}
		return err
	}, s.Close
}

// runnable ends the process when its first command can't be run: no record will succeed. Later it may be that the
// command is being replaced.
func (a *app) runnable(run ringfence.Handler, stop func(error)) ringfence.Handler {
	var ran atomic.Bool
	return func(ctx context.Context, m *ringfence.Message) error {
		err := run(ctx, m)
		if command.NotRunnable(err) && !ran.Load() {
			stop(fmt.Errorf("--exec: the command can't be run: %w: %w", err, fault.Invalid))
			return command.NotBegun(err) // which a subscription counts as no attempt
		}
		ran.Store(true)
		return err
	}
}

// printed is a record in a form of --print.
func printed(form string, m *ringfence.Message) ([]byte, error) {
	if form == "value" {
		return append(slices.Clip(m.Value), '\n'), nil
	}
	return m.Record().Line()
}

// without is an environment without some variables.
func without(environ, names []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(names, name)
	})
}
