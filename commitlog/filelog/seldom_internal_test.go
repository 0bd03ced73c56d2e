package filelog

import (
	"testing"
	"time"
)

func TestWhatMayBeSoForDaysIsToldWhenItChangesAndSeldomAfter(t *testing.T) {
	t.Parallel()
	var s seldom
	began := time.Now()
	for _, c := range []struct {
		at   time.Duration
		what string
		said bool
	}{
		{0, "a", true},
		{time.Second, "a", false},
		{2 * time.Second, "b", true},
		{time.Hour, "b", false},
		{time.Hour + 12*time.Second, "b", true},
	} {
		if said := s.say(c.what, began.Add(c.at)); said != c.said {
			t.Errorf("after %s, of %s: said %t", c.at, c.what, said)
		}
	}
}
