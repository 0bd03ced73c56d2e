package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/ring"
)

func (a *app) ringCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ring",
		Short: "Share keys among processes: which one handles a key right now",
		Long: `A ring shares all keys among the processes that join it, with no records involved: each
process asks whether a key is its own. In mode anchor keys are mapped to members by
consistent hashing; in mode table to slots, each of which has one owner at a time,
under a fencing epoch. A ring needs the coordination store only (--data or --registry).`,
		RunE: a.needsSubcommand,
		Args: cobra.ArbitraryArgs,
	}
	cmd.AddCommand(a.ringJoin(), a.ringOwner(), a.ringStatus(), a.ringList(), a.ringDelete())
	return cmd
}

// withRegistry makes a cobra body of an action on the coordination store alone. Unless create is
// set, a data directory that is missing is an error and is not made.
func (a *app) withRegistry(create bool, body func(ctx context.Context, reg *registry.Registry, args []string) error) func(*cobra.Command, []string) error {
	return a.do(func(ctx context.Context, args []string) (err error) {
		c := a.clientConfig()
		c.MustExist = !create
		a.doing.Store(opening)
		reg, err := ringfence.OpenRegistry(ctx, c)
		if err != nil {
			return a.whereToLook(err)
		}
		a.doing.Store(working)
		defer func() {
			a.doing.Store(closing)
			err = errors.Join(err, reg.Close())
		}()
		return a.whereToLook(a.guarded(ctx, func(ctx context.Context) error { return body(ctx, reg, args) }))
	})
}

// ringText describes a ring; self is the member that asks.
func ringText(r *report, d *api.Ring, self string) {
	mode := d.Mode
	if d.Slots > 0 {
		mode = fmt.Sprintf("%s of %s", d.Mode, plural(int64(d.Slots), "slot"))
	}
	r.line("ring   %s (%s)", r.paint(bold, d.Ring), mode)
	r.line("epoch  %d: %s", d.Epoch, dash(d.Reason))
	if len(d.Members) == 0 {
		r.line("no members: no key has an owner")
		return
	}
	r.line("")
	var rows [][]cell
	for _, m := range d.Members {
		id := left(m.ID)
		if m.ID == self {
			id = styled(green, left(m.ID+" (this one)"))
		}
		rows = append(rows, []cell{id, right(fmt.Sprintf("%.1f%%", 100*m.Share)), left(fmt.Sprintf("%s:%d", dash(m.Host), m.PID)), left(string(m.Joined))})
	}
	r.table([]string{"MEMBER", "KEYS", "PROCESS", "JOINED"}, rows)
}

func (a *app) ringStatus() *cobra.Command {
	return &cobra.Command{
		Use:               "status NAME",
		Short:             "Show the members of a ring and how the keys are shared",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeRingArg,
		RunE: a.withRegistry(false, func(ctx context.Context, reg *registry.Registry, args []string) error {
			d, err := admin.NewRings(reg).DescribeRing(ctx, args[0])
			if err != nil {
				return err
			}
			return a.emit(d, func(r *report) { ringText(r, d, "") })
		}),
	}
}

func ownerText(r *report, d *api.RingOwner) {
	slot := ""
	if d.Slot != nil {
		slot = fmt.Sprintf(", slot %d", *d.Slot)
	}
	switch {
	case d.Mine != nil && *d.Mine:
		r.line("%s → %s (%s), epoch %d%s", d.Key, r.paint(green, "mine"), d.Owner, d.Epoch, slot)
	case d.Owner == "":
		r.line("%s → %s%s", d.Key, r.paint(yellow, "no member"), slot)
	default:
		r.line("%s → %s, epoch %d%s", d.Key, d.Owner, d.Epoch, slot)
	}
}

func (a *app) ringOwner() *cobra.Command {
	return &cobra.Command{
		Use:               "owner NAME KEY",
		Short:             "Show which member of a ring handles a key",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.completeRingArg,
		RunE: a.withRegistry(false, func(ctx context.Context, reg *registry.Registry, args []string) error {
			d, err := admin.NewRings(reg).FindRingOwner(ctx, args[0], args[1])
			if err != nil {
				return err
			}
			return a.emit(d, func(r *report) { ownerText(r, d) })
		}),
	}
}

func (a *app) ringList() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the rings",
		Aliases: []string{"ls"},
		Args:    cobra.NoArgs,
		RunE: a.withRegistry(false, func(ctx context.Context, reg *registry.Registry, _ []string) error {
			rings, err := admin.NewRings(reg).ListRings(ctx)
			if err != nil {
				return err
			}
			return a.emit(rings, func(r *report) {
				var rows [][]cell
				for _, d := range rings {
					if d.Damaged != "" {
						rows = append(rows, []cell{left(d.Ring), left("-"), right("-"), right("-"), warnIf(true, left("can't be read: "+d.Damaged))})
						continue
					}
					rows = append(rows, []cell{left(d.Ring), left(d.Mode), number(int64(len(d.Members))), number(d.Epoch), left(dash(d.Reason))})
				}
				r.table([]string{"RING", "MODE", "MEMBERS", "EPOCH", "WHY"}, rows)
			})
		}),
	}
}

func (a *app) ringDelete() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a ring that has no members",
		Long: `Delete a ring and its history. A ring with members is a conflict (exit code 4).
On a terminal it asks first; --yes answers. Without a terminal it never asks.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeRingArg,
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.RunE = a.withRegistry(false, func(ctx context.Context, reg *registry.Registry, args []string) error {
		switch _, err := ring.Look(ctx, reg, args[0]); {
		case errors.Is(err, ring.ErrNotFound): // or its deletion was cut short: Delete finishes that
		case err != nil:
			return err
		default:
			if err := a.agreed(ctx, yes, fmt.Sprintf("Delete ring %s?", args[0]), fmt.Sprintf("ring %q was not deleted", args[0])); err != nil {
				return err
			}
		}
		if err := admin.NewRings(reg).DeleteRing(ctx, args[0]); err != nil {
			return err
		}
		return a.emitDeletion(deletion{What: "ring", Name: args[0], Deleted: true})
	})
	return cmd
}

// completeRingArg offers the names of the rings to the shell.
func (a *app) completeRingArg(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.complete(cmd, func(ctx context.Context, rf *ringfence.Client) ([]string, error) {
		return ring.List(ctx, rf.Registry())
	})
}
