package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/benchkit"
	"github.com/ringfence/ringfence/internal/fault"
)

const benchAgentName = "bench-agent"

func (a *app) benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure this machine: produce, consume, latency, failover and more",
		Long: `Measure Ringfence on this machine and disk.

Machines drift, so each command measures a raw peer (the same bytes with bare
system calls) in turn with Ringfence, for several rounds, and prints medians and
the median of the ratios of each round. Where the project promises a figure for
what is measured, it stands below with what is required, and with ok or MISSED;
--strict makes a missed one exit code 1. Everything happens in a temporary
directory below --dir, which must be on the disk that is to be measured; --data
is not touched. With --log or --registry, produce, consume, latency, failover,
registry and idle measure that store, in a namespace of their own that they
remove in the end.`,
		Example: `  ringfence bench all                       every promised figure; some minutes
  ringfence bench produce --in-flight 256 --partitions 16,64,256
  ringfence bench produce --in-flight 4,256 --processes 4
  ringfence bench failover --registry postgres://localhost/rf
  ringfence bench latency --rate 1000 --format json`,
		RunE: a.needsSubcommand,
		Args: cobra.ArbitraryArgs,
	}
	cmd.AddCommand(a.benchAll(), a.benchProduce(), a.benchConsume(), a.benchLatency(), a.benchReopen(), a.benchFailover(),
		a.benchRegistry(), a.benchAssign(), a.benchSwitch(), a.benchRoute(), a.benchRing(), a.benchIdle(), a.benchMemory())
	return cmd
}

// benchAgent is the hidden command that the other processes of a measurement run.
func (a *app) benchAgent() *cobra.Command {
	return &cobra.Command{Use: benchAgentName, Hidden: true, Args: cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			return benchkit.Agent(ctx, a.stores(), args[0], a.stdin, a.stdout.Exact())
		})}
}

// stores are those that a measurement works on besides its directory.
func (a *app) stores() benchkit.Stores {
	return benchkit.Stores{Log: a.global.log, Registry: a.global.registry, Namespace: a.global.namespace, Backends: a.backends}
}

// outcome is what a measurement brings.
type outcome interface {
	Text(io.Writer) error
	Missed() int
}

var errMissed = errors.New("a promised figure was missed")

// measurement makes the command of one measurement. common is where its common flags go.
func (a *app) measurement(use, short string, common *benchkit.Common, flags func(*pflag.FlagSet), run func(context.Context) (outcome, error)) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs}
	fl := cmd.Flags()
	fl.StringVar(&common.Dir, "dir", ".", "`directory` in which a temporary one is made")
	strict := fl.Bool("strict", false, "exit with 1 when a promised figure is missed")
	flags(fl)
	a.checkedBy(cmd, func() error { return checkCounts(fl) })
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("the path of this program: %w", err)
		}
		common.Stores = a.stores()
		common.Command = []string{self, benchAgentName}
		p, ticker := a.newProgress()
		ticker.Stop()
		common.Logf = func(format string, args ...any) { fmt.Fprintf(p.w, format+"\n", args...) }
		res, err := run(ctx)
		if err != nil {
			return err
		}
		var bad error
		if err := a.emit(res, func(r *report) { bad = res.Text(r) }); err != nil || bad != nil {
			return errors.Join(bad, err)
		}
		if n := res.Missed(); *strict && n > 0 {
			return fmt.Errorf("%d: %w", n, errMissed)
		}
		return nil
	})
	return cmd
}

// checkCounts refuses a 0 where it would mean the default: who asks for no round at all does not
// want five. What takes a 0 says so in its help.
func checkCounts(fl *pflag.FlagSet) error {
	var errs []error
	fl.VisitAll(func(f *pflag.Flag) {
		none := f.Value.Type() == "int" && f.Value.String() == "0" || f.Value.Type() == "duration" && f.Value.String() == "0s"
		if f.Changed && none && f.Name != "timeout" && !strings.Contains(f.Usage, "(0:") {
			errs = append(errs, fmt.Errorf("--%s %s: expected more than that: %w", f.Name, f.Value, fault.Invalid))
		}
	})
	return errors.Join(errs...)
}

func roundFlags(fl *pflag.FlagSet, c *benchkit.Common) {
	fl.IntVar(&c.Rounds, "rounds", 5, "rounds of each measurement, taken in turn")
	fl.DurationVar(&c.For, "for", time.Second, "time of one measurement in one round")
}

func (a *app) benchDurability() ringfence.Durability {
	return ringfence.Durability(a.global.durability)
}

func (a *app) benchProduce() *cobra.Command {
	var c benchkit.ProduceConfig
	return a.measurement("produce", "Appends a second against raw synced writes", &c.Common, func(fl *pflag.FlagSet) {
		roundFlags(fl, &c.Common)
		fl.IntSliceVar(&c.InFlight, "in-flight", []int{1, 16, 256}, "appends under way at once, in all processes together")
		fl.IntVar(&c.Async, "async", 4096, "`window` of one goroutine that does not wait (-1: leave it out)")
		fl.IntSliceVar(&c.Partitions, "partitions", []int{1}, "partitions that the appends are spread over, each compared with one")
		fl.IntVar(&c.Size, "size", 100, "`bytes` of a record's value")
		fl.IntVar(&c.Batch, "batch", 1, "records of one append")
		fl.IntVar(&c.Processes, "processes", 1, "producer processes")
	}, func(ctx context.Context) (outcome, error) {
		c.Durability = a.benchDurability()
		return measured(benchkit.Produce(ctx, c))
	})
}

func (a *app) benchConsume() *cobra.Command {
	var c benchkit.ConsumeConfig
	return a.measurement("consume", "Records read and handled a second", &c.Common, func(fl *pflag.FlagSet) {
		roundFlags(fl, &c.Common)
		fl.IntVar(&c.Records, "records", 2_000_000, "records of each topic")
		fl.IntVar(&c.Size, "size", 100, "`bytes` of a record's value")
		fl.IntVar(&c.Keys, "keys", 1000, "different keys (-1: records without one)")
		fl.IntVar(&c.Interleaved, "interleaved", 16, "partitions of a second topic that is read one partition of (-1: leave it out)")
		fl.IntVar(&c.Partitions, "partitions", 8, "partitions of a third topic, for the handlers (-1: leave it out)")
		fl.IntVar(&c.Concurrency, "concurrency", 0, "handlers at the same time (0: the default of consume)")
	}, func(ctx context.Context) (outcome, error) { return measured(benchkit.Consume(ctx, c)) })
}

func (a *app) benchLatency() *cobra.Command {
	var c benchkit.LatencyConfig
	return a.measurement("latency", "From produce to the handler in another process", &c.Common, func(fl *pflag.FlagSet) {
		roundFlags(fl, &c.Common)
		fl.IntVar(&c.Rate, "rate", 1000, "records a second")
		fl.IntVar(&c.Size, "size", 100, "`bytes` of a record's value")
	}, func(ctx context.Context) (outcome, error) { return measured(benchkit.Latency(ctx, c)) })
}

func (a *app) benchFailover() *cobra.Command {
	var c benchkit.FailoverConfig
	return a.measurement("failover", "How long partitions stand still at kill -9 and at clean moves", &c.Common, func(fl *pflag.FlagSet) {
		fl.IntVar(&c.Kills, "kills", 100, "consumer processes to kill, one after another")
		fl.IntVar(&c.Leaves, "leaves", 20, "consumer processes that leave cleanly (-1: none)")
		fl.IntVar(&c.Partitions, "partitions", 8, "partitions")
		fl.IntVar(&c.Processes, "processes", 3, "consumer processes")
		fl.IntVar(&c.Rate, "rate", 4000, "records produced a second")
		fl.DurationVar(&c.SessionTTL, "session-ttl", 0, "after this `time` a silent member is dead; a killed one is noticed earlier (0: 5s; 2s on etcd)")
	}, func(ctx context.Context) (outcome, error) {
		c.Durability = a.benchDurability()
		return measured(benchkit.Failover(ctx, c))
	})
}

func (a *app) benchRegistry() *cobra.Command {
	var c benchkit.RegistryConfig
	return a.measurement("registry", "Fenced checkpoints a second, and how soon others see a change", &c.Common, func(fl *pflag.FlagSet) {
		roundFlags(fl, &c.Common)
		fl.IntVar(&c.Units, "units", 1024, "units whose checkpoints are written")
		fl.IntVar(&c.Batch, "batch", 256, "checkpoints of one call")
		fl.IntVar(&c.Callers, "callers", 4, "callers at the same time")
	}, func(ctx context.Context) (outcome, error) { return measured(benchkit.Registry(ctx, c)) })
}

func (a *app) benchAssign() *cobra.Command {
	var c benchkit.AssignConfig
	return a.measurement("assign", "Time and moves of the assignors", &c.Common, func(fl *pflag.FlagSet) {
		fl.IntVar(&c.Rounds, "rounds", 5, "rounds of each measurement, taken in turn")
		fl.IntVar(&c.Units, "units", 10000, "partitions to share")
		fl.IntVar(&c.Members, "members", 1000, "members to share them")
	}, func(ctx context.Context) (outcome, error) { return measured(benchkit.Assign(ctx, c)) })
}

func (a *app) benchRing() *cobra.Command {
	var c benchkit.RingConfig
	return a.measurement("ring", "Lookups of a ring, keys that move, and how soon members see a change", &c.Common, func(fl *pflag.FlagSet) {
		roundFlags(fl, &c.Common)
		fl.IntVar(&c.Keys, "keys", 1_000_000, "keys that one member more or less is asked about")
		fl.IntVar(&c.Members, "members", 100, "members of the ring that is asked")
		fl.IntVar(&c.Others, "others", 3, "members that see one join and leave")
		fl.IntVar(&c.Changes, "changes", 20, "joins and leaves of a round")
	}, func(ctx context.Context) (outcome, error) { return measured(benchkit.Ring(ctx, c)) })
}

func (a *app) benchSwitch() *cobra.Command {
	var c benchkit.SwitchConfig
	return a.measurement("switch", "How long producers stand still when a topic is switched", &c.Common, func(fl *pflag.FlagSet) {
		fl.IntVar(&c.Rounds, "rounds", 5, "switches")
		fl.DurationVar(&c.For, "for", time.Second, "time between two switches")
		fl.IntVar(&c.Records, "records", 0, "switch so that about so many records are spread over the storage topics, whatever time it takes (0: by --for)")
		fl.IntVar(&c.Processes, "processes", 4, "producer processes")
		fl.IntVar(&c.Partitions, "partitions", 8, "partitions of each storage topic")
		fl.IntVar(&c.Keys, "keys", 100, "keys of each process")
		fl.IntVar(&c.InFlight, "in-flight", 256, "records of each process under way at once")
		fl.IntVar(&c.Size, "size", 100, "`bytes` of a record's value")
	}, func(ctx context.Context) (outcome, error) {
		c.Durability = a.benchDurability()
		return measured(benchkit.Switch(ctx, c))
	})
}

func (a *app) benchRoute() *cobra.Command {
	var c benchkit.RouteConfig
	return a.measurement("route", "Time to find the partition of a key", &c.Common, func(fl *pflag.FlagSet) {
		fl.IntVar(&c.Rounds, "rounds", 5, "rounds of each measurement, taken in turn")
		fl.DurationVar(&c.For, "for", 100*time.Millisecond, "time of one measurement in one round")
		fl.IntVar(&c.Partitions, "partitions", 24, "partitions of the storage topic")
		fl.IntVar(&c.K, "k", 3, "how many times its base they are")
		fl.IntVar(&c.KeySize, "key-size", 16, "`bytes` of a key")
	}, func(ctx context.Context) (outcome, error) { return measured(benchkit.Route(ctx, c)) })
}

func (a *app) benchAll() *cobra.Command {
	var c benchkit.AllConfig
	return a.measurement("all", "Every figure that the project promises, in one table", &c.Common, func(fl *pflag.FlagSet) {
		roundFlags(fl, &c.Common)
		fl.IntVar(&c.Records, "records", 2_000_000, "records to consume; reopening takes 2.5, memory 5 times as many")
		fl.IntVar(&c.Kills, "kills", 100, "consumer processes to kill")
	}, func(ctx context.Context) (outcome, error) { return measured(benchkit.All(ctx, c)) })
}

func (a *app) benchReopen() *cobra.Command {
	var c benchkit.ReopenConfig
	return a.measurement("reopen", "From kill -9 of the writer to the next acknowledged record", &c.Common, func(fl *pflag.FlagSet) {
		fl.IntVar(&c.Rounds, "rounds", 5, "kills for each size of the log, taken in turn")
		fl.IntVar(&c.Records, "records", 5_000_000, "records in the log; a tenth of them is measured too")
		fl.IntVar(&c.Size, "size", 100, "`bytes` of a record's value")
	}, func(ctx context.Context) (outcome, error) { return measured(benchkit.Reopen(ctx, c)) })
}

func (a *app) benchIdle() *cobra.Command {
	var c benchkit.IdleConfig
	return a.measurement("idle", "Processor time of a group that has nothing to do", &c.Common, func(fl *pflag.FlagSet) {
		roundFlags(fl, &c.Common)
		fl.IntVar(&c.Partitions, "partitions", 64, "partitions")
		fl.IntVar(&c.Processes, "processes", 3, "consumer processes")
	}, func(ctx context.Context) (outcome, error) { return measured(benchkit.Idle(ctx, c)) })
}

func (a *app) benchMemory() *cobra.Command {
	var c benchkit.MemoryConfig
	return a.measurement("memory", "Memory of a consumer and of an open log, as the backlog grows", &c.Common, func(fl *pflag.FlagSet) {
		roundFlags(fl, &c.Common)
		fl.IntVar(&c.Records, "records", 10_000_000, "records to consume; a tenth of them is measured too")
		fl.IntSliceVar(&c.Partitions, "partitions", []int{1, 16, 64}, "active partitions of an open log")
	}, func(ctx context.Context) (outcome, error) { return measured(benchkit.Memory(ctx, c)) })
}

// measured makes an outcome of a result; a missing one stays nil.
func measured[R outcome](r R, err error) (outcome, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}
