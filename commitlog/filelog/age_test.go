package filelog

import (
	"testing"
	"time"
)

func TestHowLongAgoAMomentWasIsKnownOnlyByAClockThatCanBeTrusted(t *testing.T) {
	t.Parallel()
	const today = dawn + 1_000_000_000
	hour := time.Hour.Milliseconds()
	for name, c := range map[string]struct {
		now, then moment
		age       time.Duration
		known     bool
	}{
		"the same run of the host, whatever its time of day": {
			now: moment{today, 7, 5 * hour}, then: moment{1, 7, 2 * hour}, age: 3 * time.Hour, known: true,
		},
		"the same run, and the time of day went back": {
			now: moment{today - 9*hour, 7, 5 * hour}, then: moment{today, 7, 2 * hour}, age: 3 * time.Hour, known: true,
		},
		"the same run, at the same moment":                 {now: moment{today, 7, 5}, then: moment{today, 7, 5}, known: true},
		"the same run, but the monotonic clock went back":  {now: moment{today, 7, 1}, then: moment{today - hour, 7, 2 * hour}},
		"an earlier run, and a time of day that can be":    {now: moment{today, 7, 2 * hour}, then: moment{today - 4*hour, 6, 9}, age: 4 * time.Hour, known: true},
		"an earlier run, in the future":                    {now: moment{today, 7, 2 * hour}, then: moment{today + 1, 6, 9}},
		"an earlier run, before this program existed":      {now: moment{today, 7, 2 * hour}, then: moment{dawn - 1, 6, 9}},
		"an earlier run, while the clock may still be set": {now: moment{today, 7, hour - 1}, then: moment{today - 4*hour, 6, 9}},
		"a host that does not tell its runs apart":         {now: moment{today, 0, 2 * hour}, then: moment{today - 4*hour, 0, 9 * hour}, age: 4 * time.Hour, known: true},
	} {
		age, known := c.now.since(c.then)
		if known != c.known || known && age != c.age {
			t.Errorf("%s: %s, known %t; expected %s, %t", name, age, known, c.age, c.known)
		}
	}
}
