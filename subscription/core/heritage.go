package core

import "slices"

// Heritage says who of a shard set takes over from whom of the one before, and what. Sets that read the same
// partitions go by those. When the topic has grown they read others: then what is parked goes where its key
// goes on, and so does what came from storage topics that neither of the two reads. It is a pure function of
// the two sets and of the topic, so that all shards and all their owners have the same.
type Heritage struct {
	Storage int     // the storage topic that the new set reads
	After   [][]int // by new shard those before that have to end before it begins
	// Home is the new shard that a record belongs to: that of its partition, where the set reads that, else that
	// of its key.
	Home func(o Origin, key []byte) int
	Anew bool // it begins elsewhere: what is of later storage topics comes again
	Shed bool // and what is of earlier ones is left behind
}

// Heir is the new shard that takes over a record of an old one: the one where its key goes on, if that waits
// for the old one. It does, unless somebody chose a partition himself; then any may, and it is the first.
func (h *Heritage) Heir(old int, o Origin, key []byte) int {
	home := h.Home(o, key)
	if slices.Contains(h.After[home], old) {
		return home
	}
	return slices.IndexFunc(h.After, func(after []int) bool { return slices.Contains(after, old) })
}

// Takes says what a new shard takes over from an old one.
func (h *Heritage) Takes(heir, old int) func(Origin, []byte) bool {
	return func(o Origin, key []byte) bool {
		switch storage := int(o.Storage); {
		case storage > h.Storage && h.Anew, storage < h.Storage && h.Shed:
			return false
		}
		return h.Heir(old, o, key) == heir
	}
}
