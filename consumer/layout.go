package consumer

import (
	"fmt"

	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/topic"
)

// Layout says which partitions of a topic the units of a group read. The zero value: one each. A group
// never changes its layout, since a unit's checkpoint is of its partitions: the layout's name is
// stored with the group, and every member, seek or retirement with another one is refused.
type Layout struct {
	// Name identifies all that Of depends on except the topic; "": the zero value.
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

// fits is fault.Invalid when a group has another layout.
func (l Layout) fits(group string, m *protocol.Meta) error {
	if m.Layout == l.Name {
		return nil
	}
	return fmt.Errorf("group %q: its units read what the layout %q says; here that is %q: %w", group, m.Layout, l.Name, fault.Invalid)
}

// Shards is the layout of n units that share the partitions of one storage topic and read nothing else: the
// first ones the first partitions, as evenly as possible. No unit is ever finished: parked records may be
// delivered long after the end of what it reads.
func Shards(storage, n, partitions int) Layout {
	l := Layout{Of: func(*topic.Document) group.Layout {
		units := make(group.Layout, n)
		for p := range partitions {
			u := &units[topic.Shard(p, partitions, n)]
			u.Inputs = append(u.Inputs, group.UnitInput{Storage: storage, Partition: p, End: -1})
		}
		return units
	}}
	switch {
	case storage > 0:
		l.Name = protocol.ShardLayout(storage, n)
	case n != partitions:
		l.Name = fmt.Sprintf("shards-%d", n)
	}
	return l
}

// LayOut sets in c what the group consumes.
func (l Layout) LayOut(c *group.Config, doc *topic.Document) {
	c.Topic, c.Layout, c.LayoutName, c.Closed, c.First, c.Initial = doc.Name, l.of(doc), l.Name, l.Of != nil, 0, 0
	left := doc.Left()
	for n := range c.Layout {
		storage := c.Layout[n].Inputs[0].Storage
		if storage < left {
			c.First = n + 1
		}
		if storage > doc.Produce { // a storage topic without records yet is consumed from its start
			c.Initial = n
			return
		}
	}
}

// eachPartition makes a unit of each partition of a topic: numbered through all storage topics,
// each after those that can hold earlier records of its keys.
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
