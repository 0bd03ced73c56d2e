package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
)

// partitionName is the number of a partition, behind the index of its storage topic unless that is the first.
func partitionName(storage, partition int) string {
	if storage > 0 {
		return fmt.Sprintf("%d/%d", storage, partition)
	}
	return fmt.Sprint(partition)
}

// partitionsOf are the partitions that flags name, numbered through all storage topics; number gives that of "1/3", or -1.
func partitionsOf(of string, names []string, number func(storage, partition int) int) ([]int, error) {
	list := []int{}
	for _, name := range names {
		storage, partition, found := strings.Cut(name, "/")
		n := atoi(storage)
		if found && n >= 0 && atoi(partition) >= 0 {
			n = number(n, atoi(partition))
		} else if found {
			n = -1
		}
		if n < 0 {
			return nil, fmt.Errorf("--partition %s: expected the number of a partition of %s, or STORAGE/PARTITION: %w", storeurl.Quote(name), of, fault.Invalid)
		}
		list = append(list, n)
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// atoi is a number from 0 on, or -1.
func atoi(text string) int {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return -1
	}
	return int(n)
}

// unitNames are the partitions of units, as flags name them.
func unitNames(g *api.Group, units []int) (names []string) {
	for _, u := range g.Units {
		if slices.Contains(units, u.Unit) {
			for _, p := range u.Positions {
				names = append(names, partitionName(p.Storage, p.Partition))
			}
		}
	}
	return names
}

// unitsOf are the units of a group that flags name. within says that the numbers are of one storage topic already.
func unitsOf(g *api.Group, names []string, within bool) ([]int, error) {
	return partitionsOf(fmt.Sprintf("group %q", g.Name), names, func(storage, partition int) int {
		for _, u := range g.Units {
			for _, p := range u.Positions {
				if p.Storage == storage && p.Partition == partition && !within {
					return u.Unit
				}
			}
		}
		return -1
	})
}
