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
	members := make([]assign.Member, c.Members+1)
	for i := range members {
		members[i].ID = fmt.Sprintf("member-%05d", i)
	}
	res := &Result{Bench: "assign", About: fmt.Sprintf("%d units, %d members, %d rounds", c.Units, c.Members, c.Rounds)}
	var game contest
	for _, a := range []assign.Assignor{assign.Sticky{}, assign.FairShare{}, assign.RoundRobin{}} {
		settled := a.Assign(assign.Request{Members: members[:c.Members], Current: make([]string, c.Units)})
		for _, turn := range []struct {
			name   string
			req    assign.Request
			fewest int
		}{
			{"from nothing", assign.Request{Members: members[:c.Members], Current: make([]string, c.Units)}, 0},
			{"a member joins", assign.Request{Members: members, Current: settled}, c.Units / len(members)},
			{"a member leaves", assign.Request{Members: without(members[:c.Members], c.Members/2), Current: settled}, 0},
		} {
			var next assign.Assignment
			game.add(a.Name()+", "+turn.name, "ms", "", 1, func(*histogram) (float64, error) {
				began := time.Now()
				next = a.Assign(turn.req)
				return float64(time.Since(began)) / 1e6, ctx.Err()
			})
			next = a.Assign(turn.req)
			res.Notes = append(res.Notes, fmt.Sprintf("%s, %s: %d units of live members move; at least %d must", a.Name(), turn.name, assign.Moves(turn.req, next), turn.fewest))
		}
	}
	rows, err := game.run(c.Rounds, c.Logf)
	res.Rows = rows
	return res, err
}

func without(members []assign.Member, i int) []assign.Member {
	return slices.Delete(slices.Clone(members), i, i+1)
}
