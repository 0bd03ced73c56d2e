package core

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
)

// order is what was ordered about dead letters, or parked records that are to be finished, and is not carried out yet.
// The first order that names a record takes it, which its place in the journal decides: every reader that gets that far
// sees the same, as does the giver of the order. A parked record with an order begins no attempt; one under way ends, and
// when it succeeds, nothing is left to carry out. An order to retry lasts no longer than it takes to read it: it is done
// when the record is due.
type order struct {
	place int64
	note  Record // it, with the records that it took
	noted bool   // that is written down
}

// again reports whether the records are delivered again; else they are finished.
func (v Verb) again() bool { return v == Redrive || v == Edit }

// ends reports whether they are finished; without an order neither.
func (v Verb) ends() bool { return v == Discard || v == Pass }

// taken is what an order took.
type taken struct {
	place int64
	ids   []ID
}

// takes reports whether an order is about a record as it is now.
func (r *Record) takes(it *item, id ID) bool {
	if it == nil || it.id() != id || it.order != 0 || r.Verb == 0 {
		return false
	}
	if !it.dead {
		return r.Verb.ends() || r.Verb == Retry
	}
	if r.Verb == Retry {
		return false
	}
	key := it.state.key()
	return r.Verb != Edit || bytes.Equal(r.Key, key) && (r.Key == nil) == (key == nil) // it is stored with the new value
}

// take notes an order, and carries it out if this start is the owner. It returns what the order took.
func (s *State) take(place int64, r *Record) []ID {
	if r.Verb == Retry {
		return s.hurry(r)
	}
	o := &order{place: place, note: Record{Set: s.cfg.Set, Kind: Order, At: r.At, Order: r.Order, Verb: r.Verb, Key: r.Key}}
	for _, id := range r.IDs {
		if it := s.items[id.Origin]; r.takes(it, id) {
			it.order = r.Verb
			s.orders[id.Origin] = o
			o.note.IDs = append(o.note.IDs, id)
			s.refresh(it.state)
		}
	}
	if len(o.note.IDs) > 0 && s.phase == live {
		s.note(o)
	}
	return o.note.IDs
}

// hurry ends the pauses that an order is about, and returns those records that it names and found.
func (s *State) hurry(r *Record) (found []ID) {
	now := func(it *item) {
		if it.due = 0; it.state.index >= 0 {
			s.refresh(it.state)
		}
	}
	for _, id := range r.IDs {
		if it := s.items[id.Origin]; r.takes(it, id) {
			found = append(found, id)
			now(it)
		}
	}
	if len(r.IDs) == 0 {
		for _, it := range s.items {
			if !it.dead && (r.Key == nil || it.state.name == "k"+string(r.Key)) {
				now(it)
			}
		}
	}
	if s.phase == live {
		s.emit(Hurry{*r})
	}
	return found
}

func (s *State) note(o *order) {
	slices.SortFunc(o.note.IDs, func(a, b ID) int { return a.Compare(b.Origin) })
	s.emit(Note{Place: o.place, Record: o.note})
}

// resume carries out what was ordered before this start.
func (s *State) resume() {
	all := slices.SortedFunc(maps.Values(s.orders), func(a, b *order) int { return cmp.Compare(a.place, b.place) })
	for _, o := range slices.Compact(all) {
		s.note(o)
	}
}

// Noted says that a Note is stored: now its order may be carried out.
func (s *State) Noted(n Note) {
	for _, id := range n.IDs {
		if o := s.orders[id.Origin]; o != nil && o.place == n.Place {
			o.noted = true
			s.obey(s.items[id.Origin])
		}
	}
}

// obey carries out what was ordered about a dead letter or a parked record.
func (s *State) obey(it *item) {
	if s.phase != live || it.order == 0 || it.pending > 0 || it.busy || s.items[it.Origin] != it {
		return
	}
	o := s.orders[it.Origin]
	if !o.noted {
		return
	}
	if !it.order.again() {
		s.about(it, Entry{Record: Record{Kind: Done, At: s.cfg.Now, ID: it.id()}})
		return
	}
	r := Record{Kind: Park, At: s.cfg.Now, ID: ID{it.Origin, int(it.round) + 1}, Key: it.state.key(), Timestamp: it.timestamp}
	r.Blocking, r.Reason = it.blocking, it.reason // for Entry.Lost: a Park has neither
	p := Payload{From: InDead, Place: it.copy}
	if it.order == Edit {
		p = Payload{From: InJournal, Place: o.place}
	}
	s.about(it, Entry{Record: r, Payload: p})
}

// Took returns which records the order at a place of the journal took, when that was the last one read; an order that
// wants what was done, or what another one wants, takes nothing.
func (s *State) Took(place int64) []ID {
	if s.took.place != place {
		return nil
	}
	return s.took.ids
}
