package core

import (
	"cmp"
	"slices"
)

// The reshard. A shard of the old set writes Close when nothing of it is under way any more: the journal
// ends there, for every reader and for ever. A shard of the new set reads the journals of those that had
// its partitions up to that record, appends their live records, and what they know to be finished, to its
// own, and begins when that was read back.

// Ending is the last record of a journal that counts.
type Ending struct {
	Place int64
	By    Tenure
}

// Ended says where the journal ends for good; false: it goes on.
func (s *State) Ended() (Ending, bool) { return s.ending, s.ended }

// Close ends the journal once all that was begun is written, with a record whose payload, which says how
// far the main records are finished, is the shell's. Closed says that it was read back.
func (s *State) Close() {
	if s.phase == live {
		s.push(entry{Entry: Entry{Record: Record{Kind: Close, At: s.cfg.Now}, Payload: Payload{From: AtTheEnd}}})
	}
}

// endAt handles a Close that counts: nothing after it does.
func (s *State) endAt(place int64, r *Record) {
	s.ended, s.ending = true, Ending{Place: place, By: r.By}
	if s.phase != fresh {
		s.phase, s.queue, s.flight, s.heads = over, nil, nil, nil
		s.emit(Closed{})
	}
}

// Parent is the journal of a shard of the set before, read up to its end.
type Parent struct {
	Shard int
	State *State
	// Takes selects the parked records that go on here; nil: those of the partitions where this shard begins.
	Takes func(o Origin, key []byte) bool
}

// pull is a part of a parent that is to be taken over.
type pull struct {
	shard int
	it    *item // nil: only that all of the key state up to at is finished
	state *keyState
	at    Origin

	edited int64 // where the order for it lies, with the value that it may have
}

// bequest is an order that a parent took, and the records of it that are to be taken over here. The parent may have ended
// before it noted the order.
type bequest struct {
	shard int
	order *order
	items []*item
}

// note is what is stored before those records are taken over, or left behind as finished.
func (b *bequest) note() Note {
	n := Note{Place: inParent, Record: b.order.note}
	n.IDs = nil
	slices.SortFunc(b.items, func(x, y *item) int { return x.Compare(y.Origin) })
	for _, it := range b.items {
		n.IDs = append(n.IDs, it.id())
		n.Of = append(n.Of, b.order.decision(it, InParentDead, InParent, b.shard))
	}
	return n
}

// Adopt takes over what the parents have of the partitions in next, the lowest unfinished offsets by which
// this shard is going to begin, or what Takes selects of other ones: all that is live, and what is
// finished at or above those offsets. Adopted says that it was read back. An heir that knows only a part
// of it may repeat it.
func (s *State) Adopt(parents []Parent, next []Next) {
	if s.phase != adopting {
		return
	}
	from := map[[2]int]Next{}
	for _, n := range next {
		from[[2]int{n.Storage, n.Partition}] = n
	}
	for _, p := range parents {
		given := map[*order][]*item{}
		for _, it := range p.State.items {
			n, mine := from[it.in()]
			if p.Takes != nil {
				mine = p.Takes(it.Origin, it.state.key())
			}
			// A later item of its key says nothing: others pass a dead letter that waits for its copy.
			if !mine || !n.keeps(it.Origin) || s.items[it.Origin] != nil {
				continue
			}
			one := pull{shard: p.Shard, it: it, state: it.state, at: it.Origin}
			if o := p.State.orders[it.Origin]; o != nil {
				one.edited = o.place
				given[o] = append(given[o], it)
			}
			if !it.order.ends() {
				s.pulls = append(s.pulls, one)
			}
		}
		for o, items := range given {
			s.bequests = append(s.bequests, bequest{p.Shard, o, items})
		}
		for _, l := range p.State.keys {
			for m := range l.marks {
				at, mine := from[m.in()]
				if own := s.keys[l.name]; mine && !at.Anew && m.Offset >= at.Offset && !p.State.holds(m.Origin) && (own == nil || !own.known(m.Origin)) {
					s.pulls = append(s.pulls, pull{state: l, at: m.Origin})
				}
			}
		}
	}
	slices.SortFunc(s.bequests, func(a, b bequest) int { return cmp.Or(a.shard-b.shard, cmp.Compare(a.order.place, b.order.place)) })
	slices.SortFunc(s.pulls, func(a, b pull) int { return a.at.Compare(b.at) })
	s.pullOn()
}

// keeps reports whether a record parked there goes on; else it comes again from the main topic, or never.
func (n *Next) keeps(o Origin) bool { return !n.Anew || !n.Shed && o.Offset < n.Offset }

// in is the partition of an origin.
func (o Origin) in() [2]int { return [2]int{int(o.Storage), int(o.Partition)} }

// holds reports whether there is an item that goes on: one that was discarded or skipped does not.
func (s *State) holds(o Origin) bool {
	it := s.items[o]
	return it != nil && !it.order.ends()
}

// pullOn takes over the next part, when nothing is on its way.
func (s *State) pullOn() {
	if s.phase != adopting || len(s.queue)+len(s.flight) > 0 || s.copying > 0 {
		return
	}
	if len(s.bequests) > 0 {
		b := s.bequests[0]
		s.bequests = s.bequests[1:]
		s.copying++
		s.emit(b.note())
		return
	}
	k := min(len(s.pulls), s.cfg.Batch)
	some := s.pulls[:k]
	if s.pulls = s.pulls[k:]; k == 0 {
		s.hasten()
		if len(s.flight) == 0 {
			s.emit(Adopted{})
		}
		return
	}
	for _, p := range some {
		s.pull(p)
	}
}

// hasten appends once more, as due, what was on its way when an order to retry came: the first checkpoint may be above
// the order.
func (s *State) hasten() {
	for _, it := range s.sorted() {
		if it.due > 0 && it.order == 0 && s.hurried(it) {
			e := entry{Entry: Entry{Record: s.copyOf(it), Payload: Payload{From: InJournal, Place: it.place}}}
			e.Due = 0
			s.push(e)
		}
	}
}

func (s *State) pull(p pull) {
	it := p.it
	if it == nil {
		s.push(entry{Entry: Entry{Record: Record{Kind: Known, At: s.cfg.Now, ID: ID{Origin: p.at}, Key: p.state.key()}}})
		return
	}
	r := s.copyOf(it)
	switch {
	case !it.dead:
		if s.hurried(it) {
			r.Due = 0
		}
		s.push(entry{Entry: Entry{Record: r, Payload: Payload{From: InParent, Place: it.place, Shard: p.shard}}})
	case it.order.again():
		r.ID.Round++
		r.Attempts, r.Due, r.Since, r.Answer = 0, 0, 0, ""
		r.Blocking, r.Reason = it.blocking, it.reason // for Entry.Lost
		from := Payload{From: InParentDead, Place: it.copy, Shard: p.shard}
		if it.order == Edit {
			from.From, from.Place = InParent, p.edited
		}
		s.push(entry{Entry: Entry{Record: r, Payload: from}})
	default:
		r.Kind, r.Blocking, r.Reason = Dead, it.blocking, it.reason
		s.copy(Copy{Record: r, Payload: Payload{From: InParentDead, Place: it.copy, Shard: p.shard}})
	}
}

// Open lets a shard that has taken over go to work: its first checkpoint is stored, so its parents are
// needed no more.
func (s *State) Open() {
	if s.phase == adopting {
		s.work()
	}
}
