package pgregistry

import (
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

// vigils is for how many others a process waits, and how many wait for it.
const vigils = 2

// peer is a live session of any process.
type peer struct {
	session pgtype.UUID
	holder  int64
}

// ward is the process that the one with the lock self waits for in a place from 0 to vigils-1:
// the processes form a ring in the order of their locks, and each waits for those that follow it.
// 0: nobody.
func ward(peers []peer, self int64, place int) int64 {
	others := make([]int64, 0, len(peers))
	for _, p := range peers {
		if p.holder != 0 && p.holder != self {
			others = append(others, p.holder)
		}
	}
	slices.Sort(others)
	others = slices.Compact(others)
	if place >= len(others) {
		return 0
	}
	next, _ := slices.BinarySearch(others, self)
	return others[(next+place)%len(others)]
}

// sessionsOf are the sessions of one process.
func sessionsOf(peers []peer, holder int64) []pgtype.UUID {
	var ids []pgtype.UUID
	for _, p := range peers {
		if p.holder == holder {
			ids = append(ids, p.session)
		}
	}
	return ids
}
