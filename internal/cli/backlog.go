package cli

import (
	"time"

	"github.com/ringfence/ringfence"
)

// parkedView is what a subscription has parked, behind dead letters or not.
type parkedView struct {
	Records int    `json:"records"`
	Keys    int    `json:"keys"`
	Oldest  string `json:"oldest_at,omitempty"` // when the oldest was produced
}

// deadView is what it has given up.
type deadView struct {
	Records int    `json:"records"`
	Oldest  string `json:"oldest_at,omitempty"`
}

// backlogLine says how much is held back, and since when.
func backlogLine(r *report, b *ringfence.Backlog, now time.Time) {
	parked := plural(int64(b.Parked.Records), "record")
	if b.Parked.Keys > 0 {
		parked += " of " + plural(int64(b.Parked.Keys), "key")
	}
	behind := ""
	if b.Blocked > 0 {
		behind = ", " + plural(int64(b.Blocked), "record") + " behind"
	}
	r.line("parked: %s%s; dead letters: %s%s%s", parked, oldestText(&b.Parked, now), thousands(int64(b.Dead.Records)), oldestText(&b.Dead, now), behind)
}

func oldestText(h *ringfence.BacklogHeap, now time.Time) string {
	if h.OldestAt.IsZero() {
		return ""
	}
	return ", oldest " + ageText(max(1, now.Sub(h.OldestAt).Milliseconds())) // whoever produced it may have another clock
}
