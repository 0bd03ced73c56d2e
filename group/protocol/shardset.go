package protocol

import (
	"fmt"
	"strings"
)

// The group of a shard set of a subscription reads one storage topic of its topic, and no other: earlier sets
// delivered those before it, later sets get those after it, each with a group of its own. The name of the
// group tells that it is one of these, and its layout which storage topic it reads.

// ShardLayout names the layout of so many shards of one storage topic.
func ShardLayout(storage, shards int) string {
	return fmt.Sprintf("storage-%d-shards-%d", storage, shards)
}

// ShardStorage is the only storage topic that a group reads; ok is false when it reads all, one after the other.
func ShardStorage(group, layout string) (storage int, ok bool) {
	if !strings.Contains(group, "..") {
		return 0, false
	}
	var shards int
	if n, _ := fmt.Sscanf(layout, "storage-%d-shards-%d", &storage, &shards); n != 2 || storage < 0 {
		return 0, true // the first
	}
	return storage, true
}

// Past reports whether a group needs nothing of a storage topic, because earlier groups have delivered it.
func (st *State) Past(group string, storage int) bool {
	if st.Meta == nil {
		return false
	}
	sole, ok := ShardStorage(group, st.Meta.Layout)
	return ok && storage < sole
}
