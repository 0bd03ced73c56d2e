package core

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
)

// order is what was ordered about dead letters and is not carried out yet. The first order that names a
// record takes it, which its place in the journal decides: every reader that gets that far sees the same,
// as does the giver of the order.
type order struct {
	place int64
	note  Record // it, with the records that it took
	noted bool   // that is written down
}

// again reports whether the records are delivered again; else they are finished.
func (v Verb) again() bool { return v == Redrive || v == Edit }

// ends reports whether they are finished; without an order neither.
func (v Verb) ends() bool { return v == Discard || v == Pass }

// takes reports whether an order is about a dead letter as it is now.
func (r *Record) takes(it *item, id ID) bool {
	if it == nil || it.id() != id || !it.dead || it.order != 0 || r.Verb == 0 {
		return false
	}
	key := it.state.key()
	return r.Verb != Edit || bytes.Equal(r.Key, key) && (r.Key == nil) == (key == nil) // it is stored with the new value
}

// take notes an order, and carries it out if this start is the owner.
func (s *State) take(place int64, r *Record) {
	o := &order{place: place, note: Record{Set: s.cfg.Set, Kind: Order, At: r.At, Order: r.Order, Verb: r.Verb, Key: r.Key}}
	for _, id := range r.IDs {
		if it := s.items[id.Origin]; r.takes(it, id) {
			it.order = r.Verb
			s.orders[id.Origin] = o
			o.note.IDs = append(o.note.IDs, id)
		}
	}
	if len(o.note.IDs) > 0 && s.phase == live {
		s.note(o)
	}
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

// obey carries out what was ordered about a dead letter.
func (s *State) obey(it *item) {
	if s.phase != live || it.order == 0 || it.pending > 0 || s.items[it.Origin] != it {
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

// Took returns which records the order at a place of the journal took that are not yet as it wants them;
// an order that wants what was done, or what another one wants, takes nothing.
func (s *State) Took(place int64) []ID {
	for _, o := range s.orders {
		if o.place == place {
			return o.note.IDs
		}
	}
	return nil
}
