package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/storeurl"
)

// partitionName is how people know a partition: by its number, behind the index of its storage topic
// when that is not the first.
func partitionName(storage, partition int) string {
	if storage > 0 {
		return fmt.Sprintf("%d/%d", storage, partition)
	}
	return fmt.Sprint(partition)
}

// unitsOf are the units that flags name, each once, in order: "3" is a unit, "1/3" a partition of a
// storage topic. within says that the numbers are of one storage topic already.
func unitsOf(g *api.Group, names []string, within bool) ([]int, error) {
	list := []int{}
	for _, name := range names {
		storage, partition, found := strings.Cut(name, "/")
		if !found {
			partition = storage
		}
		n, err := strconv.Atoi(partition)
		if s, bad := strconv.Atoi(storage); found && err == nil && !within {
			n, err = unitAt(g, s, n), bad
		}
		if err != nil || n < 0 || found && within {
			return nil, fmt.Errorf("--partition %s: expected the number of a partition of group %q, or STORAGE/PARTITION: %w", storeurl.Quote(name), g.Name, ringfence.ErrInvalid)
		}
		list = append(list, n)
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// unitAt is the number of the unit that a partition is; -1: there is none.
func unitAt(g *api.Group, storage, partition int) int {
	for _, u := range g.Units {
		for _, p := range u.Positions {
			if p.Storage == storage && p.Partition == partition {
				return u.Unit
			}
		}
	}
	return -1
}
