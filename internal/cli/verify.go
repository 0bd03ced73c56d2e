package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
	"github.com/ringfence/ringfence/internal/verify"
)

// verifyAgentName is the hidden command of the processes that verify starts.
const verifyAgentName = "verify-agent"

// noFaults is the value of --faults that asks for none.
const noFaults = "none"

func (a *app) verifyCommand() *cobra.Command {
	var c verify.Config
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Put your stores under load and faults, and judge what became of every record",
		Long: `Run producer and consumer processes on a topic and a group of their own while faults
hurt them. All of them write histories, and a judge says from these whether every
promise was kept: no acknowledged record is lost, stored twice or skipped, the records
of a key are processed in order, and a replaced owner can't write any more. At the end
all records that are stored are read again, which finds damage at rest. When a promise
was broken, the exit code is 1, and everything is kept as evidence.

The faults are kill (kill -9), stop (SIGSTOP for longer than a session lives), term
(a clean leave), grow (another storage topic while producers and consumers run) and
retire (finished storage topics are removed; records are kept for a second then).
The whole schedule follows from --seed, which is printed.

With --subscriptions the consumers deliver a subscription. A tenth of the attempts
fail, and some records fail for good until the dead letters are redriven at the end.
The fault reshard (another number of shards) takes the place of retire. The judge
reads what the handlers took: no record is lost or skipped, the first deliveries of
each key are in order, and each record that failed for good is one dead letter.

Without --data, --log and --registry it runs in a temporary directory, else on the
stores that they name. Topic and group have unique names and are removed at the end,
also after an interrupt; nothing else is touched. A minute at the default rate writes
some 60 MB of histories to the temporary directory.`,
		Example: `  ringfence verify
  ringfence verify --for 10m --faults kill,stop
  ringfence verify --subscriptions
  ringfence verify --log kafka://localhost:9092 --registry postgres://localhost/rf
  ringfence verify --seed 4711 --format json`,
	}
	fl := cmd.Flags()
	fl.DurationVar(&c.For, "for", time.Minute, "`time` of load and faults; to process the rest comes on top")
	fl.StringSliceVar(&c.Faults, "faults", verify.Faults(), "`kinds` of faults: kill, stop, term, grow, retire (with --subscriptions reshard in its place), or none")
	fl.BoolVar(&c.Subscriptions, "subscriptions", false, "let the consumers deliver a subscription")
	fl.Uint64Var(&c.Seed, "seed", 0, "`number` that the schedule of the faults follows from (0: any)")
	fl.IntVarP(&c.Partitions, "partitions", "p", 8, "`number` of partitions; grow doubles it, three times at most")
	fl.IntVar(&c.Consumers, "consumers", 3, "`number` of consumer processes")
	fl.IntVar(&c.Producers, "producers", 2, "`number` of producer processes; the first, third and so on is idempotent")
	fl.IntVar(&c.Keys, "keys", 200, "`number` of keys")
	fl.IntVar(&c.Rate, "rate", 1000, "records produced a second, by all `producers` together")
	fl.IntVar(&c.Size, "size", 100, "`bytes` of a record's value")
	fl.DurationVar(&c.TTL, "session-ttl", 2*time.Second, "after this `time` a silent consumer is dead; a killed one is noticed earlier")
	fl.BoolVar(&c.Keep, "keep", false, "leave the histories, the topic and the group behind")
	completeWith(cmd, "faults", append(verify.Faults(), verify.Reshard, noFaults)...)
	cmd.PreRunE = checked(func() error {
		var err error
		if c.Subscriptions && !fl.Changed("faults") {
			c.Faults = verify.SubscriptionFaults()
		}
		if slices.Contains(c.Faults, noFaults) {
			if len(c.Faults) > 1 {
				err = fmt.Errorf("--faults: %s and others; expected either: %w", noFaults, fault.Invalid)
			}
			c.Faults = nil
		}
		return errors.Join(err, c.Validate(), a.notInMemory())
	})
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		for c.Seed == 0 {
			c.Seed = uint64(rand.Uint32()) //nolint:gosec // a schedule, no secret
		}
		return a.verify(ctx, cmd, c)
	})
	return cmd
}

func (a *app) notInMemory() error {
	for name, u := range map[string]string{"log": a.global.log, "registry": a.global.registry} {
		if strings.HasPrefix(u, "mem:") {
			return fmt.Errorf("--%s mem: is the memory of one process, which the others can't share; expected another URL: %w", name, fault.Invalid)
		}
	}
	return nil
}

// site is a temporary directory, and in it what a crew works with. Its processes run this binary again.
func (a *app) site(cmd *cobra.Command) (s verify.Site, dir string, err error) {
	binary, err := os.Executable()
	if err != nil {
		return s, "", fmt.Errorf("%s runs this binary again, but can't find it: %w", cmd.Name(), err)
	}
	if dir, err = os.MkdirTemp("", "ringfence-"+cmd.Name()+"-"); err != nil {
		return s, "", fmt.Errorf("directory of the histories: %w", err)
	}
	client := a.clientConfig()
	if !cmd.Flags().Changed("data") {
		client.Dir = filepath.Join(dir, "data")
	}
	if !cmd.Flags().Changed("log-level") {
		client.Logger = nil // what is lost and won is the point
	}
	return verify.Site{Client: client, Dir: filepath.Join(dir, "histories"), Command: func(s verify.Spec) (string, []string, []string) {
		return binary, a.verifyAgentArgs(client, s), a.storeEnv(client)
	}}, dir, nil
}

func (a *app) verify(ctx context.Context, cmd *cobra.Command, c verify.Config) (err error) {
	fl := cmd.Flags()
	site, dir, err := a.site(cmd)
	if err != nil {
		return err
	}
	site.Keep = c.Keep
	c.Site = site
	bar, ticker := a.newProgress()
	ticker.Stop()
	c.Progress = bar.verifying(c.For)
	again := a.verifyAgain(c, fl)
	fmt.Fprintf(a.stderr, "seed %d; to repeat the schedule: %s\n", c.Seed, again)

	result, err := verify.Run(ctx, c)
	bar.clear()
	result.Command, result.Version = again, buildVersion()
	result.Log, result.Registry = shownURL(c.Client.Log, c.Client.Dir), shownURL(c.Client.Registry, c.Client.Dir)
	if result.Kept {
		result.Left, result.Histories = c.Client.Dir, c.Dir
	} else {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if !result.Began {
		return err
	}
	if printErr := emit(a, result, verifyReport); printErr != nil {
		return errors.Join(err, printErr)
	}
	if errors.Is(err, verify.ErrBroken) && a.global.format == "text" {
		return fmt.Errorf("%w: %w", errReported, &exitError{err, fault.ExitFailure})
	}
	return err
}

// verifyAgain is the command line that repeats a schedule.
func (a *app) verifyAgain(c verify.Config, fl *pflag.FlagSet) string {
	words := []string{a.program(), "verify", fmt.Sprintf("--seed=%d", c.Seed)}
	fl.VisitAll(func(f *pflag.Flag) {
		switch f.Name {
		case "seed", "config", "format", "log-level", "timeout", "keep", "help":
			return
		case "faults":
			if f.Changed {
				words = append(words, "--faults="+cmp.Or(strings.Join(c.Faults, ","), noFaults))
			}
			return
		}
		value := f.Value.String()
		if !f.Changed || value == "" {
			return
		}
		if f.Name == "log" || f.Name == "registry" {
			value = storeurl.RedactText(value)
		}
		words = append(words, "--"+f.Name+"="+quoted(value))
	})
	return strings.Join(words, " ")
}

// quoted is a word for a shell.
func quoted(word string) string {
	if strings.ContainsAny(word, " \t\n'\"\\$&;|<>()*?[]{}~#!`") {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}

// shownURL is a URL without what may be secret; without a URL, the directory.
func shownURL(raw, dir string) string {
	if raw == "" {
		return dir
	}
	return storeurl.RedactText(raw)
}

// storeEnv tells a process the URLs of the stores: a command line shows in the list of processes.
func (a *app) storeEnv(c ringfence.Config) []string {
	return []string{envName("log") + "=" + c.Log, envName("registry") + "=" + c.Registry}
}

// storeArgs are the settings of the stores on the command line of a process.
func (a *app) storeArgs(c ringfence.Config) []string {
	return []string{"--data=" + c.Dir, "--durability=" + string(c.Durability), "--namespace=" + c.Namespace, "--log-level=" + a.global.logLevel}
}

func (a *app) verifyAgentArgs(c ringfence.Config, s verify.Spec) []string {
	raw, err := json.Marshal(s)
	if err != nil {
		panic("cli: " + err.Error()) // it holds texts and numbers
	}
	return append([]string{verifyAgentName, "--timeout=0", string(raw)}, a.storeArgs(c)...)
}

// verifyAgent is the hidden command that the processes of verify run.
func (a *app) verifyAgent() *cobra.Command {
	return &cobra.Command{Use: verifyAgentName, Hidden: true, Args: cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			var s verify.Spec
			if err := json.Unmarshal([]byte(args[0]), &s); err != nil {
				return fmt.Errorf("%s: %w: %w", verifyAgentName, err, fault.Invalid)
			}
			if os.Getppid() != s.Parent {
				return errors.New("the run that started this process is gone")
			}
			err := verify.Serve(ctx, s, func(ctx context.Context) (*ringfence.Client, error) {
				return ringfence.Open(ctx, a.clientConfig())
			}, a.logger())
			if verify.Away(err) {
				return &exitError{err, verify.ExitAway}
			}
			return err
		})}
}
