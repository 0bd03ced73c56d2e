package core

import "slices"

// Parents says which shards of a set take over what from which of the set before. Sets that read the same
// partitions go by those. After growth they read others: then a parked record goes where its key goes on,
// and so does one from a storage topic that neither of the two reads. It is a pure function of the two sets
// and of the topic, so all shards and all their owners agree.
type Parents struct {
	Storage int     // the storage topic that the new set reads
	After   [][]int // by new shard, the earlier ones that have to end before it begins
	// Home is the new shard that a record belongs to: that of its partition, where the set reads that, else that
	// of its key.
	Home func(o Origin, key []byte) int
	Anew bool // it begins elsewhere: records of later storage topics come again
	Shed bool // those of earlier ones are left behind
}

// Heir is the new shard that takes over a record of an old one: the one where its key goes on, if that waits
// for the old one. It does not if the producer chose the partition itself; then the first that waits is as
// good as any.
func (h *Parents) Heir(old int, o Origin, key []byte) int {
	home := h.Home(o, key)
	if slices.Contains(h.After[home], old) {
		return home
	}
	return slices.IndexFunc(h.After, func(after []int) bool { return slices.Contains(after, old) })
}

// Takes selects the records that a new shard takes over from an old one.
func (h *Parents) Takes(heir, old int) func(Origin, []byte) bool {
	return func(o Origin, key []byte) bool {
		switch storage := int(o.Storage); {
		case storage > h.Storage && h.Anew, storage < h.Storage && h.Shed:
			return false
		}
		return h.Heir(old, o, key) == heir
	}
}
