package pgregistry

import (
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

// peer is a live session of any process.
type peer struct {
	session pgtype.UUID
	holder  int64
	held    bool // the process had its lock when somebody looked
}

// successor is the process that the one with the lock self waits for: the processes form a ring in the
// order of their locks, and each waits for the one that follows it. 0: nobody.
func successor(peers []peer, self int64) int64 {
	first, next := int64(0), int64(0)
	for _, p := range peers {
		if p.holder == 0 || p.holder == self {
			continue
		}
		if first == 0 || p.holder < first {
			first = p.holder
		}
		if p.holder > self && (next == 0 || p.holder < next) {
			next = p.holder
		}
	}
	if next == 0 {
		return first
	}
	return next
}

// suspects are the processes that had let go of their lock when somebody looked.
func suspects(peers []peer, self int64) []int64 {
	var out []int64
	for _, p := range peers {
		if !p.held && p.holder != 0 && p.holder != self && !slices.Contains(out, p.holder) {
			out = append(out, p.holder)
		}
	}
	return out
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
