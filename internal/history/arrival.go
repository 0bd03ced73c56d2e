package history

import (
	"fmt"
	"maps"
	"slices"
)

// Arrivals judges what a subscription delivered, from what a receiver took: it writes each record down
// before it answers. Records of a key are numbered from 0 on, as they were produced.
type Arrivals struct {
	Sent   map[string]int   // how many of each key
	Poison map[string]int   // by key, the record that fails for good until it is redriven
	Failed map[string][]int // by key, the dead letters that failed
	Taken  []Arrival        // in the order in which they were taken
}

// Arrival is one record that was taken.
type Arrival struct {
	Key    string
	Number int
}

// OneDeadLetter is promised of what arrives, beside NotLost, KeyOrder and OnlySent.
const OneDeadLetter Promise = "one dead letter for each record that fails for good"

// Judge says which promises were broken. What is taken again is Duplicated, and breaks none.
func (a *Arrivals) Judge() *Report {
	r := new(Report)
	next := map[string]int{}
	for _, t := range a.Taken {
		n, known := a.Sent[t.Key]
		switch at := next[t.Key]; {
		case !known || t.Number < 0 || t.Number >= n:
			r.violate(OnlySent, nil, "nobody sent record %d of key %q", t.Number, t.Key)
		case t.Number < at:
			r.Duplicated++
		case t.Number > at:
			r.violate(KeyOrder, nil, "key %q: record %d was taken before record %d", t.Key, t.Number, at)
			next[t.Key] = t.Number + 1
			r.Delivered++
		default:
			next[t.Key]++
			r.Delivered++
		}
	}
	came := map[Arrival]bool{}
	for _, t := range a.Taken {
		came[t] = true
	}
	for _, key := range slices.Sorted(maps.Keys(a.Sent)) {
		r.Produced += int64(a.Sent[key])
		for n := range a.Sent[key] {
			if !came[Arrival{key, n}] {
				r.Lost++
				r.violate(NotLost, nil, "record %d of key %q was never taken", n, key)
			}
		}
		var want []int
		if n, bad := a.Poison[key]; bad {
			want = []int{n}
		}
		if got := a.Failed[key]; !slices.Equal(got, want) {
			r.violate(OneDeadLetter, nil, "key %q has dead letters for %s; expected %s", key, fmt.Sprint(got), fmt.Sprint(want))
		}
	}
	return r
}
