package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/benchkit"
)

const benchAgentName = "bench-agent"

func (a *app) benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure this machine: produce, consume, latency, failover, assign",
		Long: `Measure Ringfence on this machine and disk.

Machines drift, so each command measures a raw peer (the same bytes with bare
system calls) in turn with Ringfence, for several rounds, and prints medians and
the median of the ratios of each round. Everything happens in a temporary
directory below --dir, which must be on the disk that is to be measured; --data
is not touched.`,
		Example: `  ringfence bench produce --in-flight 1,16,256
  ringfence bench failover --kills 100
  ringfence bench latency --rate 1000 --format json`,
		RunE: a.needsSubcommand,
		Args: cobra.ArbitraryArgs,
	}
	cmd.AddCommand(a.benchProduce(), a.benchConsume(), a.benchLatency(), a.benchFailover(), a.benchAssign())
	return cmd
}

// benchAgent is the hidden command that the other processes of a measurement run.
func (a *app) benchAgent() *cobra.Command {
	return &cobra.Command{Use: benchAgentName, Hidden: true, Args: cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			return benchkit.Agent(ctx, args[0], a.stdin, a.stdout)
		})}
}

// measurement makes the command of one measurement. common is where its common flags go.
func (a *app) measurement(use, short string, common *benchkit.Common, flags func(*pflag.FlagSet), run func(context.Context) (*benchkit.Result, error)) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs}
	fl := cmd.Flags()
	fl.StringVar(&common.Dir, "dir", ".", "`directory` in which a temporary one is made")
	flags(fl)
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("the path of this program: %w", err)
		}
		common.Command = []string{self, benchAgentName}
		p, ticker := a.newProgress()
		ticker.Stop()
		common.Logf = func(format string, args ...any) { fmt.Fprintf(p.w, format+"\n", args...) }
		res, err := run(ctx)
		if err != nil {
			return err
		}
		var bad error
		err = a.emit(res, func(r *report) { bad = res.Text(r) })
		if bad != nil {
			return bad
		}
		return err
	})
	return cmd
}

func roundFlags(fl *pflag.FlagSet, c *benchkit.Common) {
	fl.IntVar(&c.Rounds, "rounds", 5, "rounds of each measurement, taken in turn")
	fl.DurationVar(&c.For, "for", time.Second, "`time` of one measurement in one round")
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
		fl.IntVar(&c.Partitions, "partitions", 1, "partitions that the appends are spread over")
		fl.IntVar(&c.Size, "size", 100, "`bytes` of a record's value")
		fl.IntVar(&c.Batch, "batch", 1, "records of one append")
		fl.IntVar(&c.Processes, "processes", 1, "producer processes")
	}, func(ctx context.Context) (*benchkit.Result, error) {
		c.Durability = a.benchDurability()
		return benchkit.Produce(ctx, c)
	})
}

func (a *app) benchConsume() *cobra.Command {
	var c benchkit.ConsumeConfig
	return a.measurement("consume", "Records read and handled a second, with the memory that takes", &c.Common, func(fl *pflag.FlagSet) {
		fl.IntVar(&c.Rounds, "rounds", 5, "rounds of each measurement, taken in turn")
		fl.IntVar(&c.Records, "records", 2_000_000, "records to read")
		fl.IntVar(&c.Size, "size", 100, "`bytes` of a record's value")
		fl.IntVar(&c.Keys, "keys", 1000, "different keys (-1: records without one)")
		fl.IntVar(&c.Interleaved, "interleaved", 16, "partitions of a second topic that is read one partition of (-1: leave it out)")
		fl.IntVar(&c.Concurrency, "concurrency", 0, "handlers at the same time (0: the default of consume)")
	}, func(ctx context.Context) (*benchkit.Result, error) { return benchkit.Consume(ctx, c) })
}

func (a *app) benchLatency() *cobra.Command {
	var c benchkit.LatencyConfig
	return a.measurement("latency", "From produce to the handler in another process", &c.Common, func(fl *pflag.FlagSet) {
		roundFlags(fl, &c.Common)
		fl.IntVar(&c.Rate, "rate", 1000, "records a second")
		fl.IntVar(&c.Size, "size", 100, "`bytes` of a record's value")
	}, func(ctx context.Context) (*benchkit.Result, error) { return benchkit.Latency(ctx, c) })
}

func (a *app) benchFailover() *cobra.Command {
	var c benchkit.FailoverConfig
	return a.measurement("failover", "How long partitions stand still at kill -9 and at clean moves", &c.Common, func(fl *pflag.FlagSet) {
		fl.IntVar(&c.Kills, "kills", 20, "consumer processes to kill, one after another")
		fl.IntVar(&c.Leaves, "leaves", 5, "consumer processes that leave cleanly (-1: none)")
		fl.IntVar(&c.Partitions, "partitions", 8, "partitions")
		fl.IntVar(&c.Processes, "processes", 3, "consumer processes")
		fl.IntVar(&c.Rate, "rate", 2000, "records produced a second")
		fl.DurationVar(&c.SessionTTL, "session-ttl", 5*time.Second, "after this `time` a silent member is dead; a killed one is noticed earlier")
	}, func(ctx context.Context) (*benchkit.Result, error) {
		c.Durability = a.benchDurability()
		return benchkit.Failover(ctx, c)
	})
}

func (a *app) benchAssign() *cobra.Command {
	var c benchkit.AssignConfig
	return a.measurement("assign", "Time and moves of the assignors", &c.Common, func(fl *pflag.FlagSet) {
		fl.IntVar(&c.Rounds, "rounds", 5, "rounds of each measurement, taken in turn")
		fl.IntVar(&c.Units, "units", 10000, "partitions to share")
		fl.IntVar(&c.Members, "members", 1000, "members to share them")
	}, func(ctx context.Context) (*benchkit.Result, error) { return benchkit.Assign(ctx, c) })
}
