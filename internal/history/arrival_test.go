package history

import "testing"

func arrivals(of ...Arrival) *Arrivals {
	return &Arrivals{Sent: map[string]int{"a": 3, "b": 2}, Poison: map[string]int{"a": 1}, Failed: map[string][]int{"a": {1}}, Taken: of}
}

func TestWhatArrivesIsJudged(t *testing.T) {
	t.Parallel()
	a0, a1, a2, b0, b1 := Arrival{"a", 0}, Arrival{"a", 1}, Arrival{"a", 2}, Arrival{"b", 0}, Arrival{"b", 1}
	if r := arrivals(a0, b0, b0, b1, a1, a0, a2).Judge(); r.Err() != nil || r.Duplicated != 2 || r.Delivered != 5 || r.Produced != 5 {
		t.Errorf("a sound history: %s", r)
	}
	none, twice := arrivals(a0, a1, a2, b0, b1), arrivals(a0, a1, a2, b0, b1)
	none.Failed = nil
	twice.Failed = map[string][]int{"a": {1, 1}}
	for name, c := range map[string]struct {
		of      *Arrivals
		promise Promise
	}{
		"a record never came":                 {arrivals(a0, a1, a2, b0), NotLost},
		"a record came before the one before": {arrivals(a0, a2, a1, b0, b1), KeyOrder},
		"nobody sent it":                      {arrivals(a0, a1, a2, b0, b1, Arrival{"c", 0}), OnlySent},
		"no dead letter":                      {none, OneDeadLetter},
		"two dead letters":                    {twice, OneDeadLetter},
	} {
		if r := c.of.Judge(); r.Broken[c.promise] == 0 {
			t.Errorf("%s: not found; %s", name, r)
		}
	}
}
