package sim

import (
	"slices"

	"github.com/ringfence/ringfence/subscription/core"
)

// The growth of the topic: a storage topic is added and the one before sealed, at any time. The reshard to it
// begins some time after that; the shards of the set before read all that they have before they end. Keys have
// one partition in each storage topic, and another one from each to the next.

// route is the partition of a key.
func route(key []byte, storage int) int { return (int(key[0]) + storage) % partitions }

// last is a shard of the newest set.
func (w *world) last() *shard { return w.sets[len(w.sets)-1][0] }

// grow adds a storage topic now and then.
func (w *world) grow() {
	if w.grows == nil || w.grown == storages || w.grows.IntN(200) != 0 {
		return
	}
	w.grown++
	w.counts.Growths++
	w.log("the topic grows to %d storage topics", w.grown)
}

// inheritance closes the shards of a set, and decides which of the next take over from which.
func (w *world) inheritance(before, next []*shard) {
	was, storage, reset := before[0].storage, next[0].storage, next[0].reset
	h := &core.Parents{Storage: storage, Home: func(o core.Origin, key []byte) int {
		p := int(o.Partition)
		if int(o.Storage) != storage && key != nil {
			p = route(key, storage)
		}
		return slices.IndexFunc(next, func(s *shard) bool { return s.parts[storage*partitions+p] })
	}}
	if reset != nil {
		h.Anew, h.Shed = true, reset.shed && reset.all
	}
	for _, p := range before {
		p.closing, p.growth = true, storage == was+1 && reset == nil
	}
	for _, s := range next {
		var after []int
		for i, p := range before {
			if w.grows != nil && reset != nil || s.follows(p) {
				after = append(after, i)
				s.parents = append(s.parents, p)
			}
		}
		s.takes = h
		h.After = append(h.After, after)
	}
}

// follows reports whether a shard can have records of keys that another had.
func (w *shard) follows(before *shard) bool {
	for p := range partitions {
		q := p
		if before.storage != w.storage {
			q = 1 - p // see route
		}
		if w.parts[w.storage*partitions+p] && before.parts[before.storage*partitions+q] {
			return true
		}
	}
	return false
}

// ending reports whether the node is to end now: after growth, at the end of what it reads.
func (n *node) ending() bool {
	return n.closing && (!n.w.growth || n.atEnd())
}

// atEnd reports whether all that the shard reads is finished.
func (n *node) atEnd() bool {
	for p := range n.w.reads() {
		if n.next[p] < int64(len(n.w.main[p])) {
			return false
		}
	}
	return true
}
