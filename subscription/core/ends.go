package core

// A journal says of main records that they are parked or finished, also of those above the checkpoint.
// What it says of records beyond the end of their partition is of another partition than the one there
// is: the main topic went back, or somebody else wrote to the journal. Left as it is it would take the
// records that come there, and all of the key below, for finished.

// Beyond is what a journal says of records that are beyond the end of their partition.
type Beyond struct {
	Finished int // keys of which something there is said to be finished
	Parked   int // records that are parked or given up
	Highest  int64
}

// Any says whether there is something.
func (b Beyond) Any() bool { return b.Finished+b.Parked > 0 }

// Beyond looks for what lies at or above an end.
func (s *State) Beyond(end Origin) (b Beyond) {
	for _, l := range s.keys {
		for m := range l.marks {
			if m.atOrAbove(end) {
				b.Finished++
				b.Highest = max(b.Highest, m.Offset)
			}
		}
	}
	for o := range s.items {
		if o.atOrAbove(end) {
			b.Parked++
			b.Highest = max(b.Highest, o.Offset)
		}
	}
	return b
}

func (o Origin) atOrAbove(end Origin) bool {
	return o.Storage == end.Storage && o.Partition == end.Partition && o.Offset >= end.Offset
}

// Bound writes down, once Started was told and before a record is admitted, that a partition ends there:
// that records are finished which are not there is not believed from then on, by no heir either, however
// long the partition is by then.
func (s *State) Bound(end Origin) {
	if s.phase == live {
		s.push(entry{Entry: Entry{Record: Record{Kind: Ends, At: s.cfg.Now, ID: ID{Origin: end}}}})
		s.cut(end)
	}
}

// Torn is how many records are parked, or dead letters, that their partition had not got when it was
// bound. No record of it may be admitted meanwhile: another one may be in such a place by now, or come, and
// the two could not be told apart.
func (s *State) Torn() (n int) {
	for _, it := range s.items {
		if it.torn {
			n++
		}
	}
	return n
}

// cut forgets the marks at or above an end, and those that come of what is parked there. A key state that loses
// one keeps what else is parked of it as its mark.
func (s *State) cut(end Origin) {
	lost := map[*keyState]bool{}
	for _, l := range s.keys {
		if l.lower(end) {
			lost[l] = true
		}
	}
	for o, it := range s.items {
		if o.atOrAbove(end) {
			it.torn = true
		} else if lost[it.state] {
			it.state.raise(o, it.place)
		}
	}
	for l := range lost {
		s.prune(l)
	}
}

// lower forgets the mark of a key state at or above an end, and says whether there was one.
func (l *keyState) lower(end Origin) bool {
	var kept []mark
	lost := false
	for m := range l.marks {
		if m.atOrAbove(end) {
			lost = true
		} else {
			kept = append(kept, mark{Origin: m.Origin, place: m.place})
		}
	}
	if !lost {
		return false
	}
	l.first = mark{place: -1}
	for _, m := range kept {
		l.raise(m.Origin, m.place)
	}
	return true
}
