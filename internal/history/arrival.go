package history

import (
	"fmt"
	"maps"
	"slices"
)

// Arrivals judges what a subscription delivered, from what a receiver took: it writes each record down
// before it answers. Records of a key are numbered from 0 on, as they were produced. The receiver keeps the highest
// token of each key and refuses lower ones: what it refused and needed is lost.
type Arrivals struct {
	Sent   map[string]int   // how many of each key
	Unsure map[string]int   // how many behind those may be there, and may not: they were sent and not acknowledged
	Poison map[string]int   // by key, the record that fails for good until it is redriven
	Failed map[string][]int // by key, the dead letters that failed
	Taken  []Arrival        // in the order in which they were taken
	Early  bool             // it was not waited for all: what did not come may have been on its way
}

// Arrival is one record that was taken.
type Arrival struct {
	Key    string
	Number int
	Place  string // in the topic; "": not noted
	Token  string // "": not noted
}

// OneDeadLetter is promised of what arrives, beside NotLost, NotSkipped, StoredOnce, KeyOrder and OnlySent.
const OneDeadLetter Promise = "one dead letter for each record that fails for good"

// ArrivalPromises are all that Arrivals checks.
func ArrivalPromises() []Promise {
	return []Promise{NotLost, NotSkipped, StoredOnce, KeyOrder, OnlySent, OneDeadLetter}
}

// Judge says which promises were broken. What is taken again is Duplicated, and breaks none.
func (a *Arrivals) Judge() *Report {
	r := new(Report)
	next := map[string]int{}
	tokens := map[string]string{}
	came := make(map[string]map[int]string, len(a.Sent))
	for key := range a.Sent {
		came[key] = map[int]string{}
	}
	for _, t := range a.Taken {
		n, known := a.Sent[t.Key]
		r.Deliveries++
		if !known || t.Number < 0 || t.Number >= n+a.Unsure[t.Key] {
			r.violate(OnlySent, nil, "record %d of key %q was never sent", t.Number, t.Key)
			continue
		}
		if t.Token < tokens[t.Key] {
			r.Stale++
			continue
		}
		tokens[t.Key] = t.Token
		switch at := next[t.Key]; {
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
		if was, again := came[t.Key][t.Number]; again && was != t.Place {
			r.Doubled++
			r.violate(StoredOnce, nil, "record %d of key %q came from %s and from %s", t.Number, t.Key, was, t.Place)
		}
		came[t.Key][t.Number] = t.Place
	}
	for _, key := range slices.Sorted(maps.Keys(a.Sent)) {
		a.judgeKey(r, key, next[key], came[key])
	}
	return r
}

// judgeKey says what became of the records of a key, of which those below next were taken or passed.
func (a *Arrivals) judgeKey(r *Report, key string, next int, came map[int]string) {
	sent := a.Sent[key]
	r.Produced += int64(sent)
	for n := range sent {
		if _, taken := came[n]; taken {
			continue
		}
		if n >= next && a.Early {
			r.Lag++
			continue
		}
		if n < next {
			r.violate(NotSkipped, nil, "record %d of key %q was passed, and never taken", n, key)
		}
		r.Lost++
		r.violate(NotLost, nil, "record %d of key %q was never taken", n, key)
	}
	got := a.Failed[key]
	bad, poisoned := a.Poison[key]
	switch {
	case !poisoned && len(got) == 0:
	case poisoned && slices.Equal(got, []int{bad}):
	case poisoned && len(got) == 0 && (a.Early || bad >= sent): // it is under way, or perhaps not there
	case poisoned:
		r.violate(OneDeadLetter, nil, "key %q has dead letters for %s; expected %s", key, fmt.Sprint(got), fmt.Sprint([]int{bad}))
	default:
		r.violate(OneDeadLetter, nil, "key %q has dead letters for %s; expected none", key, fmt.Sprint(got))
	}
}
