package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/demo"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/harness"
)

// demoMemberName is the hidden command of the demo's consumer processes.
const demoMemberName = "demo-member"

type demoFlags struct {
	partitions int
	consumers  int
	messages   int
	inProcess  bool
	keep       bool
	deliver    bool
}

func (a *app) demoCommand() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch real processes share work, die and take over, and check the result",
		Long: `Start several consumer processes on the partitions of a topic, kill one with kill -9,
bring it back, stop another beyond its lease and wake it up, all under load. Every
process writes a history of what it did; at the end an independent checker reads them
and says what was delivered, duplicated, lost and reordered. The exit code is 1 when
any promise was broken.

Without --data, --log and --registry it runs in a temporary directory, which is
removed afterwards unless --keep is given. With --in-process the consumers are
goroutines on a registry in memory, and crashes are played: a killed member is cut
off and abandoned.

With --deliver the story is that of a subscription: daemons ("ringfence serve") deliver to
an HTTP endpoint that fails, is killed and comes back; a daemon is killed with kill -9, the
shards change from 4 to 6 meanwhile, and what became a dead letter is redriven.`,
		Example: `  ringfence demo
  ringfence demo --deliver
  ringfence demo --partitions 32 --consumers 5 --messages 100000
  ringfence demo --keep --format json`,
		Args: cobra.NoArgs,
	}
	fl := cmd.Flags()
	fl.IntVarP(&f.partitions, "partitions", "p", 8, "`number` of partitions")
	fl.IntVar(&f.consumers, "consumers", 3, "`number` of consumer processes, A, B, C and so on")
	fl.IntVar(&f.messages, "messages", 12000, "`number` of records")
	fl.BoolVar(&f.inProcess, "in-process", false, "consumers are goroutines, not processes; crashes are played")
	fl.BoolVar(&f.keep, "keep", false, "leave the directory (or, in given stores, the topic and the group) behind")
	fl.BoolVar(&f.deliver, "deliver", false, "tell the story of a subscription, its endpoint and its dead letters")
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		if err := f.checkDeliver(cmd); err != nil {
			return err
		}
		logger := a.logger()
		if !cmd.Flags().Changed("log-level") {
			logger = nil // what is lost and won is part of the story
		}
		return a.demo(ctx, f, cmd.Flags().Changed("data"), logger)
	})
	return cmd
}

func (a *app) demo(ctx context.Context, f demoFlags, named bool, logger *slog.Logger) (err error) {
	client := a.clientConfig()
	for _, u := range []*string{&client.Log, &client.Registry} {
		if !strings.HasPrefix(*u, "mem:") {
			continue
		}
		if !f.inProcess {
			return fmt.Errorf("mem: is the memory of one process, which others can't share; expected another URL, or --in-process: %w", fault.Invalid)
		}
		*u = "" // what the consumers in one process have anyway
	}
	if f.inProcess && client.Registry != "" {
		return fmt.Errorf("--in-process plays crashes on a registry in memory; expected no --registry: %w", fault.Invalid)
	}
	fresh := !named && client.Log == "" && client.Registry == ""
	dir, err := os.MkdirTemp("", "ringfence-demo-")
	if err != nil {
		return fmt.Errorf("demo directory: %w", err)
	}
	if f.keep {
		fmt.Fprintln(a.stderr, "everything stays in "+a.stderr.Line(dir))
	} else {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	if !named {
		client.Dir = filepath.Join(dir, "data")
	}
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("the demo runs this binary again, but can't find it: %w", err)
	}
	c := demo.Config{
		Partitions: f.partitions, Consumers: f.consumers, Messages: f.messages,
		InProcess: f.inProcess, Fresh: fresh || f.inProcess, Keep: f.keep,
		Client: client, Dir: dir, Binary: binary, Logger: logger,
		MemberArgs: func(s demo.MemberSpec) []string { return a.demoMemberArgs(client, s) },
		MemberEnv:  a.storeEnv(client),
	}
	if a.global.format == "text" {
		c.Out = a.stdout
		if a.colours(a.stdout) {
			c.Control = a.stdout.Control
		}
	}
	if f.deliver {
		return a.demoDeliver(ctx, c)
	}
	result, err := demo.Run(ctx, c)
	if err != nil && !errors.Is(err, demo.ErrBroken) {
		return err
	}
	if printErr := a.emit(result, func(r *report) { demoEnd(r, result) }); printErr != nil {
		return errors.Join(err, printErr)
	}
	if err != nil && a.global.format == "text" {
		return fmt.Errorf("%w: %w", errReported, err)
	}
	return err
}

func demoEnd(r *report, d *demo.Result) {
	if len(d.Broken) == 0 {
		r.line("\n%s after %.1f s: no record lost, skipped or reordered.", r.paint(green, "Every promise was kept"), d.Seconds)
		return
	}
	r.line("\n%s; see above.", r.paint(red, "Promises were broken"))
}

// demoMemberArgs is the command line of a consumer process on the same stores; the environment
// tells their URLs.
func (a *app) demoMemberArgs(c ringfence.Config, s demo.MemberSpec) []string {
	return append(a.storeArgs(c), demoMemberName,
		"--member="+s.Name, "--topic="+s.Topic, "--group="+s.Group, "--history="+s.History,
		"--session-ttl="+s.TTL.String(), "--work="+s.Work.String(), "--parent="+strconv.Itoa(os.Getpid()),
	)
}

// demoMember is the hidden command that a consumer process of the demo runs.
func (a *app) demoMember() *cobra.Command {
	var s demo.MemberSpec
	var parent int
	cmd := &cobra.Command{Use: demoMemberName, Hidden: true, Args: cobra.NoArgs}
	fl := cmd.Flags()
	fl.StringVar(&s.Name, "member", "", "")
	fl.StringVar(&s.Topic, "topic", "", "")
	fl.StringVar(&s.Group, "group", "", "")
	fl.StringVar(&s.History, "history", "", "")
	fl.DurationVar(&s.TTL, "session-ttl", time.Second, "")
	fl.DurationVar(&s.Work, "work", time.Millisecond, "")
	fl.IntVar(&parent, "parent", 0, "")
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		if parent != 0 && os.Getppid() != parent {
			return errors.New("the demo that started this consumer is gone")
		}
		rf, err := ringfence.Open(ctx, a.clientConfig())
		if err != nil {
			return err
		}
		return harness.ServeProcess(ctx, harness.MemberConfig{
			Name: s.Name, Topic: s.Topic, Group: s.Group, TTL: s.TTL, Work: s.Work,
			Logger: a.logger(), Log: rf.Log(), Store: rf.Registry(), Namespace: rf.Namespace(), // closed by the member
		}, s.History)
	})
	return cmd
}
