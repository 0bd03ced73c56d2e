package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/internal/fault"
)

func (a *app) groupCommand() *cobra.Command {
	return a.holder(&cobra.Command{
		Use:     "group",
		Short:   "List, describe, move, pause and delete consumer groups",
		Aliases: []string{"groups"},
	}, groupNames, listing(a, "List the consumer groups with their members and lag", (*admin.Client).MeasureGroups, groupTable), a.groupDescribe(), a.groupSeek(),
		a.groupControl("pause", "Stop a group from taking new records; running ones finish", (*admin.Client).PauseGroup),
		a.groupControl("resume", "Let a paused group go on", (*admin.Client).ResumeGroup), a.groupDelete())
}

// unreadableDocument is about one that is damaged, or of another version: a list names it and goes on.
func unreadableDocument(err error) bool {
	return errors.Is(err, ringfence.ErrCorrupt) || errors.Is(err, ringfence.ErrInvalid)
}

func groupTable(r *report, groups []api.Group) {
	tableOf(r, []string{"GROUP", "TOPIC", "MEMBERS", "LAG", "OLDEST", "STATE"}, groups, func(g api.Group) []cell {
		return []cell{left(g.Name), left(g.Topic), number(len(g.Members)), number(g.Lag), age(g.OldestMS), warnIf(groupState(&g) != "running", left(groupState(&g)))}
	})
}

// groupState is what is going on with a group, in a word or two.
func groupState(g *api.Group) string {
	if g.State == "running" && g.Failing != nil {
		return "failing: " + g.Failing.Why
	}
	return g.State
}

func (a *app) groupDescribe() *cobra.Command {
	var watch bool
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "describe NAME",
		Short: "Show the owner of each partition, how far it got, and why",
		Long: `Show the members of a group and, for each partition: its owner, the epoch that fences
former owners, the checkpoint, how many records lie behind it, how old the oldest of
these is, and why the owner has it. It works with no member alive. When a checkpoint or
the record there is damaged, the exit code is 1.`,
		Example: `  ringfence group describe billing
  ringfence group describe billing --watch
  ringfence group describe billing --format json | jq '.units[] | select(.lag > 0)'`,
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show it again and again until interrupted")
	cmd.Flags().DurationVar(&every, "every", time.Second, "with --watch: how often")
	bounded(cmd.Flags(), 50*time.Millisecond, group.LongestTime, "every")
	cmd.RunE = a.withClient(false, func(ctx context.Context, rf *ringfence.Client, args []string) error {
		look := func(ctx context.Context) (damaged, err error) {
			g, err := rf.Admin().DescribeGroup(ctx, args[0])
			if err != nil {
				return nil, err
			}
			return damageOf(&g), emit(a, g, describeGroup)
		}
		if !watch {
			return errors.Join(look(ctx))
		}
		return a.again(ctx, every, func(ctx context.Context) error {
			_, err := look(ctx)
			return err
		})
	})
	return cmd
}

// damageOf says how many partitions of a group are damaged; nil: none.
func damageOf(g *api.Group) error {
	n := 0
	for _, u := range g.Units {
		for _, p := range u.Positions {
			if p.Damaged != "" {
				n++
			}
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("group %q: %s: %w", g.Name, plural(n, "damaged place"), fault.Corrupt)
}

// again shows something until ctx ends: on a terminal in place, elsewhere one after the other.
func (a *app) again(ctx context.Context, every time.Duration, show func(context.Context) error) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if a.global.format == "text" && a.draws(a.stdout) {
			fmt.Fprint(a.stdout, a.stdout.Control("\x1b[H\x1b[2J"))
		}
		if err := show(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errSignalled) {
				return nil
			}
			return context.Cause(ctx)
		case <-ticker.C:
		}
		if a.global.format == "text" && !a.draws(a.stdout) {
			fmt.Fprintln(a.stdout)
		}
	}
}

func describeGroup(r *report, g api.Group) {
	st := green
	if g.State != "running" {
		st = yellow
	}
	r.line("group       %s (%s)", r.paint(bold, g.Name), r.paint(st, g.State))
	r.line("topic       %s", g.Topic)
	lag := plural(g.Lag, "record")
	if g.OldestMS > 0 {
		lag += ", the oldest has waited for " + ageText(g.OldestMS)
	}
	r.line("lag         %s", lag)
	if f := g.Failing; f != nil {
		key := ""
		if f.Key != "" {
			key = fmt.Sprintf(", key %q", f.Key)
		}
		r.line("failing     %s", r.paint(yellow, fmt.Sprintf("offset %d of partition %s%s: %s by %s since %s, next %s: %q",
			f.Offset, partitionName(f.Storage, f.Partition), key, plural(f.Attempts, "attempt"), f.Member, f.Since, f.Due, f.Why)))
	}
	if g.Dropped > 0 {
		r.line("dropped     %s", r.paint(red, plural(g.Dropped, "record")+" that retention took before the group processed them"))
	}
	r.line("assignment  %s, version %d by %s: %s", g.Assignor, g.Assignment.Version, dash(g.Assignment.By), dash(g.Assignment.Reason))
	r.line("")
	r.table([]string{"PARTITION", "OWNER", "EPOCH", "CHECKPOINT", "END", "LAG", "OLDEST", "WHY"}, unitRows(&g))
	if len(g.Members) == 0 {
		return
	}
	r.line("")
	tableOf(r, []string{"MEMBER", "OWNS", "PROCESS", "INCARNATION", "JOINED", "TRAITS"}, g.Members, func(m api.Member) []cell {
		return []cell{left(m.ID), number(m.Units), left(fmt.Sprintf("%s:%d", dash(m.Host), m.PID)), left(m.Incarnation), left(string(m.Joined)), left(traits(m))}
	})
}

func unitRows(g *api.Group) [][]cell {
	var rows [][]cell
	for _, u := range g.Units {
		for _, p := range u.Positions {
			checkpoint := right("-")
			if p.Checkpoint >= 0 {
				text := thousands(p.Checkpoint)
				if p.Done > 0 {
					text += fmt.Sprintf(" (+%s)", thousands(p.Done))
				}
				checkpoint = right(text)
			}
			rows = append(rows, []cell{right(partitionName(p.Storage, p.Partition)), ownerCell(u), number(u.Epoch), checkpoint, number(p.Next), number(p.Lag), age(p.OldestMS), left(why(u))})
		}
	}
	return rows
}

func ownerCell(u api.Unit) cell {
	switch {
	case u.Owner == "":
		return styled(yellow, left("-"))
	case u.Phase == api.Awaiting:
		return styled(yellow, left(u.Owner+" (away)"))
	case !u.Alive:
		owner := u.Owner + " (gone)"
		if u.Target != "" && u.Target != u.Owner {
			owner += " > " + u.Target
		}
		return styled(red, left(owner))
	case u.Target != "":
		return styled(yellow, left(u.Owner+" > "+u.Target))
	}
	return left(u.Owner)
}

func why(u api.Unit) string {
	for _, p := range u.Positions {
		if p.Damaged != "" {
			return "DAMAGED at its checkpoint: " + p.Damaged
		}
		if p.Dropped > 0 {
			return fmt.Sprintf("DROPPED by retention: %s below offset %d; nothing is read before a seek", plural(p.Dropped, "record"), p.First)
		}
	}
	return u.Why
}

func traits(m api.Member) string {
	var t []string
	if m.Unreadable {
		t = append(t, "can't be read")
	}
	if m.Static {
		t = append(t, "static")
	}
	if m.Draining {
		t = append(t, "draining")
	}
	if m.Weight > 1 {
		t = append(t, fmt.Sprintf("weight %d", m.Weight))
	}
	if m.Zone != "" {
		t = append(t, "zone "+m.Zone)
	}
	return dash(strings.Join(t, ", "))
}
