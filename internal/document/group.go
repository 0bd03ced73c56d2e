package document

import (
	"slices"

	"github.com/ringfence/ringfence"
)

// Group describes a group, with what its table says beyond the library's description.
type Group struct {
	ringfence.GroupInfo
	State   string   `json:"state"`
	Members []Member `json:"members"`
}

// Member is a member of a group.
type Member struct {
	ringfence.MemberInfo
	Joined string `json:"joined"`
}

// DescribeGroup describes a group.
func DescribeGroup(g ringfence.GroupInfo) *Group {
	d := &Group{GroupInfo: g, State: GroupState(g), Members: make([]Member, len(g.Members))}
	live := make(map[string]bool)
	for i, m := range g.Members {
		d.Members[i] = Member{m, Time(m.Joined)}
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

// MovedPosition is where a group was sent in one partition, or would be.
type MovedPosition struct {
	Storage   int   `json:"storage"`
	Partition int   `json:"partition"`
	From      int64 `json:"from"`       // next offset to process before; -1: none was ever written
	To        int64 `json:"checkpoint"` // and now
	First     int64 `json:"first"`      // lowest offset that is kept
	Next      int64 `json:"next"`       // end of the partition
	Lag       int64 `json:"lag"`
}

// MovedPositions joins where a group stood with where it was sent.
func MovedPositions(before ringfence.GroupInfo, after []ringfence.PositionInfo) []MovedPosition {
	type at struct{ storage, partition int }
	old := make(map[at]int64)
	for _, u := range before.Units {
		for _, p := range u.Positions {
			old[at{p.Storage, p.Partition}] = p.Checkpoint
		}
	}
	list := make([]MovedPosition, len(after))
	for i, p := range after {
		from, known := old[at{p.Storage, p.Partition}]
		if !known {
			from = -1
		}
		list[i] = MovedPosition{Storage: p.Storage, Partition: p.Partition, From: from, To: p.Checkpoint, First: p.First, Next: p.Next, Lag: p.Lag}
	}
	return list
}

// GroupState is the state of a group in a word or two.
func GroupState(g ringfence.GroupInfo) string {
	switch {
	case g.Damaged != "":
		return "damaged"
	case g.Paused:
		return "paused"
	case len(g.Members) == 0:
		return "no members"
	}
	return "running"
}
