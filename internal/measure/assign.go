package measure

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence/assign"
	"github.com/ringfence/ringfence/internal/script"
)

// assignors measures the default assignor: time, and moves when a member joins or leaves.
type assignors struct{ Units, Members int }

func (c *assignors) flags(fl *pflag.FlagSet, common *Common) {
	common.roundsVar(fl)
	numberVar(fl, &c.Units, "units", 10_000, 1, "partitions to share")
	numberVar(fl, &c.Members, "members", 1000, 2, "members that share them")
}

func (c *assignors) measure(ctx context.Context, r *run) {
	members := make([]assign.Member, c.Members+1)
	for i := range members {
		members[i].ID = fmt.Sprintf("member-%05d", i)
	}
	all, gone := members[:c.Members], c.Members/2
	unowned := make([]string, c.Units)
	settled := assign.Sticky{}.Assign(assign.Request{Members: all, Current: unowned})
	changes := []struct {
		name   string
		req    assign.Request
		fewest int // units of live members that have to move
	}{
		{"sticky, from nothing", assign.Request{Members: all, Current: unowned}, 0},
		{"sticky, a member joins", assign.Request{Members: members, Current: settled}, c.Units / len(members)},
		{"sticky, a member leaves", assign.Request{Members: slices.Delete(slices.Clone(all), gone, gone+1), Current: settled}, 0},
	}
	for _, change := range changes {
		r.Add(Entry{Name: change.name, Unit: "ms", Turn: func(*Turn) float64 {
			script.Check(ctx.Err())
			began := time.Now()
			assign.Sticky{}.Assign(change.req)
			return float64(time.Since(began)) / 1e6
		}})
	}
	for _, change := range changes {
		moves := assign.Moves(change.req, assign.Sticky{}.Assign(change.req))
		if change.fewest > 0 {
			r.Show("moves", "x", float64(moves)/float64(change.fewest))
		}
		r.res.Notes = append(r.res.Notes, fmt.Sprintf("%s: %d units of live members move; at least %d must", change.name, moves, change.fewest))
	}
	r.play()
	r.done("%s, %s, %s", Many(c.Units, "unit"), Many(c.Members, "member"), Many(r.Rounds, "round"))
}
