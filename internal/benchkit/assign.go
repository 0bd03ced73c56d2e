package benchkit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/assign"
	"github.com/ringfence/ringfence/internal/measure"
)

// assignors measures the default assignor: time, and moves when a member joins or leaves.
type assignors struct {
	Units   int `default:"10000" usage:"partitions to share"`
	Members int `default:"1000" least:"2" usage:"members to share them"`
}

func (c *assignors) measure(ctx context.Context, r *run) {
	members := make([]assign.Member, c.Members+1)
	for i := range members {
		members[i].ID = fmt.Sprintf("member-%05d", i)
	}
	all, gone := members[:c.Members], c.Members/2
	nobody := make([]string, c.Units)
	settled := assign.Sticky{}.Assign(assign.Request{Members: all, Current: nobody})
	changes := []struct {
		name   string
		req    assign.Request
		fewest int // units of live members that have to move
	}{
		{"sticky, from nothing", assign.Request{Members: all, Current: nobody}, 0},
		{"sticky, a member joins", assign.Request{Members: members, Current: settled}, c.Units / len(members)},
		{"sticky, a member leaves", assign.Request{Members: slices.Delete(slices.Clone(all), gone, gone+1), Current: settled}, 0},
	}
	for _, change := range changes {
		r.Add(measure.Entry{Name: change.name, Unit: "ms", Kind: "assign", Turn: func(*measure.Turn) float64 {
			check(ctx.Err())
			began := time.Now()
			assign.Sticky{}.Assign(change.req)
			return float64(time.Since(began)) / 1e6
		}})
	}
	for _, change := range changes {
		moves := assign.Moves(change.req, assign.Sticky{}.Assign(change.req))
		r.Show("moves", "units", change.fewest, []float64{float64(moves)}, change.name)
		r.res.Notes = append(r.res.Notes, fmt.Sprintf("%s: %d units of live members move; at least %d must", change.name, moves, change.fewest))
	}
	r.play()
	r.done("%s, %s, %s", measure.Many(c.Units, "unit"), measure.Many(c.Members, "member"), measure.Many(r.Rounds, "round"))
}
