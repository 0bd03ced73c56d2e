package core

// A receiver keeps the highest token of each key and refuses lower ones. A token begins with the epoch, so a unit
// hands records out only in an epoch above those in which their keys may have been handed out before. Those of its
// own owners are lower anyway; this file is about other units of a group that grows.

// spent are the highest epochs in which other units may have handed out the keys of a unit: those before it, and
// after a seek those behind it.
type spent struct{ before, behind int64 }

// spend finds the epochs above which each unit starts, as receivers refuse what comes below the highest token that
// they have of a key.
//
// It is safe as a unit starts in a view that is newer than its grant (fresh). An epoch that is not in that view
// began later; its owner finds this grant in its own view, and begins above it.
func (s *State) spend() {
	type parents struct{ from, to, step int }
	later := int64(0) // of units that we have not heard of yet: they may come after any
	for n := len(s.layout); n < len(s.view.Units) && s.view.Meta.Sought; n++ {
		later = max(later, s.view.Units[n].HandedOut())
	}
	of := func(n int) parents { l := &s.layout[n]; return parents{l.From, l.To, l.Step} }
	for n := range s.layout { // units with the same parents follow each other
		at := s.view.Meta.Retired
		if n > 0 && of(n) == of(n-1) {
			at = s.spent[n-1].before
		} else {
			for p, q := of(n), s.layout[n].From; q < p.to; q += p.step {
				at = max(at, s.spent[q].before, s.view.Units[q].HandedOut())
			}
		}
		s.spent = append(s.spent, spent{before: at, behind: later})
	}
	behind := int64(0)
	for n := len(s.layout) - 1; n > 0 && s.view.Meta.Sought; n-- {
		behind = max(behind, s.spent[n].behind, s.view.Units[n].HandedOut())
		if of(n) == of(n-1) {
			continue
		}
		for p, q := of(n), s.layout[n].From; q < p.to; q += p.step {
			s.spent[q].behind = max(s.spent[q].behind, behind)
		}
		behind = 0
	}
}

// above is the epoch above which a unit starts; 0: any.
func (s *State) above(n int) int64 {
	if n >= len(s.spent) {
		return 0
	}
	return max(s.spent[n].before, s.spent[n].behind)
}

// outdone reports whether a unit before this one may have handed out its keys in a later epoch: it was sent back,
// and is finished again, in a time in which nothing was heard here.
func (s *State) outdone(n int) bool {
	return n < len(s.spent) && s.units[n].grant.Epoch <= s.spent[n].before
}

// fresh reports whether a unit that comes after others was seen in the store since we got it. If not, it asks for
// that: others may have been sent back meanwhile.
func (s *State) fresh(n int) bool {
	if n >= len(s.layout) || s.layout[n].From == s.layout[n].To || s.viewStep > s.units[n].wrote {
		return true
	}
	s.wantLoad = true
	return false
}
