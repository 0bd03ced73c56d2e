package cli

import (
	"io"
	"testing"
	"time"

	"github.com/ringfence/ringfence/api"
)

// How much is held back is said with how old the oldest of it is; what is not known is left out.
func TestBacklogLineHasAges(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Millisecond)
	heap := func(n, keys int, age time.Duration) api.Heap {
		return api.Heap{Records: n, Keys: keys, OldestAt: api.TimeOf(now.Add(-age))}
	}
	for want, b := range map[string]api.Backlog{
		"parked: 0 records; dead letters: 0\n":                                                        {},
		"parked: 12 records of 3 keys, oldest 4m2s; dead letters: 1, oldest 1h0m, 5 records behind\n": {Parked: heap(12, 3, 242*time.Second), Dead: heap(1, 1, time.Hour), Blocked: 5},
		"parked: 1 record of 1 key, oldest 1ms; dead letters: 0\n":                                    {Parked: heap(1, 1, -time.Minute)},
	} {
		r := newApp(nil, io.Discard, io.Discard).newReport()
		backlogLine(r, &b, now)
		if got := r.String(); got != want {
			t.Errorf("%q, expected %q", got, want)
		}
	}
}
