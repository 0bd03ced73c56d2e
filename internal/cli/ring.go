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
	return a.holder(&cobra.Command{
		Use:   "ring",
		Short: "Share keys among processes: which one handles a key right now",
		Long: `A ring shares all keys among the processes that join it, with no records involved: each
process asks whether a key is its own. In mode anchor keys are mapped to members by
consistent hashing; in mode table to slots, each of which has one owner at a time,
under a fencing epoch. A ring needs the coordination store only (--data or --registry).`,
	}, ringNames, a.ringJoin(), a.ringOwner(), a.ringStatus(), a.ringList(), a.ringDelete())
}

// withRegistry is withClient for the coordination store alone.
func (a *app) withRegistry(create bool, body func(ctx context.Context, reg *registry.Registry, args []string) error) func(*cobra.Command, []string) error {
	return a.do(func(ctx context.Context, args []string) error {
		return onStore(ctx, a, create, ringfence.OpenRegistry, func(ctx context.Context, reg *registry.Registry) error { return body(ctx, reg, args) })
	})
}

// showRing is show for orders about rings.
func showRing[T any](a *app, order func(ctx context.Context, c *admin.Rings, args []string) (T, error), text func(*report, T)) func(*cobra.Command, []string) error {
	return a.withRegistry(false, func(ctx context.Context, reg *registry.Registry, args []string) error {
		v, err := order(ctx, admin.NewRings(reg), args)
		if err != nil {
			return err
		}
		return emit(a, v, text)
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
	tableOf(r, []string{"MEMBER", "KEYS", "PROCESS", "JOINED"}, d.Members, func(m api.RingMember) []cell {
		id := left(m.ID)
		if m.ID == self {
			id = styled(green, left(m.ID+" (this one)"))
		}
		return []cell{id, right(fmt.Sprintf("%.1f%%", 100*m.Share)), left(fmt.Sprintf("%s:%d", dash(m.Host), m.PID)), left(string(m.Joined))}
	})
}

func (a *app) ringStatus() *cobra.Command {
	return &cobra.Command{
		Use:   "status NAME",
		Short: "Show the members of a ring and how the keys are shared",
		RunE: showRing(a, func(ctx context.Context, c *admin.Rings, args []string) (*api.Ring, error) {
			return c.DescribeRing(ctx, args[0])
		}, func(r *report, d *api.Ring) { ringText(r, d, "") }),
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
		Use:   "owner NAME KEY",
		Short: "Show which member of a ring handles a key",
		RunE: showRing(a, func(ctx context.Context, c *admin.Rings, args []string) (*api.RingOwner, error) {
			return c.FindRingOwner(ctx, args[0], args[1])
		}, ownerText),
	}
}

func (a *app) ringList() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the rings",
		Aliases: []string{"ls"},
		RunE: showRing(a, func(ctx context.Context, c *admin.Rings, _ []string) ([]api.Ring, error) {
			return c.ListRings(ctx)
		}, func(r *report, rings []api.Ring) {
			tableOf(r, []string{"RING", "MODE", "MEMBERS", "EPOCH", "WHY"}, rings, func(d api.Ring) []cell {
				if d.Damaged != "" {
					return []cell{left(d.Ring), left("-"), right("-"), right("-"), unreadableCell(d.Damaged)}
				}
				return []cell{left(d.Ring), left(d.Mode), number(len(d.Members)), number(d.Epoch), left(dash(d.Reason))}
			})
		}),
	}
}

func (a *app) ringDelete() *cobra.Command {
	var f deleteFlags
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a ring that has no members",
		Long: `Delete a ring and its history. A ring with members is a conflict (exit code 4).
On a terminal it asks first; --yes answers, and without a terminal it is needed.`,
	}
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	cmd.RunE = a.withRegistry(false, func(ctx context.Context, reg *registry.Registry, args []string) error {
		rings, look := admin.NewRings(reg), f
		_, err := rings.DescribeRing(ctx, args[0])
		if errors.Is(err, ring.ErrNotFound) { // or its deletion was cut short: DeleteRing finishes that
			look.yes = true
		} else if err != nil {
			return err
		}
		return a.remove(ctx, &look, api.Deletion{What: "ring", Name: args[0]}, fmt.Sprintf("Delete ring %s?", args[0]), func() error {
			return rings.DeleteRing(ctx, args[0])
		})
	})
	return cmd
}
