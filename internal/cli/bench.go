package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/measure"
)

const benchAgentName = "bench-agent"

func (a *app) benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure this machine: produce, consume, latency, failover and more",
		Long: `Measure Ringfence on this machine and disk.

Machines drift, so each command measures a raw peer (the same bytes with bare
system calls) in turn with Ringfence, for several rounds, and prints medians and
the median of the ratios of each round. Below stands each figure that the
project promises, with what is required and ok or MISSED; with --strict, a
missed figure ends the command with exit code 1.

Each command works in a temporary directory below --dir; choose one on the disk
that you want to measure. It does not touch --data. With --log or --registry,
produce, consume, latency, failover, registry and idle measure that store, in a
namespace of their own that they remove at the end.`,
		Example: `  ringfence bench all                       every promised figure; some minutes
  ringfence bench produce --in-flight 256 --partitions 16,64
  ringfence bench produce --in-flight 4,256 --processes 4
  ringfence bench failover --registry postgres://localhost/rf
  ringfence bench latency --rate 1000 --format json`,
	}
	var all []*cobra.Command
	for _, b := range measure.Benches() {
		all = append(all, a.benchOf(b))
	}
	return a.holder(cmd, nil, all...)
}

// benchAgent is the hidden command that the other processes of a measurement run.
func (a *app) benchAgent() *cobra.Command {
	return &cobra.Command{Use: benchAgentName, Hidden: true, Args: cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			return measure.Agent(ctx, a.stores(), args[0], a.stdin, a.stdout.Exact())
		})}
}

// stores are those that a measurement works on besides its directory.
func (a *app) stores() measure.Stores {
	return measure.Stores{Log: a.global.log, Registry: a.global.registry, Namespace: a.global.namespace, Backends: a.backends}
}

var errMissed = errors.New("a promised figure was missed")

// benchOf makes the command of one measurement.
func (a *app) benchOf(b *measure.Bench) *cobra.Command {
	cmd := &cobra.Command{Use: b.Name, Short: b.Short}
	strict := cmd.Flags().Bool("strict", false, "exit with 1 when a promised figure is missed")
	b.Flags(cmd.Flags())
	cmd.PreRunE = checked(func() error {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("the path of this program: %w", err)
		}
		b.Command, b.Stores, b.Durability = []string{self, benchAgentName}, a.stores(), ringfence.Durability(a.global.durability)
		return b.Validate()
	})
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		p, ticker := a.newProgress()
		ticker.Stop()
		b.Logf = func(format string, args ...any) { fmt.Fprintf(p.w, format+"\n", args...) }
		res, err := b.Run(ctx)
		if err != nil {
			return err
		}
		var bad error
		if err := emit(a, res, func(r *report, _ *measure.Report) { bad = res.Text(r) }); err != nil || bad != nil {
			return errors.Join(bad, err)
		}
		if n := res.Missed(); *strict && n > 0 {
			return fmt.Errorf("%d: %w", n, errMissed)
		}
		return nil
	})
	return cmd
}
