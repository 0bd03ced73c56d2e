package cli

import (
	"errors"
	"fmt"
	"slices"
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
	d := &groupDoc{GroupInfo: g, State: stateOf(g.Paused, len(g.Members)), Members: make([]memberDoc, len(g.Members))}
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

// distinct are the partitions that flags name, each once, in order.
func distinct(partitions []int) []int {
	list := slices.Clone(partitions)
	slices.Sort(list)
	return slices.Compact(list)
}

// knownGroups adds to the error of a group that is not there where to look.
func knownGroups(err error) error {
	if errors.Is(err, ringfence.ErrNotFound) && !strings.Contains(err.Error(), "group list") {
		return fmt.Errorf("%w; \"ringfence group list\" shows those that are there", err)
	}
	return err
}
