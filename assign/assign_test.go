package assign_test

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"sort"
	"testing"

	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/assign"
	"github.com/ringfence/ringfence/internal/fault"
)

var rules = []assign.Assignor{assign.Sticky{}, assign.FairShare{}, assign.RoundRobin{}}

func TestEveryRuleIsFoundByItsName(t *testing.T) {
	t.Parallel()
	for _, want := range rules {
		got, err := assign.ByName(want.Name())
		if err != nil || got != want {
			t.Errorf("ByName(%q) = %v, %v", want.Name(), got, err)
		}
	}
	if got, err := assign.ByName(""); err != nil || got != rules[0] {
		t.Errorf(`ByName("") = %v, %v; want sticky`, got, err)
	}
	if _, err := assign.ByName("stick"); !errors.Is(err, fault.Invalid) {
		t.Errorf(`ByName("stick"): %v; want an invalid argument`, err)
	}
}

func TestFairShareDealsContiguousBlocksInMemberOrder(t *testing.T) {
	t.Parallel()
	got := assign.FairShare{}.Assign(request(8, "c", "a", "b"))
	want := assign.Assignment{"a", "a", "a", "b", "b", "b", "c", "c"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestRoundRobinInterleavesMembers(t *testing.T) {
	t.Parallel()
	got := assign.RoundRobin{}.Assign(request(5, "b", "a"))
	want := assign.Assignment{"a", "b", "a", "b", "a"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNoMembersOwnNothing(t *testing.T) {
	t.Parallel()
	for _, rule := range rules {
		got := rule.Assign(assign.Request{Current: []string{"gone", ""}})
		if !slices.Equal(got, assign.Assignment{"", ""}) {
			t.Errorf("%s: %v", rule.Name(), got)
		}
	}
}

func TestSurplusMembersStandBy(t *testing.T) {
	t.Parallel()
	for _, rule := range rules {
		got := count(rule.Assign(request(2, "a", "b", "c", "d")))
		if len(got) != 2 {
			t.Errorf("%s: two units went to %v", rule.Name(), got)
		}
	}
}

func TestStickyLeavesTheUnitsOfSurvivorsWhereTheyAre(t *testing.T) {
	t.Parallel()
	req := request(6, "b", "c")
	req.Current = []string{"a", "b", "c", "a", "b", "c"}
	got := assign.Sticky{}.Assign(req)
	want := assign.Assignment{"b", "b", "c", "c", "b", "c"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestStickyPlacesUnitsInTheirZoneWhenThatMovesNothingMore(t *testing.T) {
	t.Parallel()
	req := assign.Request{
		Members: []assign.Member{{ID: "a", Zone: "east"}, {ID: "b", Zone: "west"}},
		Current: []string{"a", "a", "a", "a"},
		Zones:   []string{"west", "east", "east", "west"},
	}
	got := assign.Sticky{}.Assign(req)
	if want := (assign.Assignment{"b", "a", "a", "b"}); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	req.Current = []string{"a", "b", "a", "b"} // balanced: zones alone move nothing
	if got := (assign.Sticky{}).Assign(req); !slices.Equal(got, req.Current) {
		t.Errorf("got %v, want it unchanged", got)
	}
	req.Current, req.Zones = make([]string, 3), []string{"west", "west", "west"}
	if got := (assign.Sticky{}).Assign(req); count(got)["b"] != 2 {
		t.Errorf("got %v, want the spare unit in the west", got)
	}
}

func TestExtremeWeightsAreClampedNotOverflowed(t *testing.T) {
	t.Parallel()
	req := request(1000, "a", "b", "c")
	req.Members[0].Weight = int(^uint(0) >> 1)
	req.Members[1].Weight = -5
	for _, rule := range rules {
		if got := count(rule.Assign(req)); got["a"] != 1000 {
			t.Errorf("%s: %v; want all at the heaviest", rule.Name(), got)
		}
	}
}

func TestPropertiesOfEveryRule(t *testing.T) {
	t.Parallel()
	for _, rule := range rules {
		t.Run(rule.Name(), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				req := draw(t)
				got := rule.Assign(req)
				checkShares(t, req, got)
				shuffled := req
				shuffled.Members = rapid.Permutation(req.Members).Draw(t, "order")
				if again := rule.Assign(shuffled); !slices.Equal(got, again) {
					t.Fatalf("depends on the order of the members:\n%v\n%v", got, again)
				}
				settled := req
				settled.Current = got
				if again := rule.Assign(settled); len(req.Members) > 0 && !slices.Equal(got, again) {
					t.Fatalf("assigning again moves units:\n%v\n%v", got, again)
				}
			})
		})
	}
}

func TestStickyMovesNoMoreThanTheBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		req := draw(t)
		got := assign.Sticky{}.Assign(req)
		if moves, bound := assign.Moves(req, got), fewestMoves(req); moves != bound {
			t.Fatalf("%d moves, the bound is %d: %v → %v", moves, bound, req.Current, got)
		}
	})
}

// TestStickyOnlyTouchesWhatAJoinOrLeaveNeeds walks a group through joins and leaves.
func TestStickyOnlyTouchesWhatAJoinOrLeaveNeeds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		units := rapid.IntRange(1, 300).Draw(t, "units")
		req := assign.Request{Current: make([]string, units)}
		for step := range rapid.IntRange(1, 12).Draw(t, "steps") {
			if n := len(req.Members); n > 1 && rapid.Bool().Draw(t, "leave") {
				i := rapid.IntRange(0, n-1).Draw(t, "who")
				req.Members = slices.Delete(req.Members, i, i+1)
				next := assign.Sticky{}.Assign(req)
				if moves := assign.Moves(req, next); moves != 0 {
					t.Fatalf("a leave moved %d units of the members that stay", moves)
				}
				req.Current = next
				continue
			}
			joined := fmt.Sprintf("m%d", step)
			req.Members = append(req.Members, assign.Member{ID: joined})
			next := assign.Sticky{}.Assign(req)
			moves := assign.Moves(req, next)
			if want := units / len(req.Members); len(req.Members) > 1 && moves != want {
				t.Fatalf("a join of %d members over %d units moved %d, want %d", len(req.Members), units, moves, want)
			}
			for u, owner := range next {
				if owner != req.Current[u] && owner != joined {
					t.Fatalf("unit %d moved from %q to %q, not to the new member", u, req.Current[u], owner)
				}
			}
			req.Current = next
		}
	})
}

func TestStickyZonesCostNoMovesAndNoBalance(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		req := draw(t)
		blind := req
		blind.Zones = nil
		zoned, plain := assign.Sticky{}.Assign(req), assign.Sticky{}.Assign(blind)
		if a, b := assign.Moves(req, zoned), assign.Moves(blind, plain); a != b {
			t.Fatalf("%d moves with zones, %d without", a, b)
		}
	})
}

func request(units int, ids ...string) assign.Request {
	req := assign.Request{Current: make([]string, units)}
	for _, id := range ids {
		req.Members = append(req.Members, assign.Member{ID: id})
	}
	return req
}

func draw(t *rapid.T) assign.Request {
	zone := rapid.SampledFrom([]string{"", "x", "y", "z"})
	weight := rapid.SampledFrom([]int{0, 1, 1, 2, 3, 7})
	req := assign.Request{Current: make([]string, rapid.IntRange(0, 60).Draw(t, "units"))}
	owners := []string{"", "dead1", "dead2"}
	weighted, zoned := rapid.Bool().Draw(t, "weighted"), rapid.Bool().Draw(t, "zoned")
	for i := range rapid.IntRange(0, 9).Draw(t, "members") {
		m := assign.Member{ID: fmt.Sprintf("m%d", i)}
		if weighted {
			m.Weight = weight.Draw(t, "weight")
		}
		if zoned {
			m.Zone = zone.Draw(t, "home")
		}
		req.Members = append(req.Members, m)
		owners = append(owners, m.ID, m.ID)
	}
	for u := range req.Current {
		req.Current[u] = rapid.SampledFrom(owners).Draw(t, "owner")
		if zoned {
			req.Zones = append(req.Zones, zone.Draw(t, "zone"))
		}
	}
	return req
}

func count(a assign.Assignment) map[string]int {
	n := map[string]int{}
	for _, id := range a {
		n[id]++
	}
	return n
}

// checkShares: every unit has one owner that is a member; each member has its exact share
// rounded down or up, and nobody with a smaller remainder was rounded up before another.
func checkShares(t *rapid.T, req assign.Request, got assign.Assignment) {
	t.Helper()
	if len(got) != len(req.Current) {
		t.Fatalf("%d units assigned of %d", len(got), len(req.Current))
	}
	n := count(got)
	if len(req.Members) == 0 {
		if n[""] != len(got) {
			t.Fatalf("owners without members: %v", got)
		}
		return
	}
	sum := 0
	var up, down []*big.Rat
	for _, m := range req.Members {
		floor, rest := exactShare(req, m)
		sum += n[m.ID]
		switch n[m.ID] - floor {
		case 0:
			down = append(down, rest)
		case 1:
			up = append(up, rest)
		default:
			t.Fatalf("member %+v has %d units, its share is %d and %v", m, n[m.ID], floor, rest)
		}
	}
	if sum != len(got) {
		t.Fatalf("%d of %d units went to members", sum, len(got))
	}
	for _, u := range up {
		for _, d := range down {
			if d.Cmp(u) > 0 {
				t.Fatalf("remainder %v got a spare unit before %v: %v", u, d, n)
			}
		}
	}
}

func exactShare(req assign.Request, m assign.Member) (int, *big.Rat) {
	total := int64(0)
	for _, o := range req.Members {
		total += int64(max(1, o.Weight))
	}
	share := big.NewRat(int64(len(req.Current))*int64(max(1, m.Weight)), total)
	floor := new(big.Int).Quo(share.Num(), share.Denom())
	return int(floor.Int64()), share.Sub(share, new(big.Rat).SetInt(floor))
}

// fewestMoves is what a live owner must give up at least, from the shares alone: a member keeps
// at most its share, and the spare units go where they save the most.
func fewestMoves(req assign.Request) int {
	type seat struct {
		rest *big.Rat
		gain int
	}
	var seats []seat
	spare, moves := len(req.Current), 0
	held := count(req.Current)
	for _, m := range req.Members {
		floor, rest := exactShare(req, m)
		spare -= floor
		excess := max(0, held[m.ID]-floor)
		moves += excess
		seats = append(seats, seat{rest: rest, gain: min(1, excess)})
	}
	sort.Slice(seats, func(i, j int) bool {
		if c := seats[i].rest.Cmp(seats[j].rest); c != 0 {
			return c > 0
		}
		return seats[i].gain > seats[j].gain
	})
	for _, s := range seats[:min(spare, len(seats))] {
		moves -= s.gain
	}
	return moves
}
