package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/command"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/pipe"
	"github.com/ringfence/ringfence/internal/storeurl"
	"github.com/ringfence/ringfence/internal/visible"
)

// app is one run of the command line: its streams, its settings, and what it printed.
type app struct {
	name    string // of the program; "": ringfence
	stdin   io.Reader
	stdout  *visible.Writer // what strangers wrote can't act on a terminal behind it
	stderr  *visible.Writer
	environ []string // NAME=value

	backends []ringfence.Backend // besides the built-in ones

	global   globals
	children command.Children
	screen   screen
	place    string // for commands that are advised
	plugin   bool   // what is not known is code 3, as with plugins of Nagios
	running  bool   // a command was found and its flags were accepted
}

// globals are the flags that every command has.
type globals struct {
	config     string
	data       string
	log        string
	registry   string
	durability string
	namespace  string
	shared     bool
	strictTLS  bool
	format     string
	logLevel   string
	logFormat  string
	timeout    time.Duration
}

// newApp is an app on these streams.
func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	return &app{stdin: stdin, stdout: visible.New(stdout), stderr: visible.New(stderr)}
}

// run executes one command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.rootCommand()
	root.SetArgs(nameFirst(root, args))
	err := root.ExecuteContext(ctx)
	if late := a.children.Release(); late != nil {
		a.logger().Warn("what watches over commands", "error", late)
	}
	if lost := a.stdout.Err(); lost != nil && (err == nil || !a.running && errors.Is(err, lost)) { // the writer ignored it
		if err = nil; !errors.Is(lost, syscall.EPIPE) {
			err = &exitError{fmt.Errorf("standard output: %w", lost), fault.ExitFailure}
		}
	}
	if err != nil && !errors.Is(err, errReported) {
		a.printError(err)
	}
	return a.exitCode(err)
}

// errReported marks an error whose story was told on stderr or stdout already.
var errReported = errors.New("see above")

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   a.program(),
		Short: "Ordered, fenced, parallel message processing that starts as a directory",
		Long: `Ringfence keeps ordered records in partitions and lets any number of processes share
them: each partition has one owner at a time, its progress is written under a
fencing epoch, and when an owner dies another goes on from its checkpoint.

It starts as a directory (--data) and needs no server. See it work with real
processes and a real kill -9:

  ringfence demo

Every flag can also come from the environment (RINGFENCE_DATA for --data) or from
a YAML file (--config): flags win over the environment, which wins over the file.

Exit codes: 0 ok, 1 failure, 2 usage, 3 not found, 4 conflict or fenced, 124 time-out.`,
		Example: `  ringfence topic create payments --partitions 8
  seq 1000 | ringfence produce payments
  ringfence consume payments --group billing --from earliest --idle-exit 2s
  ringfence group describe billing`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       buildVersion(),
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			err, check := a.settle(cmd), cmd.PreRunE
			if cmd.PreRunE = nil; check != nil { // so that all mistakes are told at once
				err = errors.Join(err, check(cmd, args))
			}
			return errors.Join(err, missingFlags(cmd))
		},
		RunE: a.needsSubcommand,
		Args: cobra.ArbitraryArgs,
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.CompletionOptions.HiddenDefaultCmd = false
	a.globalFlags(root)
	root.AddGroup(&cobra.Group{ID: "work", Title: "Work:"}, &cobra.Group{ID: "look", Title: "Look and steer:"}, &cobra.Group{ID: "prove", Title: "Prove and measure:"})
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
		}
		root.AddCommand(commands...)
	}
	add("work", a.topicCommand(), a.produceCommand(), a.consumeCommand(), a.subscriptionCommand(), a.serveCommand(), a.applyCommand(), a.ringCommand())
	add("look", a.statusCommand(), a.checkCommand(), a.whyCommand(), a.tailCommand(), a.groupCommand(), a.topCommand(), a.logCommand(), a.backupCommand(), a.restoreCommand())
	add("prove", a.demoCommand(), a.verifyCommand(), a.benchCommand())
	add("", a.verifyAgent(), a.benchAgent(), a.configTopic(), a.versionCommand())
	a.wrapUsage(root)
	quietHelp(root)
	a.refuseUnknown(root)
	return root
}

// program is what the user calls.
func (a *app) program() string { return cmp.Or(a.name, "ringfence") }

func (a *app) globalFlags(root *cobra.Command) {
	g, f := &a.global, root.PersistentFlags()
	f.StringVar(&g.config, "config", "", "YAML `file` with settings, see \"ringfence help config\"")
	f.StringVar(&g.data, "data", "./ringfence-data", "`directory` with records and coordination, unless --log and --registry name others")
	f.StringVar(&g.log, "log", "", "`URL` of the commit log, such as file:///var/lib/rf")
	f.StringVar(&g.registry, "registry", "", "`URL` of the coordination store, such as file:///var/lib/rf")
	f.StringVar(&g.durability, "durability", "sync", "what an acknowledged record has survived: sync (power loss) or os (kill -9)")
	f.StringVar(&g.namespace, "namespace", "", "`name` that isolates users of one registry")
	f.BoolVar(&g.shared, "allow-shared", false, "accept a data directory or database file that another user owns or can open")
	f.BoolVar(&g.strictTLS, "strict-tls", false, "refuse to send a password or token to another host without TLS")
	f.StringVar(&g.format, "format", "text", "output as text or json")
	f.StringVar(&g.logLevel, "log-level", "warn", "what is logged on stderr: debug, info, warn or error")
	f.StringVar(&g.logFormat, "log-format", "text", "lines of the log as text or json")
	f.DurationVar(&g.timeout, "timeout", 0, "give up after this `duration` with exit code 124 (0: never)")
	completeWith(root, "durability", "sync", "os")
	completeWith(root, "format", "text", "json")
	completeWith(root, "log-level", "debug", "info", "warn", "error")
	completeWith(root, "log-format", "text", "json")
	completeWith(root, "log", "file:", "mem:")
	completeWith(root, "registry", "file:", "mem:")
	completeWith(root, "namespace")
	completeWith(root, "timeout")
	_ = root.MarkPersistentFlagDirname("data")
	_ = root.MarkPersistentFlagFilename("config", "yaml", "yml")
}

// clientConfig is what the settings say about the stores.
func (a *app) clientConfig() ringfence.Config {
	return ringfence.Config{
		Dir:         a.global.data,
		Log:         a.global.log,
		Registry:    a.global.registry,
		Durability:  ringfence.Durability(a.global.durability),
		Namespace:   a.global.namespace,
		AllowShared: a.global.shared,
		StrictTLS:   a.global.strictTLS,
		Backends:    a.backends,
		Logger:      a.logger(),
	}
}

// do makes a cobra body of an action: it bounds it by --timeout and marks that usage was fine.
func (a *app) do(body func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.running = true
		ctx := cmd.Context()
		if a.global.timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, a.global.timeout)
			defer cancel()
		}
		err := a.within(ctx, grace(cmd), func() error { return body(ctx, args) })
		if errors.Is(err, errAbandoned) {
			return err
		}
		if err != nil && errors.Is(context.Cause(ctx), errSignalled) && (errors.Is(err, context.Canceled) || errors.Is(err, errSignalled)) {
			return interrupted(cmd, err)
		}
		if errors.Is(err, syscall.EPIPE) && !errors.Is(err, pipe.ErrPlacesLost) {
			return nil // the reader has seen enough (| head)
		}
		if errors.Is(err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return &exitError{fmt.Errorf("gave up after %s (--timeout): %w", a.global.timeout, err), fault.ExitTimeout}
		}
		return err
	}
}

// withClient makes a cobra body of an action on an open client. Only create makes a missing data directory.
func (a *app) withClient(create bool, body func(ctx context.Context, rf *ringfence.Client, args []string) error) func(*cobra.Command, []string) error {
	return a.do(func(ctx context.Context, args []string) error {
		return a.onClient(ctx, create, func(ctx context.Context, rf *ringfence.Client) error { return body(ctx, rf, args) })
	})
}

// onClient runs a body on an open client, see withClient.
func (a *app) onClient(ctx context.Context, create bool, body func(context.Context, *ringfence.Client) error) error {
	return onStore(ctx, a, create, ringfence.Open, body)
}

// onStore runs a body on what open opens.
func onStore[S io.Closer](ctx context.Context, a *app, create bool, open func(context.Context, ringfence.Config) (S, error), body func(context.Context, S) error) (err error) {
	c := a.clientConfig()
	c.MustExist = !create
	s, err := open(ctx, c)
	if err != nil {
		return a.whereToLook(err)
	}
	defer func() {
		if late := closed(ctx, s.Close); err == nil || !errors.Is(late, context.DeadlineExceeded) {
			err = errors.Join(err, late)
		}
	}()
	return a.whereToLook(a.guarded(ctx, func(ctx context.Context) error { return body(ctx, s) }))
}

// lastWords is how long a command waits after its --timeout for what it can't call off, such as a stopped process's lock.
const lastWords = time.Second

// closed closes a client, and leaves a close that does not end soon after --timeout to the end of the process.
func closed(ctx context.Context, closeClient func() error) error {
	deadline, bounded := ctx.Deadline()
	if !bounded {
		return closeClient()
	}
	last, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(lastWords))
	defer cancel()
	_, err := readUntil(last, func() (struct{}, error) { return struct{}{}, closeClient() })
	if last.Err() != nil && err != nil {
		err = fmt.Errorf("the stores were not closed in order: %w", err)
	}
	return err
}

// guarded runs a body until the directories that it works in are gone, which is an error whatever the body returns.
func (a *app) guarded(ctx context.Context, body func(context.Context) error) error {
	g := guard.New(a.global.data, a.global.log, a.global.registry)
	ctx, end := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { // joined below
		g.Watch(ctx, func(err error) {
			a.logger().Error("the data directory is gone; this process ends", "error", err)
			end(err)
		})
	})
	err := body(ctx)
	end(nil)
	watching.Wait()
	if gone := g.Check(); gone != nil {
		return gone
	}
	return err
}

// needsSubcommand is the body of commands that only hold others.
func (a *app) needsSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		cmd.SetOut(a.stderr)
		_ = cmd.Help() // to stderr, which may be closed
		return fmt.Errorf("%q needs a command: %w: %w", cmd.CommandPath(), errReported, fault.Invalid)
	}
	return unknownCommand(cmd, args[0])
}

// unknownCommand says that cmd has no command of that name, and which one may have been meant.
func unknownCommand(cmd *cobra.Command, word string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(append(names, c.Name()), c.Aliases...)
		}
	}
	msg := fmt.Sprintf("unknown command %s for %q", storeurl.Quote(word), cmd.CommandPath())
	if near := nearest(word, names); near != "" {
		msg += "; did you mean " + near + "?"
	} else {
		msg += fmt.Sprintf("; see %q", cmd.CommandPath()+" --help")
	}
	return fmt.Errorf("%s: %w", msg, fault.Invalid)
}

// refuseUnknown makes unknown words an error of cobra's own commands: they print help on stdout, which shells evaluate.
func (a *app) refuseUnknown(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			c.Args, c.RunE = cobra.ArbitraryArgs, a.needsSubcommand
		case "help":
			show := c.Run
			c.Run = nil
			c.RunE = func(cmd *cobra.Command, args []string) error {
				found, rest, err := root.Find(args)
				if err != nil || found.HasSubCommands() && len(rest) > 0 {
					return a.needsSubcommand(found, rest)
				}
				show(cmd, args)
				return nil
			}
		}
	}
}
