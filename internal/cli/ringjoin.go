package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/ring"
)

func (a *app) ringJoin() *cobra.Command {
	var cfg ring.Config
	var mode string
	var stay bool
	cmd := &cobra.Command{
		Use:   "join NAME",
		Short: "Join a ring and ask it about keys",
		Long: `Join a ring; a new one is made. Run it in several terminals and type keys: each line is
a key, and the answer is the member that handles it, the same in every terminal. Then
quit one of them, or kill it, and ask again.

  /status    the members, and how the keys are shared
  /refresh   read the ring from the store now
  /quit      leave; so do Ctrl-C, SIGTERM, SIGHUP and the end of the input

A member that leaves drains. In mode anchor it still answers for its keys while the
others do already (--drain), so that no key is without an owner; in mode table it stops
first, and the others begin --drain later. Joins and leaves are shown on stderr.`,
		Example: `  ringfence ring join webhooks --member a
  printf 'user-1\nuser-2\n/status\n' | ringfence ring join webhooks
  ringfence ring join jobs --mode table --registry postgres://localhost/app`,
	}
	fl := cmd.Flags()
	fl.StringVar(&cfg.Member, "member", "", "`ID` in the ring (default: host and process); the newest start of an ID fences the others")
	fl.StringVar(&mode, "mode", "", "anchor or table (default: what the ring has, anchor when it is new)")
	fl.IntVar(&cfg.Slots, "slots", 0, "slots of a ring in mode table (0: what the ring has, 256 when it is new)")
	fl.DurationVar(&cfg.Drain, "drain", 100*time.Millisecond, "the time for what was begun under an earlier owner")
	sessionFlag(fl, &cfg.TTL)
	fl.BoolVar(&stay, "stay", false, "stay a member after the end of the input, until a signal")
	completeWith(cmd, "mode", string(ring.Anchor), string(ring.Table))
	cmd.PreRunE = checked(func() error {
		cfg.Mode = ring.Mode(mode)
		if cfg.Drain == 0 {
			cfg.Drain = -1 // none was asked for
		}
		if cfg.Member == "" {
			cfg.Member = ringMemberID()
		}
		c := cfg
		c.Name, c.Registry = cmd.Flags().Arg(0), new(registry.Registry)
		c.Drain, c.TTL, c.Slots = 0, 0, max(0, c.Slots) // told of as the flags that they are
		return c.Validate()
	})
	cmd.RunE = a.withRegistry(true, func(ctx context.Context, reg *registry.Registry, args []string) error {
		cfg.Registry, cfg.Name, cfg.Logger = reg, args[0], a.logger()
		return a.ringSession(ctx, cfg, stay)
	})
	return cmd
}

// ringMemberID names this process.
func ringMemberID() string {
	host, err := os.Hostname()
	if err != nil || registry.CheckID("member", host) != nil {
		host = "host"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

// ringTalk is a member in a terminal.
type ringTalk struct {
	a    *app
	ring *ring.Ring
}

// ringSession is a member until the input or the context ends.
func (a *app) ringSession(ctx context.Context, cfg ring.Config, stay bool) (err error) {
	t := &ringTalk{a: a}
	cfg.Events.Changed = func(old, now *ring.View) {
		if old.Epoch != now.Epoch && now.Reason != "" { // else slots moved, or the ring was just made
			text := fmt.Sprintf("* epoch %d: %s; %s", now.Epoch, now.Reason, plural(len(now.Members), "member"))
			fmt.Fprintln(a.stderr, a.stderr.Line(text))
		}
	}
	if t.ring, err = ring.Join(ctx, cfg); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.ring.Close(context.WithoutCancel(ctx))) }()
	if err := t.ring.WaitEstablished(ctx); err != nil {
		if errors.Is(context.Cause(ctx), errSignalled) {
			return nil
		}
		return err
	}
	v := t.ring.View()
	fmt.Fprintf(a.stderr, "joined ring %s as %s (%s); type a key, /status, /refresh or /quit\n", v.Ring, t.ring.Member(), v.Mode)
	return t.talk(ctx, stay)
}

// talk answers lines.
func (t *ringTalk) talk(ctx context.Context, stay bool) error {
	lines := make(chan string)
	done := make(chan struct{})
	defer close(done)
	var unread error // valid when lines is closed
	// It ends with the talk, or with its read of a terminal or a pipe, which can't be called off.
	go func() {
		defer close(lines)
		in := bufio.NewScanner(t.a.stdin)
		defer func() { unread = in.Err() }()
		for in.Scan() {
			select {
			case lines <- in.Text():
			case <-done:
				return
			}
		}
	}()
	for {
		select {
		case line, ok := <-lines:
			switch {
			case !ok && unread != nil:
				return fmt.Errorf("keys from the standard input: %w", unread)
			case !ok && stay:
				lines = nil
			case !ok:
				return nil
			default:
				if quit, err := t.answer(ctx, strings.TrimSpace(line)); quit || err != nil {
					return err
				}
			}
		case <-t.ring.Done():
			return t.ring.Err()
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errSignalled) {
				return nil
			}
			return context.Cause(ctx)
		}
	}
}

// answer prints what a line asks for.
func (t *ringTalk) answer(ctx context.Context, line string) (quit bool, err error) {
	switch line {
	case "":
		return false, nil
	case "/quit", "/exit":
		return true, nil
	case "/status", "/refresh":
		if line == "/refresh" {
			if err := t.ring.Refresh(ctx); err != nil {
				fmt.Fprintln(t.a.stderr, "not refreshed: "+t.a.stderr.Line(err.Error()))
				return false, nil
			}
		}
		return false, printLine(t.a, admin.RingOf(t.ring.View()), func(r *report, d *api.Ring) { ringText(r, d, t.ring.Member()) })
	}
	if strings.HasPrefix(line, "/") {
		fmt.Fprintf(t.a.stderr, "%s: expected a key, /status, /refresh or /quit\n", line)
		return false, nil
	}
	d := admin.RingOwnerOf(t.ring.View(), line)
	mine, epoch := t.ring.ShouldHandle(line)
	d.Mine = &mine
	if mine {
		d.Owner, d.Epoch = t.ring.Member(), epoch
	}
	return false, printLine(t.a, d, ownerText)
}

// printLine is emit with one line a JSON document.
func printLine[T any](a *app, v T, text func(*report, T)) error {
	if a.global.format == "json" {
		return writeJSON(a.stdout, v, "")
	}
	return emit(a, v, text)
}
