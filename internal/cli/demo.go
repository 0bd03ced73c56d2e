package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/internal/verify"
)

func (a *app) demoCommand() *cobra.Command {
	var c verify.DemoConfig
	var deliver bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch real processes share work, die and take over, and check the result",
		Long: `Start several consumer processes on the partitions of a topic, kill one with kill -9,
bring it back, stop another beyond its lease and wake it up, all under load. Every
process writes a history. At the end an independent checker reads all histories and
says what was delivered, duplicated, lost and reordered. When a promise was broken,
the exit code is 1.

Without --data, --log and --registry it runs in a temporary directory, which is
removed afterwards unless --keep is given.

With --deliver the story is that of a subscription: daemons ("ringfence serve")
deliver to an HTTP endpoint that fails, is killed and comes back; a daemon is killed
with kill -9, the shards change from 4 to 6, and the dead letter is redriven.`,
		Example: `  ringfence demo
  ringfence demo --deliver
  ringfence demo --partitions 32 --consumers 5 --messages 100000
  ringfence demo --keep --format json`,
	}
	fl := cmd.Flags()
	fl.IntVarP(&c.Partitions, "partitions", "p", 8, "`number` of partitions")
	fl.IntVar(&c.Consumers, "consumers", 3, "`number` of consumer processes, A, B, C and so on")
	fl.IntVar(&c.Messages, "messages", 12000, "`number` of records")
	fl.BoolVar(&c.Keep, "keep", false, "leave the directory (or, in given stores, the topic and the group) behind")
	fl.BoolVar(&deliver, "deliver", false, "tell the story of a subscription, its endpoint and its dead letters")
	for _, name := range []string{"partitions", "consumers", "messages"} {
		cmd.MarkFlagsMutuallyExclusive("deliver", name)
	}
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		if deliver {
			return a.demo(ctx, cmd, &c, demoDeliver)
		}
		return a.demo(ctx, cmd, &c, demoGroup)
	})
	return cmd
}

// demo tells a story in a directory of its own.
func (a *app) demo(ctx context.Context, cmd *cobra.Command, c *verify.DemoConfig, story func(context.Context, *verify.DemoConfig) (any, *verify.DemoOutcome, error)) (err error) {
	if err := a.notInMemory(); err != nil {
		return err
	}
	site, dir, err := a.site(cmd)
	if err != nil {
		return err
	}
	if c.Keep {
		fmt.Fprintln(a.stderr, "everything stays in "+a.stderr.Line(dir))
	} else {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	site.Keep = c.Keep
	c.Site = site
	c.Daemon = func() (string, []string, []string) {
		binary, _, env := site.Command(verify.Spec{})
		return binary, append(a.storeArgs(c.Client), "serve", "--timeout=0", "--allow-net=127.0.0.0/8", "--session-ttl=1s"), env
	}
	if a.global.format == "text" {
		c.Out = a.stdout
		if a.colours(a.stdout) {
			c.Control = a.stdout.Control
		}
	}
	result, out, err := story(ctx, c)
	if err != nil && !errors.Is(err, verify.ErrBroken) {
		return err
	}
	if printErr := emit(a, result, func(r *report, _ any) { demoEnd(r, out) }); printErr != nil {
		return errors.Join(err, printErr)
	}
	if err != nil && a.global.format == "text" {
		return fmt.Errorf("%w: %w", errReported, err)
	}
	return err
}

func demoGroup(ctx context.Context, c *verify.DemoConfig) (any, *verify.DemoOutcome, error) {
	r, err := verify.Demo(ctx, *c)
	return r, &r.DemoOutcome, err
}

// demoDeliver works in a namespace of its own: its daemons deliver all that is there.
func demoDeliver(ctx context.Context, c *verify.DemoConfig) (any, *verify.DemoOutcome, error) {
	c.Client.Namespace = strings.Trim(c.Client.Namespace+"-demo-"+strconv.FormatInt(int64(os.Getpid()), 36), "-")
	r, err := verify.DemoDeliver(ctx, *c)
	return r, &r.DemoOutcome, err
}

func demoEnd(r *report, d *verify.DemoOutcome) {
	if len(d.Broken) == 0 {
		r.line("\n%s after %.1f s: no record lost, skipped or reordered.", r.paint(green, "Every promise was kept"), d.Seconds)
		return
	}
	r.line("\n%s; see above.", r.paint(red, "Promises were broken"))
}
