package topic

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
)

// Plan plans a new storage topic of so many partitions and the switch to it, or with 0 the switch to the
// present next one.
func (h *Handles) Plan(ctx context.Context, name string, partitions int, shards []int) (*api.TopicPlan, error) {
	t, err := h.Current(ctx, name)
	if err != nil {
		return nil, err
	}
	d := t.Document()
	if err := errors.Join(d.CheckHere(), d.CheckPublic()); err != nil {
		return nil, err
	}
	if partitions != 0 {
		return d.PlanAdd(partitions, shards)
	}
	return d.PlanSwitch(shards)
}

// PlanAdd plans another storage topic of that many partitions, and the switch to it, for consumers
// with each of those shard counts.
func (d *Document) PlanAdd(partitions int, shards []int) (*api.TopicPlan, error) {
	if err := checkPartitions(d.Name, partitions); err != nil {
		return nil, err
	}
	last := d.Storage[len(d.Storage)-1]
	next := Storage{Partitions: partitions, K: factor(last, partitions)}
	p, err := d.plan(fmt.Sprintf("add a storage topic of %d partitions", partitions), last, next, shards)
	if err != nil {
		return nil, err
	}
	if base := last.Partitions / last.K; partitions%base != 0 && d.Router == Modulo {
		warn(p, "%d partitions are no multiple of %d, with which the growth began: K begins again at 1, and a new partition waits for up to %d of the %d before", partitions, base, p.Parents, last.Partitions)
	}
	if partitions > 3 && partitions%4 != 0 && partitions%6 != 0 { // the usual numbers of members can't share them evenly
		warn(p, "%d partitions share out badly; 1, 2, 3 and multiples of 4 or 6 are better", partitions)
	}
	return p, nil
}

// PlanSwitch plans the switch to the next storage topic. ErrConflict when there is none.
func (d *Document) PlanSwitch(shards []int) (*api.TopicPlan, error) {
	if d.Produce == len(d.Storage)-1 {
		return nil, fmt.Errorf("topic %q: producers are at its last storage topic, %d; add one first: %w", d.Name, d.Produce, fault.Conflict)
	}
	return d.plan(fmt.Sprintf("switch producers to storage topic %d", d.Produce+1), d.Storage[d.Produce], d.Storage[d.Produce+1], shards)
}

func (d *Document) plan(change string, from, to Storage, shards []int) (*api.TopicPlan, error) {
	p := &api.TopicPlan{Topic: d.Name, Change: change, From: planned(from), To: planned(to), Router: api.Router(d.Router), Hash: api.Hash(d.Hash)}
	for q := range to.Partitions {
		at := d.Router.parents(from, to, q)
		p.Parents = max(p.Parents, (at.To-at.From+at.Step-1)/at.Step)
	}
	for _, s := range shards {
		if s < 1 || s > to.Partitions {
			return nil, fmt.Errorf("topic %q: %d shards of %d partitions; expected 1 to %d: %w", d.Name, s, to.Partitions, to.Partitions, fault.Invalid)
		}
		sp := api.ShardPlan{Shards: s, Order: d.Router.keeps(s, from, to), Even: to.Partitions%s == 0}
		if !sp.Order {
			sp.Moved = d.Router.moved(s, from, to)
			p.Refused = fmt.Sprintf("with %d shards %.0f %% of the keys would change their shard, and overtake their earlier records", s, 100*sp.Moved)
			p.Remedy = d.remedy(s, from, to)
		}
		if !sp.Even {
			warn(p, "%d shards get unequal numbers of the %d partitions", s, to.Partitions)
		}
		p.Shards = append(p.Shards, sp)
	}
	return p, nil
}

func planned(s Storage) api.PlannedStorage {
	return api.PlannedStorage{Name: s.Name, Partitions: s.Partitions, K: s.K}
}

func warn(p *api.TopicPlan, format string, args ...any) {
	p.Warnings = append(p.Warnings, fmt.Sprintf(format, args...))
}

// Refusal is nil when a planned change keeps the order of keys. Else it says why not, and what to do instead.
func Refusal(p *api.TopicPlan) error {
	if p.Refused == "" {
		return nil
	}
	return fmt.Errorf("topic %q: %s: %s; %s: %w", p.Topic, p.Change, p.Refused, p.Remedy, fault.Conflict)
}

// remedy says what to do instead of a change that would break the order for so many shards.
func (d *Document) remedy(shards int, from, to Storage) string {
	base, next := from.Partitions/from.K, to.Partitions/to.K
	switch {
	case d.Router == RangeRouter && from.Partitions%shards != 0:
		return fmt.Sprintf("choose a number of shards that divides the %d partitions before and those to come", from.Partitions)
	case d.Router == RangeRouter:
		return fmt.Sprintf("choose partitions that %d divides", shards)
	case base != next && base%shards == 0:
		return fmt.Sprintf("choose partitions that are a multiple of %d, with which the growth began", base)
	}
	multiple := ""
	if base != next {
		multiple = ", and partitions that are a multiple of it"
	}
	return fmt.Sprintf("choose a number of shards that divides %d, with which the growth began%s, or create a topic with the range router, which keeps every number of shards that divides the partitions",
		base, multiple)
}

// Shard is the shard that owns a partition.
func Shard(p, partitions, shards int) int { return ((p+1)*shards - 1) / partitions }

// keeps reports whether every key stays in its shard.
func (r Router) keeps(shards int, from, to Storage) bool {
	switch base := from.Partitions / from.K; {
	case shards == 1 || from.Partitions == to.Partitions && (from.K == to.K || r == RangeRouter):
		return true
	case r == RangeRouter:
		return from.Partitions%shards == 0 && to.Partitions%shards == 0
	default:
		return base == to.Partitions/to.K && base%shards == 0
	}
}

// moved estimates the share of keys that change their shard, from many hashes.
func (r Router) moved(shards int, from, to Storage) float64 {
	const looks = 20_000
	n, h := 0, uint64(0)
	for range looks {
		h += 0x9e3779b97f4a7c15 // the hashes are spread: a Weyl sequence, mixed as SplitMix64 does
		x := (h ^ h>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
		a := Shard(r.Route(x, from.Partitions, from.K), from.Partitions, shards)
		if a != Shard(r.Route(x, to.Partitions, to.K), to.Partitions, shards) {
			n++
		}
	}
	return float64(n) / looks
}
