// Package assign computes which member should own which unit: pure functions from units and members
// to an assignment, the same on every machine.
//
// All rules agree on how many units a member gets. Its exact share is units × weight ÷ the sum of
// the weights; it gets that rounded down, and the units left over go one each to the members with
// the largest remainders (Hamilton's method). With equal weights that is balance within one. The
// rules differ in which units a member gets, and so in how many move when the members change:
// Sticky moves the fewest possible.
package assign

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"github.com/ringfence/ringfence/internal/fault"
)

// MaxWeight is the largest weight; a larger one counts as this.
const MaxWeight = 1 << 20

// Member takes part in an assignment.
type Member struct {
	ID     string
	Weight int    // its share relative to the others; 0 or less means 1
	Zone   string // where it runs; "": anywhere
}

// Request is the input of an assignor.
type Request struct {
	Members []Member // any order; IDs are distinct
	Current []string // by unit: the member that owns it now, or ""; its length is the number of units
	Zones   []string // by unit: its preferred zone; nil or "": anywhere
}

// Assignment is the member ID that should own each unit; "" only when there are no members.
type Assignment []string

// Assignor is a rule. Assign is deterministic: it depends on the content of the request only,
// not on the order of Members.
type Assignor interface {
	Name() string // as stored in group documents: "fair", "roundrobin", "sticky"
	Assign(Request) Assignment
}

// ByName returns the rule of that name; "" is Sticky, the default.
func ByName(name string) (Assignor, error) {
	for _, a := range []Assignor{Sticky{}, FairShare{}, RoundRobin{}} {
		if name == a.Name() || name == "" {
			return a, nil
		}
	}
	return nil, fmt.Errorf("assignor %.40q: expected \"sticky\", \"fair\" or \"roundrobin\": %w", name, fault.Invalid)
}

// Moves counts the units that a live owner would have to give up: those whose current owner is one
// of the members and not the one that next names. Units without a live owner do not count; they
// start somewhere in any case.
func Moves(req Request, next Assignment) int {
	live := make(map[string]bool, len(req.Members))
	for _, m := range req.Members {
		live[m.ID] = true
	}
	n := 0
	for u, owner := range req.Current {
		if live[owner] && next[u] != owner {
			n++
		}
	}
	return n
}

// sorted returns the members in the one order that the rules work in.
func sorted(members []Member) []Member {
	s := slices.Clone(members)
	slices.SortFunc(s, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Weight, b.Weight), cmp.Compare(a.Zone, b.Zone))
	})
	return s
}

// entitlement is the part of the shares that follows from the weights alone.
type entitlement struct {
	share []int // by member: units it gets for certain
	tied  []int // members with the same remainder; spare of them get one unit more
	spare int
}

// entitle splits units by weight. The rule decides a tie.
func entitle(members []Member, units int) entitlement {
	e := entitlement{share: make([]int, len(members))}
	if len(members) == 0 {
		return e
	}
	var total uint64
	for _, m := range members {
		total += weight(m)
	}
	rest := make([]uint64, len(members))
	order := make([]int, len(members))
	e.spare = units
	for i, m := range members {
		hi, lo := bits.Mul64(uint64(units), weight(m))
		share, r := bits.Div64(hi, lo, total)
		e.share[i], rest[i], order[i] = int(share), r, i
		e.spare -= int(share)
	}
	if e.spare == 0 {
		return e
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rest[b], rest[a]) })
	cut := rest[order[e.spare-1]]
	for _, i := range order {
		switch {
		case e.spare > 0 && rest[i] > cut:
			e.share[i]++
			e.spare--
		case rest[i] == cut:
			e.tied = append(e.tied, i)
		}
	}
	return e
}

// inOrder decides the tie in favour of the first members.
func (e entitlement) inOrder() []int {
	for _, i := range e.tied[:e.spare] {
		e.share[i]++
	}
	return e.share
}

func weight(m Member) uint64 {
	return uint64(min(max(m.Weight, 1), MaxWeight))
}
