package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence"
)

// groupDoc describes a group, with what its table says beyond the library's description.
type groupDoc struct {
	ringfence.GroupInfo
	State   string      `json:"state"`
	Members []memberDoc `json:"members"`
}

type memberDoc struct {
	ringfence.MemberInfo
	Joined string `json:"joined"`
}

func documentGroup(g ringfence.GroupInfo) *groupDoc {
	d := &groupDoc{GroupInfo: g, State: stateOf(g), Members: make([]memberDoc, len(g.Members))}
	live := make(map[string]bool)
	for i, m := range g.Members {
		d.Members[i] = memberDoc{m, timeText(m.Joined)}
		live[m.ID] = true
	}
	d.Units = slices.Clone(g.Units)
	for i := range d.Units {
		if u := &d.Units[i]; !live[u.Target] {
			u.Target = "" // nobody is there who could take it
		}
	}
	return d
}

// movedPosition is where a group was sent in one partition, or would be.
type movedPosition struct {
	Storage   int   `json:"storage"`
	Partition int   `json:"partition"`
	From      int64 `json:"from"`       // next offset to process before; -1: none was ever written
	To        int64 `json:"checkpoint"` // and now
	First     int64 `json:"first"`      // lowest offset that is kept
	Next      int64 `json:"next"`       // end of the partition
	Lag       int64 `json:"lag"`
}

// movedPositions joins where a group stood with where it was sent.
func movedPositions(before ringfence.GroupInfo, after []ringfence.PositionInfo) []movedPosition {
	type at struct{ storage, partition int }
	old := make(map[at]int64)
	for _, u := range before.Units {
		for _, p := range u.Positions {
			old[at{p.Storage, p.Partition}] = p.Checkpoint
		}
	}
	list := make([]movedPosition, len(after))
	for i, p := range after {
		from, known := old[at{p.Storage, p.Partition}]
		if !known {
			from = -1
		}
		list[i] = movedPosition{Storage: p.Storage, Partition: p.Partition, From: from, To: p.Checkpoint, First: p.First, Next: p.Next, Lag: p.Lag}
	}
	return list
}

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
func unitsOf(g *ringfence.GroupInfo, names []string, within bool) ([]int, error) {
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
			return nil, fmt.Errorf("--partition %q: expected the number of a partition of group %q, or STORAGE/PARTITION: %w", name, g.Name, ringfence.ErrInvalid)
		}
		list = append(list, n)
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// unitAt is the number of the unit that a partition is; -1: there is none.
func unitAt(g *ringfence.GroupInfo, storage, partition int) int {
	for _, u := range g.Units {
		for _, p := range u.Positions {
			if p.Storage == storage && p.Partition == partition {
				return u.Unit
			}
		}
	}
	return -1
}
