package core

// A journal says of main records that they are parked or finished, also of those above the checkpoint.
// A statement about records beyond the end of their partition is about another partition than this
// one: the main topic went back, or a foreign producer wrote to the journal. Left alone it would make
// the records that come there, and all of the key below, look finished.

// Beyond is what a journal says of records beyond the end of their partition.
type Beyond struct {
	Finished int // keys with something there that is said to be finished
	Parked   int // records that are parked or given up
	Highest  int64
}

// Any reports whether there is anything.
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

// Bound writes down, after Started and before a record is admitted, that a partition ends there. From
// then on no owner or heir believes that records beyond it are finished, however long the partition
// grows.
func (s *State) Bound(end Origin) {
	if s.phase == live {
		s.push(entry{Entry: Entry{Record: Record{Kind: Ends, At: s.cfg.Now, ID: ID{Origin: end}}}})
		s.cut(end)
	}
}

// Torn counts the parked records and dead letters that their partition did not have when it was bound. No
// record of it may be admitted meanwhile: another one may be in such a place by now, or come, and the two
// could not be told apart.
func (s *State) Torn() (n int) {
	for _, it := range s.items {
		if it.torn {
			n++
		}
	}
	return n
}

// cut forgets the marks at or above an end, and those that come from records parked there. A key state that
// loses one keeps its other parked records as its mark.
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

// lower forgets the mark of a key state at or above an end, and reports whether there was one.
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
