package cli

import (
	"time"

	"github.com/ringfence/ringfence/api"
)

// backlogLine says how much is held back, and since when.
func backlogLine(r *report, b *api.Backlog, now time.Time) {
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

func oldestText(h *api.Heap, now time.Time) string {
	if h.OldestAt == "" {
		return ""
	}
	return ", oldest " + ageText(max(1, now.Sub(h.OldestAt.Time()).Milliseconds())) // whoever produced it may have another clock
}
