package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/subscription"
)

type topFlags struct {
	every time.Duration
	count int
	lag   bool
}

func (a *app) topCommand() *cobra.Command {
	var f topFlags
	cmd := &cobra.Command{
		Use:   "top [NAME...]",
		Short: "Watch partitions, owners, epochs, lag and rates live",
		Long: `Show every partition of the groups and subscriptions (all of them by default): its owner and epoch, how
many records come in and are processed per second, the lag, and the age of the oldest
record that waits. On a terminal the view is redrawn in place; q quits, s sorts by lag
or by partition. Elsewhere it prints one snapshot after the other, with --format json
one line each.`,
		Example: `  ringfence top
  ringfence top billing --every 500ms
  ringfence top --count 1 --format json`,
		Args: cobra.ArbitraryArgs,
	}
	cmd.Flags().DurationVar(&f.every, "every", time.Second, "time between two looks")
	cmd.Flags().IntVar(&f.count, "count", 0, "end after so many looks (0: never)")
	cmd.Flags().BoolVar(&f.lag, "by-lag", false, "largest lag first")
	cmd.ValidArgsFunction = a.offers(groupNames)
	bounded(cmd.Flags(), 50*time.Millisecond, group.LongestTime, "every")
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
		for waiting := true; waiting; {
			select {
			case <-ticker.C:
				waiting = false
			case <-ctx.Done():
				return context.Cause(ctx)
			case k := <-keys:
				switch k {
				case 'q', 'Q', 3, 4, 28: // Ctrl-C, Ctrl-D and Ctrl-\, which the terminal does not translate now
					return nil
				case 's', 'S':
					f.lag = !f.lag
					if err := a.drawTop(snap, live, f.lag); err != nil {
						return err
					}
				}
			}
		}
	}
}

// drawTop shows a snapshot: in place of the last one on a terminal, else below it.
func (a *app) drawTop(s *topSnapshot, live, byLag bool) error {
	if a.global.format == "json" {
		return writeJSON(a.stdout, s, "")
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

// fit makes a text overwrite the screen of a terminal in raw mode; control marks what the terminal is to obey.
func fit(text string, height int, control func(string) string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if height > 1 && len(lines) > height-1 {
		more := len(lines) - (height - 2)
		lines = append(lines[:height-2], fmt.Sprintf("… %d more lines; name a group to see less", more))
	}
	return control("\x1b[H") + strings.Join(lines, control("\x1b[K\r\n")) + control("\x1b[K\x1b[J")
}

// topSnapshot is one look at some groups.
type topSnapshot struct {
	At         string         `json:"at"`
	Groups     []topGroup     `json:"groups"`
	Partitions []topPartition `json:"partitions"`

	when time.Time
	subs map[string]*topSubscription
}

type topGroup struct {
	Group   string `json:"group"`
	Topic   string `json:"topic"`
	Members int    `json:"members"`
	State   string `json:"state"`
	Paused  bool   `json:"paused"`
	// Of a subscription; "": it is a group of its own.
	Subscription string `json:"subscription,omitempty"`
	Parked       int    `json:"parked,omitempty"`
	Dead         int    `json:"dead,omitempty"`

	Lag    int64   `json:"lag"`
	Oldest int64   `json:"oldest_ms"`
	In     float64 `json:"produced_per_s"`
	Out    float64 `json:"processed_per_s"`
}

type topPartition struct {
	Group      string    `json:"group"`
	Storage    int       `json:"storage"`
	Partition  int       `json:"partition"`
	Owner      string    `json:"owner"`
	Alive      bool      `json:"alive"`
	Phase      api.Phase `json:"phase"`
	Target     string    `json:"target,omitempty"`
	Epoch      int64     `json:"epoch"`
	Checkpoint int64     `json:"checkpoint"` // -1: none
	End        int64     `json:"end"`
	Lag        int64     `json:"lag"`
	Oldest     int64     `json:"oldest_ms"`
	In         float64   `json:"produced_per_s"`
	Out        float64   `json:"processed_per_s"`
	Why        string    `json:"why"`

	done int64 // how many of End are processed
}

// look describes groups, all with none named, and their rates since the last look. A subscription may be named for its
// group.
func look(ctx context.Context, rf *ringfence.Client, names []string, last *topSnapshot) (*topSnapshot, error) {
	all := len(names) == 0
	listed := map[string]api.Group{}
	if all {
		list, err := rf.Admin().ListGroups(ctx)
		if err != nil {
			return nil, err
		}
		for _, g := range list {
			names = append(names, g.Name)
			listed[g.Name] = g
		}
	}
	now := time.Now()
	s := &topSnapshot{when: now, At: string(api.TimeOf(now)), Groups: []topGroup{}, Partitions: []topPartition{}, subs: map[string]*topSubscription{}}
	for _, name := range names {
		if g := listed[name]; g.Damaged != "" {
			s.add(&g, nil, last)
			continue
		}
		g, of, err := s.describe(ctx, rf, name, last)
		if all && errors.Is(err, ringfence.ErrNotFound) {
			continue // deleted since it was listed
		}
		if all && unreadableDocument(err) {
			g = listed[name]
			g.Damaged, g.State, err = err.Error(), "damaged", nil
		}
		if err != nil {
			return nil, err
		}
		s.add(&g, of, last)
	}
	return s, nil
}

// topSubscription is what a look knows of a subscription besides its group. Counting what is parked reads all of it, so
// that is not done at each look.
type topSubscription struct {
	*api.Subscription
	backlog api.Backlog
	counted time.Time
}

const countEvery = 5 * time.Second

// describe describes a group, and the subscription that it delivers; nil: none.
func (s *topSnapshot) describe(ctx context.Context, rf *ringfence.Client, name string, last *topSnapshot) (api.Group, *topSubscription, error) {
	g, err := rf.Admin().DescribeGroup(ctx, name)
	owner, _, delivers := subscription.OfGroup(name)
	if errors.Is(err, ringfence.ErrNotFound) && !delivers {
		owner = name
	}
	if owner == "" || err != nil && !errors.Is(err, ringfence.ErrNotFound) {
		return g, nil, err
	}
	d, unknown := rf.Admin().GetSubscription(ctx, owner)
	if unknown != nil {
		return g, nil, err // which says what is wrong with the group
	}
	if err != nil && !delivers {
		g, err = rf.Admin().DescribeGroup(ctx, d.Group())
	}
	of := &topSubscription{Subscription: d}
	if last != nil && last.subs[owner] != nil {
		of.backlog, of.counted = last.subs[owner].backlog, last.subs[owner].counted
	}
	if s.when.Sub(of.counted) >= countEvery && d.Group() == g.Name {
		of.backlog, _ = rf.Admin().CountBacklog(ctx, owner) // as far as it can be read; "subscription describe" has the error
		of.counted = s.when
	}
	s.subs[owner] = of
	return g, of, err
}

func (s *topSnapshot) add(g *api.Group, of *topSubscription, last *topSnapshot) {
	total := topGroup{Group: g.Name, Topic: g.Topic, Members: len(g.Members), State: g.State, Paused: g.Paused, Lag: g.Lag, Oldest: g.OldestMS}
	if of != nil {
		total.Subscription = of.Name
		if of.Group() == g.Name {
			total.Parked, total.Dead = of.backlog.Parked.Records, of.backlog.Dead.Records
		}
		switch {
		case of.Subscription.Paused != nil:
			total.State, total.Paused = "paused", true
		case breakerIsOpen(g):
			total.State = "breaker open"
		}
	}
	for _, u := range g.Units {
		for _, p := range u.Positions {
			row := topPartition{
				Group: g.Name, Storage: p.Storage, Partition: p.Partition, Owner: u.Owner, Alive: u.Alive, Phase: u.Phase, Target: u.Target, Epoch: u.Epoch,
				Checkpoint: p.Checkpoint, End: p.Next, Lag: p.Lag, Oldest: p.OldestMS, Why: why(u), done: p.Next - p.Lag,
			}
			if old := last.find(&row); old != nil {
				seconds := s.when.Sub(last.when).Seconds()
				row.In = max(0, float64(row.End-old.End)/seconds)
				row.Out = max(0, float64(row.done-old.done)/seconds) // less than none: the group was sought back
			}
			total.In += row.In
			total.Out += row.Out
			s.Partitions = append(s.Partitions, row)
		}
	}
	s.Groups = append(s.Groups, total)
}

func breakerIsOpen(g *api.Group) bool {
	return slices.ContainsFunc(g.Units, func(u api.Unit) bool { return u.Deliveries != nil && u.Deliveries.HeldBack != nil })
}

func (s *topSnapshot) find(row *topPartition) *topPartition {
	for i := 0; s != nil && i < len(s.Partitions); i++ {
		if p := &s.Partitions[i]; p.Group == row.Group && p.Storage == row.Storage && p.Partition == row.Partition {
			return p
		}
	}
	return nil
}

func (s *topSnapshot) render(r *report, byLag bool, keys string) {
	r.line("%s  %s   %s", r.paint(bold, "ringfence top"), s.At, r.paint(faint, keys))
	r.line("")
	tableOf(r, []string{"GROUP", "TOPIC", "MEMBERS", "IN/S", "OUT/S", "LAG", "OLDEST", "PARKED", "DEAD", "STATE"}, s.Groups, func(g topGroup) []cell {
		parked, dead := right("-"), right("-")
		if g.Subscription != "" {
			parked, dead = number(g.Parked), warnIf(g.Dead > 0, number(g.Dead))
		}
		return []cell{
			left(g.Group), left(g.Topic), warnIf(g.Members == 0, number(g.Members)), rate(g.In), rate(g.Out),
			warnIf(g.Lag > 0 && g.Out == 0, number(g.Lag)), age(g.Oldest), parked, dead, warnIf(g.State != "running", left(g.State)),
		}
	})
	r.line("")
	parts := slices.Clone(s.Partitions)
	if byLag {
		slices.SortStableFunc(parts, func(a, b topPartition) int { return cmp.Compare(b.Lag, a.Lag) })
	}
	tableOf(r, []string{"GROUP", "PARTITION", "OWNER", "EPOCH", "IN/S", "OUT/S", "LAG", "OLDEST", "WHY"}, parts, func(p topPartition) []cell {
		u := api.Unit{Owner: p.Owner, Alive: p.Alive, Target: p.Target, Phase: p.Phase}
		return []cell{
			left(p.Group), right(partitionName(p.Storage, p.Partition)), ownerCell(u), number(p.Epoch), rate(p.In), rate(p.Out),
			warnIf(p.Lag > 0 && p.Out == 0, number(p.Lag)), age(p.Oldest), left(p.Why),
		}
	})
}

func rate(perSecond float64) cell {
	if perSecond == 0 {
		return right("-")
	}
	if perSecond < 10 {
		return right(fmt.Sprintf("%.1f", perSecond))
	}
	return number(int64(perSecond + 0.5))
}
