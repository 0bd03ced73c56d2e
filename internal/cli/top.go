package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ringfence/ringfence"
)

type topFlags struct {
	every time.Duration
	count int
	lag   bool
}

func (a *app) topCommand() *cobra.Command {
	var f topFlags
	cmd := &cobra.Command{
		Use:   "top [GROUP...]",
		Short: "Watch partitions, owners, epochs, lag and rates live",
		Long: `Show every partition of the groups (all of them by default): its owner and epoch, how
many records come in and are processed per second, the lag, and the age of the oldest
record that waits. On a terminal the view is redrawn in place; q quits, s sorts by lag
or by partition. Elsewhere it prints one snapshot after the other, with --format json
one line each.`,
		Example: `  ringfence top
  ringfence top billing --every 500ms
  ringfence top --count 1 --format json`,
	}
	cmd.Flags().DurationVar(&f.every, "every", time.Second, "time between two looks")
	cmd.Flags().IntVar(&f.count, "count", 0, "end after so many looks (0: never)")
	cmd.Flags().BoolVar(&f.lag, "by-lag", false, "largest lag first")
	cmd.ValidArgsFunction = a.completeGroups
	cmd.PreRunE = checked(func() error { return checkEvery(f.every) })
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		err := a.top(ctx, rf, args, f)
		if errors.Is(context.Cause(ctx), errSignalled) {
			return nil
		}
		return err
	})
	return cmd
}

func (a *app) top(ctx context.Context, rf *ringfence.Client, groups []string, f topFlags) error {
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	keys := make(chan byte)
	live := a.global.format == "text" && a.draws(a.stdout)
	if live {
		if err := a.takeTerminal(); err != nil {
			return err
		}
		defer a.screen.giveBack()
		if isTerminal(a.stdin) {
			// It ends with the process: a read of the terminal can't be called off.
			go readKeys(ctx, a.stdin, keys)
		}
	}
	ticker := time.NewTicker(f.every)
	defer ticker.Stop()
	var last *topSnapshot
	for n := 1; ; n++ {
		snap, err := look(ctx, rf, groups, last)
		if err != nil {
			return err
		}
		last = snap
		if err := a.drawTop(snap, live, f.lag); err != nil {
			return err
		}
		if f.count > 0 && n >= f.count {
			return nil
		}
		var settled <-chan time.Time // since a key has changed the view
		for waiting := true; waiting; {
			select {
			case <-ticker.C:
				waiting = false
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-settled:
				settled = nil
				if err := a.drawTop(snap, live, f.lag); err != nil {
					return err
				}
			case k := <-keys:
				switch k {
				case 'q', 'Q', 3, 4, 28: // Ctrl-C, Ctrl-D and Ctrl-\, which the terminal does not translate now
					return nil
				case 's', 'S':
					f.lag = !f.lag
					if settled == nil {
						settled = time.After(settle)
					}
				}
			}
		}
	}
}

// settle is how long the view waits for more keys before it is drawn for one: a key that is held down, or a
// pasted text, has it drawn twenty times a second and not for each.
const settle = 50 * time.Millisecond

// drawTop shows a snapshot: in place of the last one on a terminal, else below it.
func (a *app) drawTop(s *topSnapshot, live, byLag bool) error {
	if a.global.format == "json" {
		line, err := json.Marshal(s)
		if err != nil {
			return err
		}
		_, err = a.stdout.Write(append(line, '\n'))
		return err
	}
	r := a.newReport()
	keys := ""
	if live {
		keys = "q quits, s sorts"
	}
	s.render(r, byLag, keys)
	text := r.String()
	if live {
		height := 0
		if out := fileOf(a.stdout); out != nil {
			_, height, _ = term.GetSize(int(out.Fd())) // unknown: everything
		}
		text = fit(text, height, a.stdout.Control)
	}
	_, err := io.WriteString(a.stdout, text)
	return err
}

// fit makes a text for a terminal in raw mode that overwrites what was there: no more lines than
// the screen has, each erased to its end, and the rest of the screen too. control marks what the
// terminal is to obey.
func fit(text string, height int, control func(string) string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if height > 1 && len(lines) > height-1 {
		more := len(lines) - (height - 2)
		lines = append(lines[:height-2], fmt.Sprintf("… %d more lines; name a group to see less", more))
	}
	return control("\x1b[H") + strings.Join(lines, control("\x1b[K\r\n")) + control("\x1b[K\x1b[J")
}
