package protocol

import (
	"fmt"
	"strings"
)

// The group of a shard set of a subscription reads one storage topic of its topic, and no other: those before
// it were delivered by earlier sets, those after it come to later ones, each with a group of its own. Who
// judges what a group still needs goes by its name, which no other group has, and by that of its layout.

// SoleLayout names the layout of so many shards of one storage topic.
func SoleLayout(storage, shards int) string {
	return fmt.Sprintf("storage-%d-shards-%d", storage, shards)
}

// SoleStorage is the only storage topic that a group reads; false: it reads all, one after the other.
func SoleStorage(group, layout string) (storage int, ok bool) {
	if !strings.Contains(group, "..") {
		return 0, false
	}
	var shards int
	if n, _ := fmt.Sscanf(layout, "storage-%d-shards-%d", &storage, &shards); n != 2 || storage < 0 {
		return 0, true // the first
	}
	return storage, true
}

// Past says whether a group needs nothing of a storage topic, as earlier groups have delivered it for it.
func (st *State) Past(group string, storage int) bool {
	if st.Meta == nil {
		return false
	}
	sole, ok := SoleStorage(group, st.Meta.Layout)
	return ok && storage < sole
}
