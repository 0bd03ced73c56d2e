package history

import "testing"

func arrivals(of ...Arrival) *Arrivals {
	return &Arrivals{Sent: map[string]int{"a": 3, "b": 2}, Poison: map[string]int{"a": 1}, Failed: map[string][]int{"a": {1}}, Taken: of}
}

func at(key string, n int, place string) Arrival { return Arrival{Key: key, Number: n, Place: place} }

func fenced(a Arrival, token string) Arrival { a.Token = token; return a }

func TestWhatArrivesIsJudged(t *testing.T) {
	t.Parallel()
	a0, a1, a2, b0, b1 := at("a", 0, ""), at("a", 1, ""), at("a", 2, ""), at("b", 0, ""), at("b", 1, "")
	if r := arrivals(a0, b0, b0, b1, a1, a0, a2).Judge(); r.Err() != nil || r.Duplicated != 2 || r.Delivered != 5 || r.Produced != 5 || r.Deliveries != 7 {
		t.Errorf("a sound history: %s", r)
	}
	late := arrivals(fenced(a0, "5"), fenced(a1, "7"), fenced(a0, "6"), fenced(a2, "7"), b0, b1).Judge()
	if late.Err() != nil || late.Stale != 1 || late.Duplicated != 0 {
		t.Errorf("one that comes late is refused: %s", late)
	}
	none, twice, other := arrivals(a0, a1, a2, b0, b1), arrivals(a0, a1, a2, b0, b1), arrivals(a0, a1, a2, b0, b1)
	none.Failed = nil
	twice.Failed = map[string][]int{"a": {1, 1}}
	other.Failed = map[string][]int{"a": {1}, "b": {0}}
	for name, c := range map[string]struct {
		of      *Arrivals
		promise Promise
	}{
		"a record never came":                    {arrivals(a0, a1, a2, b0), NotLost},
		"a record came before the one before":    {arrivals(a0, a2, a1, b0, b1), KeyOrder},
		"a record was passed and never came":     {arrivals(a0, a2, b0, b1), NotSkipped},
		"a record came from two places":          {arrivals(at("a", 0, "0/1/5"), a1, a2, b0, b1, at("a", 0, "0/1/6")), StoredOnce},
		"a record had a token too low":           {arrivals(fenced(a0, "5"), fenced(a1, "4"), b0, b1), NotLost},
		"nobody sent it":                         {arrivals(a0, a1, a2, b0, b1, at("c", 0, "")), OnlySent},
		"nobody sent so many":                    {arrivals(a0, a1, a2, at("a", 3, ""), b0, b1), OnlySent},
		"nobody sent it, nor can it be numbered": {arrivals(a0, a1, a2, b0, b1, at("a", -1, "")), OnlySent},
		"no dead letter":                         {none, OneDeadLetter},
		"two dead letters":                       {twice, OneDeadLetter},
		"a dead letter of a key without poison":  {other, OneDeadLetter},
	} {
		if r := c.of.Judge(); r.Broken[c.promise] == 0 {
			t.Errorf("%s: not found; %s", name, r)
		}
	}
}

func TestWhatIsTakenAgainBehindAGapIsCountedOnce(t *testing.T) {
	t.Parallel()
	r := arrivals(at("a", 0, ""), at("a", 2, ""), at("a", 2, ""), at("b", 0, ""), at("b", 1, "")).Judge()
	if r.Delivered != 4 || r.Duplicated != 1 || r.Broken[KeyOrder] != 1 || r.Lost != 1 {
		t.Errorf("four were taken, one of them twice, and one never: %s", r)
	}
}

func TestWhatMayBeOnItsWayIsNotLost(t *testing.T) {
	t.Parallel()
	a0, a1, a2, b0, b1 := at("a", 0, ""), at("a", 1, ""), at("a", 2, ""), at("b", 0, ""), at("b", 1, "")
	early := arrivals(a0, b0)
	early.Early, early.Failed = true, nil
	if r := early.Judge(); r.Err() != nil || r.Lag != 3 {
		t.Errorf("it was not waited for all: %s", r)
	}
	early.Taken = []Arrival{b1}
	if r := early.Judge(); r.Broken[NotSkipped] != 1 || r.Broken[NotLost] != 1 {
		t.Errorf("what was passed is lost, however early: %s", r)
	}
	for _, came := range [][]Arrival{{a0, b0, b1}, {a0, a1, a2, b0, b1}} { // nobody saw the last two of a acknowledged
		unsure := arrivals(came...)
		unsure.Sent, unsure.Unsure, unsure.Failed = map[string]int{"a": 1, "b": 2}, map[string]int{"a": 2}, nil
		if r := unsure.Judge(); r.Err() != nil {
			t.Errorf("what may be there came, or did not: %s", r)
		}
	}
}
