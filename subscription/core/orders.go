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
	o := &order{place: place, note: Record{Set: s.cfg.Set, Kind: Order, At: r.At, Order: r.Order, User: r.User, Verb: r.Verb, Key: r.Key}}
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

// hurry ends the pauses that an order is about, and returns those records that it names and found. An heir keeps the
// order for what it has yet to take over.
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
			if r.retries(it) {
				now(it)
			}
		}
	}
	switch {
	case s.phase == live:
		s.emit(Hurry{*r})
	case s.cfg.Heir:
		s.retries = append(s.retries, r)
	}
	return found
}

// hurried reports whether an order to retry came before a record was taken over.
func (s *State) hurried(it *item) bool {
	return slices.ContainsFunc(s.retries, func(r *Record) bool { return r.retries(it) })
}

// retries reports whether an order to retry is about a parked record.
func (r *Record) retries(it *item) bool {
	switch {
	case it.dead:
		return false
	case len(r.IDs) > 0:
		return slices.Contains(r.IDs, it.id())
	}
	return r.Key == nil || it.state.name == "k"+string(r.Key)
}

// note notes an order, about those of its records that are not delivered or dealt with yet.
func (s *State) note(o *order) {
	n := Note{Place: o.place, Record: o.note}
	n.IDs = nil
	for _, id := range slices.SortedFunc(slices.Values(o.note.IDs), func(a, b ID) int { return a.Compare(b.Origin) }) {
		if it := s.items[id.Origin]; it != nil && it.id() == id {
			n.IDs, n.Of = append(n.IDs, id), append(n.Of, o.decision(it, InDead, InJournal, 0))
		}
	}
	s.emit(n)
}

// decision is what an order made of a record, whose payload lies in one of two places.
func (o *order) decision(it *item, dead, parked Place, shard int) Entry {
	r := Record{
		Set: o.note.Set, Kind: Decided, At: o.note.At, Order: o.note.Order, User: o.note.User, Verb: o.note.Verb, ID: it.id(), Key: it.state.key(),
		Timestamp: it.timestamp, Attempts: int(it.attempts), Since: it.since, Answer: it.answer, Reason: it.reason,
	}
	if it.dead {
		return Entry{Record: r, Payload: Payload{From: dead, Place: it.copy, Shard: shard}}
	}
	return Entry{Record: r, Payload: Payload{From: parked, Place: it.place, Shard: shard}}
}

// resume carries out what was ordered before this start.
func (s *State) resume() {
	all := slices.SortedFunc(maps.Values(s.orders), func(a, b *order) int { return cmp.Compare(a.place, b.place) })
	for _, o := range slices.Compact(all) {
		s.note(o)
	}
}

// Noted says that a Note is stored: now its order may be carried out, or what it is about taken over.
func (s *State) Noted(n Note) {
	if n.Place == inParent {
		s.copying--
		s.pullOn()
		return
	}
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
