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
type assignors struct{ Units, Members int }

func (c *assignors) settings(s *settings) {
	s.rounds("rounds of each measurement, taken in turn")
	s.number(&c.Units, "units", 10000, 1, "partitions to share")
	s.number(&c.Members, "members", 1000, 2, "members to share them")
}

func (c *assignors) measure(ctx context.Context, r *run) error {
	scenes := c.scenes()
	for _, s := range scenes {
		r.Add(measure.Entry{Name: s.name, Unit: "ms", Kind: "assign", Turn: func(*measure.Histogram) (float64, error) {
			began := time.Now()
			assign.Sticky{}.Assign(s.req)
			return float64(time.Since(began)) / 1e6, ctx.Err()
		}})
	}
	for _, s := range scenes {
		moves := assign.Moves(s.req, assign.Sticky{}.Assign(s.req))
		r.Show("moves", "units", s.fewest, []float64{float64(moves)}, s.name)
		r.res.Notes = append(r.res.Notes, fmt.Sprintf("%s: %d units of live members move; at least %d must", s.name, moves, s.fewest))
	}
	if err := r.play(); err != nil {
		return err
	}
	return r.done("%s, %s, %s", measure.Many(c.Units, "unit"), measure.Many(c.Members, "member"), measure.Many(r.Rounds, "round"))
}

// scene is one change of a group.
type scene struct {
	name   string
	req    assign.Request
	fewest int // units of live members that have to move
}

func (c *assignors) scenes() []scene {
	members := make([]assign.Member, c.Members+1)
	for i := range members {
		members[i].ID = fmt.Sprintf("member-%05d", i)
	}
	all, gone := members[:c.Members], c.Members/2
	nobody := make([]string, c.Units)
	settled := assign.Sticky{}.Assign(assign.Request{Members: all, Current: nobody})
	return []scene{
		{"sticky, from nothing", assign.Request{Members: all, Current: nobody}, 0},
		{"sticky, a member joins", assign.Request{Members: members, Current: settled}, c.Units / len(members)},
		{"sticky, a member leaves", assign.Request{Members: slices.Delete(slices.Clone(all), gone, gone+1), Current: settled}, 0},
	}
}
