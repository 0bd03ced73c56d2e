package topic

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
)

// The page's example: 2 partitions grow to 10 and to 20.
func grownTo(r Router, counts ...int) *Document {
	d := &Document{Name: "t", Router: r, Hash: XXHash64, Storage: []Storage{{Partitions: counts[0], K: 1}}}
	for _, n := range counts[1:] {
		d.Storage = append(d.Storage, Storage{Partitions: n, K: factor(d.Storage[len(d.Storage)-1], n)})
	}
	return d
}

func TestTheWorkedExampleOfTwoTenTwenty(t *testing.T) {
	t.Parallel()
	d := grownTo(Modulo, 2, 10, 20)
	if d.Storage[1].K != 5 || d.Storage[2].K != 10 {
		t.Errorf("factors of %+v; expected 1, 5, 10", d.Storage)
	}
	d.Produce = 1
	p, err := d.PlanSwitch([]int{2, 10})
	if err != nil {
		t.Fatal(err)
	}
	if !p.Shards[0].Order || p.Shards[1].Order || p.Shards[1].Moved < 0.75 || p.Shards[1].Moved > 0.85 {
		t.Errorf("%+v; expected 2 shards to be kept, and with 10 of them 80 %% of the keys to move", p.Shards)
	}
	if err := Refusal(p); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "range router") {
		t.Errorf("%v; expected a refusal with a remedy", err)
	}
	ranged := grownTo(RangeRouter, 2, 10, 20)
	ranged.Produce = 1
	if p, err = ranged.PlanSwitch([]int{2, 10}); err != nil || Refusal(p) != nil {
		t.Errorf("router range: %v, %v; expected the order to hold", err, Refusal(p))
	}
}

// For every pair of counts in the allowed set, and every number of shards, the rule says what a look
// at many keys shows, for both routers.
func TestShardsAreKeptExactlyWhereTheRuleSaysSo(t *testing.T) {
	t.Parallel()
	counts := []int{1, 2, 3, 4, 6, 8, 12, 16, 18, 20, 24}
	for _, r := range []Router{Modulo, RangeRouter} {
		for _, a := range counts {
			for _, b := range counts {
				d := grownTo(r, a, b)
				for s := 1; s <= min(a, b); s++ {
					keeps, moved := r.keeps(s, d.Storage[0], d.Storage[1]), r.moved(s, d.Storage[0], d.Storage[1])
					if keeps != (moved == 0) {
						t.Errorf("%s, %d to %d partitions, %d shards: the rule says kept %v, %.4f of the keys move", r, a, b, s, keeps, moved)
					}
				}
			}
		}
	}
}

// A key that may have earlier records in a partition must find it among the parents, and where the
// counts divide there are no more parents than needed.
func TestParentsAreWhereEarlierRecordsOfAKeyCanBe(t *testing.T) {
	t.Parallel()
	for _, r := range []Router{Modulo, RangeRouter} {
		for _, counts := range [][]int{{7, 10}, {2, 10, 20}, {4, 8, 24}, {20, 10}, {12, 18}, {6, 4, 12}, {24, 8, 2}, {5, 5}, {3, 9, 6}} {
			d := grownTo(r, counts...)
			for i := 1; i < len(counts); i++ {
				from, to := d.Storage[i-1], d.Storage[i]
				seen := make([]map[int]bool, to.Partitions)
				for p := range seen {
					seen[p] = map[int]bool{}
				}
				for n := range 50_000 {
					h := XXHash64.Sum(fmt.Appendf(nil, "key-%d", n))
					seen[r.Route(h, to.Partitions, to.K)][r.Route(h, from.Partitions, from.K)] = true
				}
				for p := range seen {
					at, _ := d.Parents(i, p)
					n := 0
					for q := at.From; q < at.To; q += at.Step {
						n++
						delete(seen[p], q)
					}
					if len(seen[p]) > 0 {
						t.Errorf("%s %v: partition %d of %d has keys of %v, which are no parents (%+v)", r, counts, p, i, seen[p], at)
					}
					if exact := r == RangeRouter || to.Partitions%from.Partitions == 0 && from.K == 1; exact && n > (from.Partitions+to.Partitions-1)/to.Partitions+1 {
						t.Errorf("%s %v: partition %d of %d waits for %d partitions", r, counts, p, i, n)
					}
				}
			}
		}
	}
}

// What a refusal recommends is accepted.
func TestRemediesAreOnes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		router          Router
		from, to        int
		shards          int
		says            string
		better, instead int // partitions and shards, as it says
	}{
		{Modulo, 2, 10, 10, "shards that divides 2, with which the growth began, or", 10, 2},
		{Modulo, 2, 5, 2, "multiple of 2, with", 6, 2},
		{Modulo, 2, 5, 3, "shards that divides 2, with which the growth began, and partitions that are a multiple of it", 4, 2},
		{RangeRouter, 4, 6, 4, "partitions that 4 divides", 8, 4},
		{RangeRouter, 2, 10, 10, "shards that divides the 2 partitions before", 10, 2},
	} {
		d := grownTo(c.router, c.from)
		p, err := d.PlanAdd(c.to, []int{c.shards})
		if err != nil || Refusal(p) == nil || !strings.Contains(Refusal(p).Error(), c.says) {
			t.Errorf("%s, %d to %d, %d shards: %v, %v; expected a remedy with %q", c.router, c.from, c.to, c.shards, err, Refusal(p), c.says)
		}
		if p, err = d.PlanAdd(c.better, []int{c.instead}); err != nil || Refusal(p) != nil {
			t.Errorf("%s, %d to %d, %d shards, as it was told: %v, %v", c.router, c.from, c.better, c.instead, err, Refusal(p))
		}
	}
}

func TestPlansWarnOfNumbersThatShareOutBadly(t *testing.T) {
	t.Parallel()
	d := grownTo(Modulo, 4)
	for partitions, warnings := range map[int]int{8: 0, 12: 0, 7: 2, 10: 2, 6: 1} {
		p, err := d.PlanAdd(partitions, nil)
		if err != nil || len(p.Warnings) != warnings {
			t.Errorf("4 to %d: %q, %v; expected %d warnings", partitions, p.Warnings, err, warnings)
		}
	}
	if _, err := d.PlanAdd(0, nil); !errors.Is(err, fault.Invalid) {
		t.Errorf("0 partitions: %v", err)
	}
	if _, err := d.PlanAdd(8, []int{9}); !errors.Is(err, fault.Invalid) {
		t.Errorf("9 shards of 8 partitions: %v", err)
	}
	if _, err := d.PlanSwitch(nil); !errors.Is(err, fault.Conflict) {
		t.Errorf("nowhere to switch to: %v", err)
	}
}
