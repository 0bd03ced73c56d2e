package consumer

import (
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/topic"
)

// Layout says which partitions of a topic the units of a group read. The zero value: one each. A group
// has one layout for its life, since a unit's checkpoint is of its partitions: its name is stored with
// the group, and who has a layout of another name is refused, be it a member, a seek, or a retirement.
type Layout struct {
	// Name says all that Of goes by but the topic; "": that of the zero value.
	Name string
	// Of makes the units, as group.Config demands it: those of a storage topic before those of the next,
	// each after the ones that can hold earlier records of its keys. What a unit reads never changes with
	// the topic; only an end becomes known.
	Of func(*topic.Document) group.Layout
}

func (l Layout) of(doc *topic.Document) group.Layout {
	if l.Of == nil {
		return eachPartition(doc)
	}
	return l.Of(doc)
}

// fits is an error, fault.Invalid, when a group has another layout.
func (l Layout) fits(group string, m *registry.Meta) error {
	if m.Layout == l.Name {
		return nil
	}
	return fmt.Errorf("group %q: its units read what the layout %q says; here that is %q: %w", group, m.Layout, l.Name, fault.Invalid)
}

// Shards is the layout of so many units that share the partitions of a topic, the first ones the first, as
// evenly as can be. With one for each partition it is the zero value.
func Shards(n, partitions int) Layout {
	if n == partitions {
		return Layout{}
	}
	return Layout{Name: fmt.Sprintf("shards-%d", n), Of: func(doc *topic.Document) group.Layout { return share(doc, n) }}
}

// share makes units of the first storage topic for n shards, and of the others one for each partition: no
// shard reads those yet.
func share(doc *topic.Document, n int) group.Layout {
	l := make(group.Layout, n)
	for p := range doc.Storage[0].Partitions {
		u := &l[ShardOf(p, n, doc.Storage[0].Partitions)]
		u.Inputs = append(u.Inputs, group.UnitInput{Partition: p, End: doc.End(0, p)})
	}
	later := eachPartition(doc)[doc.Storage[0].Partitions:]
	for i := range later {
		later[i].From, later[i].To, later[i].Step = 0, n, 1
	}
	return slices.Concat(l, later)
}

// ShardOf is which of n shards reads a partition: shard s has those from s·partitions/n on.
func ShardOf(partition, n, partitions int) int { return (partition*n + n - 1) / partitions }

// LayOut tells a group what it consumes.
func (l Layout) LayOut(c *group.Config, doc *topic.Document) {
	c.Topic, c.Layout, c.LayoutName, c.First, c.Initial = doc.Name, l.of(doc), l.Name, 0, 0
	left := doc.Left()
	for n := range c.Layout {
		storage := c.Layout[n].Inputs[0].Storage
		if storage < left {
			c.First = n + 1
		}
		if storage > doc.Produce { // what nobody has produced to yet is consumed from its start
			c.Initial = n
			return
		}
	}
}

// eachPartition makes units of the partitions of a topic, each of one: numbered through all storage
// topics, each after those that can hold earlier records of its keys.
func eachPartition(doc *topic.Document) group.Layout {
	l, inputs := make(group.Layout, 0, doc.Units()), make([]group.UnitInput, doc.Units())
	for storage, s := range doc.Storage {
		for p := range s.Partitions {
			inputs[0] = group.UnitInput{Storage: storage, Partition: p, End: doc.End(storage, p)}
			at := group.LayoutUnit{Inputs: inputs[:1:1]}
			inputs = inputs[1:]
			if before, ok := doc.Parents(storage, p); ok {
				first := doc.Unit(storage-1, 0)
				at.From, at.To, at.Step = first+before.From, first+before.To, before.Step
			}
			l = append(l, at)
		}
	}
	return l
}
