package consumer

import (
	"context"
	"math"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/topic"
)

// Drops returns what a retention would drop of a topic, by partition.
func (c *Groups) Drops(ctx context.Context, t *topic.Topic, r topic.Retention) ([]api.RetentionDrop, error) {
	needed, err := c.neededBy(ctx, t)
	if err != nil {
		return nil, err
	}
	drops := []api.RetentionDrop{}
	doc := t.Document()
	for storage := doc.Left(); storage < len(doc.Storage); storage++ {
		s := doc.Storage[storage]
		log, err := t.Storage(storage)
		if err != nil {
			return nil, err
		}
		parts, err := topic.ExtentsOf(ctx, log, s.Partitions, r)
		if err != nil {
			return nil, err
		}
		total := 0.0
		for _, e := range parts {
			total += e.Bytes
		}
		excess := 0.0
		if r.Bytes > 0 && total > float64(r.Bytes) {
			excess = (total - float64(r.Bytes)) / total
		}
		for p, e := range parts {
			due := max(e.Expired, e.After(excess*e.Bytes))
			until := due
			if !r.Force {
				until = max(e.First, min(due, needed[storage][p]))
			}
			records, bytes := e.Count(e.First, until)
			held, _ := e.Count(until, due)
			if records+held > 0 {
				drops = append(drops, api.RetentionDrop{Storage: storage, Partition: p, First: e.First, Until: until, Records: records, Bytes: bytes, Held: held})
			}
		}
	}
	return drops, nil
}

// neededBy returns the lowest offset of each partition that a group still needs, by storage topic.
func (c *Groups) neededBy(ctx context.Context, t *topic.Topic) ([][]int64, error) {
	doc := t.Document()
	needed := make([][]int64, len(doc.Storage))
	for i, s := range doc.Storage {
		needed[i] = make([]int64, s.Partitions)
		for p := range needed[i] {
			needed[i][p] = math.MaxInt64
		}
	}
	groups, err := c.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, info := range groups {
		if info.Topic != doc.Name {
			continue
		}
		g, err := protocol.NewGroup(c.Registry, info.Name)
		if err != nil {
			return nil, err
		}
		st, err := g.Load(ctx, true)
		if err != nil {
			return nil, err
		}
		for i, s := range doc.Storage {
			if st.Past(info.Name, i) {
				continue
			}
			for p, at := range protocol.LowestNeeded(st.Units, i, s.Partitions) {
				needed[i][p] = min(needed[i][p], at)
			}
		}
	}
	return needed, nil
}
