package core

import (
	"maps"
	"slices"
)

// From where an heir has to read the journal, and how that place moves on. Only the live part of a journal
// matters. Its beginning is kept by records that are the last to tell of something parked, or of something
// finished at or above the checkpoint. They stand in placed, in order of place. When few live records keep many
// dead ones, the oldest live ones are appended once more (Tidy), so that the beginning can move: an heir reads
// at most about four times what is live, or as much as Config.Tidy says.

// placed is a record of the journal that keeps what lies behind it, unless a later copy of it does.
type placed struct {
	place  int64
	state  *keyState
	origin Origin
}

// From is the place from which an heir has to read the journal: a fence that counts, at or before all
// that is live, and all that says that a main record at or above the checkpoint is finished. next is
// the lowest unfinished offset of each partition in the checkpoint that is stored with that place; a
// partition that is not named is read no more. From never goes back.
func (s *State) From(next []Next) int64 {
	for _, n := range next {
		s.passed[[2]int{n.Storage, n.Partition}] = n.Offset
	}
	for len(s.placed) > 0 && !s.needed(s.placed[0]) {
		l := s.placed[0].state
		s.placed = s.placed[1:]
		s.prune(l)
	}
	for len(s.fences) > 1 && s.fences[1] <= s.first() {
		s.fences = s.fences[1:]
	}
	if len(s.fences) == 0 {
		return s.cfg.From
	}
	return s.fences[0]
}

// Next is the lowest unfinished offset of a partition.
type Next struct {
	Storage, Partition int
	Offset             int64

	// Of State.Adopt, after a reset.
	Anew bool // all from there on comes again from the main topic: nothing of it is known
	Shed bool // what is parked below is left behind
}

// needed reports whether an heir has to read p.
func (s *State) needed(p placed) bool {
	if it := s.items[p.origin]; it != nil && it.place == p.place {
		return true
	}
	for m := range p.state.marks {
		if m.Origin == p.origin && m.place == p.place {
			return !s.below(m.Origin)
		}
	}
	return false
}

func (s *State) below(o Origin) bool {
	next, input := s.passed[[2]int{int(o.Storage), int(o.Partition)}]
	return !input || o.Offset < next
}

// prune forgets a key state that can be asked for no more.
func (s *State) prune(l *keyState) {
	if !l.idle() || s.keys[l.name] != l {
		return
	}
	for m := range l.marks {
		if !s.below(m.Origin) || m.place >= s.first() {
			return
		}
	}
	delete(s.keys, l.name)
}

// first is the lowest place that is kept.
func (s *State) first() int64 {
	if len(s.placed) > 0 {
		return s.placed[0].place
	}
	return s.end
}

// Stored says that a checkpoint with that From is stored: what lies before is useless.
func (s *State) Stored(from int64) {
	if s.phase == live {
		s.emit(Trim{Before: from})
	}
}

// Tidy keeps useless records from growing the journal. When an heir would have to read several times what
// is live, it appends up to limit of the oldest live records once more, until all that lay there by then
// has moved on. Call it now and then, after From.
func (s *State) Tidy(limit int) {
	if s.phase != live || len(s.fences) == 0 {
		return
	}
	from := s.fences[0]
	if span := s.end - from; s.tidyTo <= from && span >= s.cfg.Tidy && span >= 4*int64(len(s.items)) {
		s.tidyTo = s.end
	}
	if s.tidyTo > from {
		s.compact(s.tidyTo, limit)
	}
}

// compact appends up to limit of the live records that lie below before once more, so that From can
// move on.
func (s *State) compact(before int64, limit int) {
	look := 16 * limit // what is kept in front may be what only time takes away
	for _, p := range s.placed[:min(len(s.placed), look)] {
		it := s.items[p.origin]
		if limit == 0 || p.place >= before {
			return
		}
		if it == nil || it.place != p.place || it.pending > 0 || it.order != 0 || it.busy {
			continue
		}
		limit--
		e := Entry{Record: s.copyOf(it), Payload: Payload{From: InJournal, Place: it.place}}
		if it.dead {
			e.Kind, e.Copy, e.Blocking, e.Reason, e.Payload = Dead, it.copy, it.blocking, it.reason, Payload{}
		}
		s.about(it, e)
	}
}

// copyOf is what a Park says of an item.
func (s *State) copyOf(it *item) Record {
	return Record{
		Kind: Park, At: s.cfg.Now, ID: it.id(), Key: it.state.key(), Timestamp: it.timestamp,
		Attempts: int(it.attempts), Due: it.due, Since: it.since, Answer: it.answer,
	}
}

// sorted is all items in the order of their origins.
func (s *State) sorted() []*item {
	return slices.SortedFunc(maps.Values(s.items), func(a, b *item) int { return a.Compare(b.Origin) })
}

// Item is a parked record or a dead letter, for people and for comparing.
type Item struct {
	ID
	Key       []byte
	Dead      bool
	Blocking  bool
	Copy      int64
	Reason    Reason
	Place     int64
	Timestamp int64
	Attempts  int
	Due       int64
	Since     int64
	Answer    string
	Order     Verb // given and not carried out yet; 0: none
}

// Items returns all that is parked or dead, in the order of origins.
func (s *State) Items() []Item {
	all := s.sorted()
	out := make([]Item, len(all))
	for i, it := range all {
		out[i] = it.item()
	}
	return out
}

// Item returns what is known of one parked record or dead letter.
func (s *State) Item(o Origin) (Item, bool) {
	it := s.items[o]
	if it == nil {
		return Item{}, false
	}
	return it.item(), true
}

func (it *item) item() Item {
	return Item{
		ID: it.id(), Key: it.state.key(), Dead: it.dead, Blocking: it.blocking, Copy: it.copy, Reason: it.reason, Place: it.place,
		Timestamp: it.timestamp, Attempts: int(it.attempts), Due: it.due, Since: it.since, Answer: it.answer, Order: it.order,
	}
}
