package history

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/group/protocol"
)

// coverage is what a checkpoint says is done, by partition.
type coverage map[place]protocol.Position

// cover reads the positions of a checkpoint.
func cover(positions []protocol.Position) coverage {
	c := make(coverage, len(positions))
	for _, p := range positions {
		c[place{p.Storage, p.Partition}] = p
	}
	return c
}

// has says whether the record is done.
func (c coverage) has(at place, offset int64) bool {
	p, ok := c[at]
	if !ok {
		return false
	}
	return offset < p.Next || inRanges(p.Done, offset)
}

// missing returns what of old is no longer done in c; "" when nothing.
func (c coverage) missing(old coverage) string {
	for _, at := range inOrder(old) {
		was, is := old[at], c[at]
		if was.Next > is.Next {
			return fmt.Sprintf("in %s from %d back to %d", at, was.Next, is.Next)
		}
		for _, r := range was.Done {
			for o := r[0]; o < r[1]; o++ {
				if !c.has(at, o) {
					return fmt.Sprintf("in %s the finished record %d was forgotten", at, o)
				}
			}
		}
	}
	return ""
}

// inOrder returns the partitions of a map in order, so that reports are the same each time.
func inOrder[V any](m map[place]V) []place {
	s := make([]place, 0, len(m))
	for at := range m {
		s = append(s, at)
	}
	slices.SortFunc(s, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.storage, b.storage), cmp.Compare(a.partition, b.partition))
	})
	return s
}

func inRanges(ranges []protocol.Range, offset int64) bool {
	i, _ := slices.BinarySearchFunc(ranges, offset+1, func(r protocol.Range, o int64) int { return cmp.Compare(r[1], o) })
	return i < len(ranges) && ranges[i][0] <= offset
}
