package assign

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/ringfence/ringfence/internal/fault"
)

// MaxAnchorMembers bounds the members of an Anchor at any time.
const MaxAnchorMembers = 1 << 14

// Anchor maps keys to members so that a change of the members moves only the keys that it must:
// when one of N leaves, its keys go evenly to the others and nothing else moves; when one joins, it
// takes 1/(N+1) of the keys, evenly from all, and nothing else moves.
//
// It is the AnchorHash of Mendelson, Vargaftik, Barabash, Lorenz, Keslassy and Orda, "AnchorHash: A
// Scalable Consistent Hash", IEEE/ACM Transactions on Networking 29(2), 2021. The traces of
// removals, their order above all, are part of the mapping: an Anchor that is rebuilt from the
// names of its members alone maps most keys elsewhere. So it is stored as it is, as JSON, and all
// its users share one history.
//
// It does not need the paper's capacity, which bounds the members for ever and costs every lookup:
// buckets are added when no removed one is left, and a key's first bucket is looked up in a table
// that is itself consistent as the number of buckets grows, see dealer.
//
// An Anchor never changes; Add and Remove return another one. The zero value has no members.
type Anchor struct {
	members []string // by bucket; "": removed
	removed []int    // the removed buckets, the latest last
	working int

	// What lookups need; none when no bucket works.
	cells []anchorCell
	slots []uint16 // a bucket for each slot: the first bits of a hash
	shift int      // leaves those bits of 64
}

// anchorCell is the part of a bucket that lookups need: A and K of the paper.
type anchorCell struct {
	member string
	left   uint32 // working buckets that were left when it was removed; 0: it works
	next   uint32 // the bucket that took its place among the working ones
}

// Add returns the anchor with more members, one after the other; a itself when all are members already.
// ErrInvalid for an empty name, and when there are too many members.
func (a *Anchor) Add(came ...string) (*Anchor, error) {
	members, removed := slices.Clone(a.members), slices.Clone(a.removed)
	in := make(map[string]bool, len(members)+len(came))
	for _, id := range members {
		in[id] = true
	}
	added := 0
	for _, id := range came {
		if id == "" {
			return nil, fmt.Errorf("anchor: a member without a name: %w", fault.Invalid)
		}
		if in[id] {
			continue
		}
		in[id] = true
		if added++; a.working+added > MaxAnchorMembers {
			return nil, fmt.Errorf("anchor: more than %d members: %w", MaxAnchorMembers, fault.Invalid)
		}
		if n := len(removed); n > 0 { // the latest removal is undone
			members[removed[n-1]] = id
			removed = removed[:n-1]
		} else {
			members = append(members, id)
		}
	}
	if added == 0 {
		return a, nil
	}
	return newAnchor(members, removed), nil
}

// Remove returns the anchor without some members, one after the other. Names of no member change nothing.
func (a *Anchor) Remove(gone ...string) *Anchor {
	members, removed := slices.Clone(a.members), slices.Clone(a.removed)
	at := make(map[string]int, len(members))
	for b, id := range members {
		at[id] = b
	}
	for _, id := range gone {
		if b, ok := at[id]; ok && id != "" {
			delete(at, id)
			members[b] = ""
			removed = append(removed, b)
		}
	}
	return newAnchor(members, removed)
}

// Len is the number of members.
func (a *Anchor) Len() int { return a.working }

// Members returns the members, in the order of their buckets.
func (a *Anchor) Members() []string {
	return slices.DeleteFunc(slices.Clone(a.members), func(m string) bool { return m == "" })
}

// Owner returns the member that a key belongs to; "" when there are none.
func (a *Anchor) Owner(key string) string {
	if len(a.cells) == 0 {
		return ""
	}
	return a.cells[a.find(HashKey(key))].member
}

// newAnchor derives what lookups need: all buckets work, then they are removed in order.
func newAnchor(members []string, removed []int) *Anchor {
	n := len(members)
	a := &Anchor{members: members, removed: removed, working: n - len(removed)}
	if a.working == 0 {
		return a
	}
	a.cells, a.slots = make([]anchorCell, n), deal(n)
	a.shift = 64 - bits.Len(uint(len(a.slots)-1))
	at := make([]uint32, n)    // W of the paper: the working buckets are its first ones
	place := make([]uint32, n) // L: where in at a bucket stands
	for b := range at {
		at[b], place[b] = uint32(b), uint32(b)
		a.cells[b] = anchorCell{member: members[b], next: uint32(b)}
	}
	for i, b := range removed {
		left := n - 1 - i
		last := at[left]
		a.cells[b] = anchorCell{left: uint32(left), next: last}
		at[place[b]], place[last] = last, place[b]
	}
	return a
}

// find returns the working bucket of a hash; there is at least one.
//
// The slot of the hash names a bucket, working or not. The rest is the paper's: the keys of a
// removed bucket went evenly to the buckets that worked at that moment, those that stood for the
// first places then, through what replaced them before.
func (a *Anchor) find(h uint64) uint64 {
	b := uint64(a.slots[h>>(a.shift&63)]) // the mask spares the processor a test
	for left := a.cells[b].left; left != 0; left = a.cells[b].left {
		b = within(mix(h, uint64(left)), uint64(left))
		for a.cells[b].left >= left {
			b = uint64(a.cells[b].next)
		}
	}
	return b
}
