package benchkit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/assign"
)

// AssignConfig says what to measure; zero fields have defaults.
type AssignConfig struct {
	Common
	Units   int // default 10,000
	Members int // default 1,000
}

// assignLimit is what the default assignor may take for 10,000 units and 1,000 members, in ms.
const assignLimit = 50

// Assign measures the assignors: time, and moves when a member joins or leaves.
func Assign(ctx context.Context, c AssignConfig) (*Result, error) {
	c.Common = c.Common.withDefaults()
	setDefault(&c.Units, 10000)
	setDefault(&c.Members, 1000)
	var d demand
	d.positive("--units", c.Units)
	d.that(c.Members > 1, "--members is %d; expected 2 or more", c.Members)
	if err := errors.Join(d.errs...); err != nil {
		return nil, err
	}
	res := &Result{Bench: "assign", About: fmt.Sprintf("%s, %s, %s", many(c.Units, "unit"), many(c.Members, "member"), many(c.Rounds, "round"))}
	var game contest
	var moved []Figure
	for _, a := range []assign.Assignor{assign.Sticky{}, assign.FairShare{}, assign.RoundRobin{}} {
		sticky := a.Name() == assign.Sticky{}.Name()
		for _, s := range c.scenes(a) {
			name := a.Name() + ", " + s.name
			var next assign.Assignment
			e := game.add(name, "ms", "", 1, func(*histogram) (float64, error) {
				began := time.Now()
				next = a.Assign(s.req)
				return float64(time.Since(began)) / 1e6, ctx.Err()
			})
			next = a.Assign(s.req)
			moves := assign.Moves(s.req, next)
			res.Notes = append(res.Notes, fmt.Sprintf("%s: %d units of live members move; at least %d must", name, moves, s.fewest))
			if sticky {
				e.atMost(name, assignLimit)
				moved = append(moved, newFigure(name+", units of live members that move", "units", []float64{float64(moves)}, float64(s.fewest), true))
			}
		}
	}
	rows, figures, err := game.run(c.Rounds, c.Logf)
	res.Rows, res.Figures = rows, append(figures, moved...)
	return res, err
}

// scene is one change of a group.
type scene struct {
	name   string
	req    assign.Request
	fewest int // units of live members that have to move
}

func (c *AssignConfig) scenes(a assign.Assignor) []scene {
	members := make([]assign.Member, c.Members+1)
	for i := range members {
		members[i].ID = fmt.Sprintf("member-%05d", i)
	}
	nobody := make([]string, c.Units)
	settled := a.Assign(assign.Request{Members: members[:c.Members], Current: nobody})
	return []scene{
		{"from nothing", assign.Request{Members: members[:c.Members], Current: nobody}, 0},
		{"a member joins", assign.Request{Members: members, Current: settled}, c.Units / len(members)},
		{"a member leaves", assign.Request{Members: without(members[:c.Members], c.Members/2), Current: settled}, 0},
	}
}

func without(members []assign.Member, i int) []assign.Member {
	return slices.Delete(slices.Clone(members), i, i+1)
}
