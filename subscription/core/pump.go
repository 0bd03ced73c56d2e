package core

import "container/heap"

// A record's way through a shard. A main record is admitted: it goes to the handler directly, or behind what its
// key has parked, or it is finished already. A failing record is parked; a due one is handed out (Due), and each
// outcome is written down (Attempted) before the next attempt at it can begin. Every step ends at most in an
// entry on its way into the journal: what lasts changes when that is read back, in State.Read, and not before.

// Verdict is what becomes of a main record.
type Verdict uint8

// The verdicts.
const (
	Direct Verdict = iota + 1 // deliver it; State.Left is called when that has ended
	Divert                    // park it behind what its key has parked
	Past                      // it is finished: parked or given up before a crash put the reading back
)

// Admit decides about a main record. Of a key, one at a time is admitted.
func (s *State) Admit(key []byte, o Origin) Verdict {
	l := s.find(key, o)
	switch {
	case l == nil:
		return Direct
	case l.known(o):
		return Past
	case l.open():
		return Divert
	}
	if s.direct[o] == nil { // it may be admitted again before it has left
		s.direct[o] = l
		l.direct++
	}
	return Direct
}

// Left ends the direct delivery of a main record, whatever its outcome.
func (s *State) Left(o Origin) {
	if l := s.direct[o]; l != nil {
		delete(s.direct, o)
		l.direct--
		s.refresh(l)
		s.prune(l)
	}
}

// Held is a main record that is not to be delivered directly.
type Held struct {
	Origin    Origin
	Key       []byte
	Timestamp int64
	Attempts  int
	Due       int64
	Since     int64
	Answer    string
	Dead      bool // it is given up, for Reason
	Reason    Reason
	Now       int64
}

// Park writes a main record down; Settle says when that has finished it. A record that is given up
// becomes a dead letter, unless earlier ones of its key wait: then it waits behind them.
func (s *State) Park(h Held) {
	if s.phase != live {
		return
	}
	l := s.state(h.Key, h.Origin)
	r := Record{
		Kind: Park, At: h.Now, ID: ID{Origin: h.Origin}, Key: h.Key, Timestamp: h.Timestamp,
		Attempts: h.Attempts, Due: h.Due, Since: h.Since, Answer: cut(h.Answer, MaxAnswer),
	}
	giveUp := h.Dead && !l.open()
	if giveUp && s.cfg.DeadLetters == Drop {
		s.emit(Settle{h.Origin})
		s.prune(l)
		return
	}
	l.appending++
	if giveUp {
		r.Kind, r.Reason, r.Blocking = Dead, h.Reason, s.cfg.DeadLetters == Block
		s.copy(Copy{Record: r, Payload: Payload{From: InMain}})
		return
	}
	s.push(entry{Entry: Entry{Record: r, Payload: Payload{From: InMain}}, state: l, main: true})
}

// copy stores a payload for the dead letters.
func (s *State) copy(c Copy) {
	s.copying++
	s.emit(c)
}

// Copied says that the payload of a dead letter is stored: now it may be marked as one.
func (s *State) Copied(c Copy, place int64) {
	s.copying--
	if s.phase == adopting {
		c.Record.Copy = place
		s.push(entry{Entry: Entry{Record: c.Record}})
		return
	}
	if s.phase != live {
		return
	}
	c.Record.Copy = place
	e := entry{Entry: Entry{Record: c.Record}, state: s.state(c.Key, c.ID.Origin)}
	if c.Payload.From == InMain {
		e.main = true
	} else if e.item = s.items[c.ID.Origin]; e.item == nil {
		return
	}
	if e.item != nil {
		e.item.pending++
	}
	s.push(e)
}

// Due hands out up to limit parked records whose time has come, and says when the next one's will;
// false: no record waits for a time, or all are paused.
func (s *State) Due(now int64, limit int) (int64, bool) {
	if s.paused {
		return 0, false
	}
	for len(s.heads) > 0 && limit > 0 && s.heads[0].due <= now {
		l := heap.Pop(&s.heads).(*keyState)
		it := l.queue[0]
		it.occupy()
		limit--
		s.emit(Deliver{ID: it.id(), Key: l.key(), Place: it.place, Attempt: int(it.attempts) + 1, Since: it.since})
	}
	if len(s.heads) == 0 {
		return 0, false
	}
	return s.heads[0].due, true
}

// Outcome is what became of an attempt.
type Outcome struct {
	Done   bool
	GiveUp Reason // not zero: it failed for the last time
	Answer string
	Now    int64
	Due    int64 // of the next attempt, if there is one
	Spared bool  // it counts for nothing, and is written down for those that ask why the record waits
}

// Attempted records the outcome of a Deliver.
func (s *State) Attempted(id ID, o Outcome) {
	it := s.items[id.Origin]
	if s.phase != live || it == nil || it.id() != id || !it.busy {
		return
	}
	since := it.since
	if since == 0 {
		since = o.Now
	}
	r := Record{
		Kind: Try, At: o.Now, ID: id, Key: it.state.key(), Timestamp: it.timestamp,
		Attempts: int(it.attempts) + 1, Due: o.Due, Since: since, Answer: cut(o.Answer, MaxAnswer),
	}
	switch {
	case o.Done, o.GiveUp != 0 && s.cfg.DeadLetters == Drop:
		r = Record{Kind: Done, At: o.Now, ID: id}
	case o.Spared:
		r.Attempts--
	case o.GiveUp != 0:
		r.Kind, r.Reason, r.Blocking = Dead, o.GiveUp, s.cfg.DeadLetters == Block
		s.copy(Copy{Record: r, Payload: Payload{From: InJournal, Place: it.place}})
		return
	}
	s.about(it, Entry{Record: r})
}

// Released takes back a Deliver with an unknown outcome, or one that was not begun.
func (s *State) Released(id ID) {
	if it := s.items[id.Origin]; it != nil && it.id() == id && it.busy {
		it.release()
		s.refresh(it.state)
		s.obey(it)
	}
}

// Spared takes back a Deliver that counts for nothing, until due: what has waited longer has its turn first.
func (s *State) Spared(id ID, due int64) {
	if it := s.items[id.Origin]; it != nil && it.id() == id && it.busy {
		it.due = max(it.due, due)
	}
	s.Released(id)
}

// about sends an entry about an item.
func (s *State) about(it *item, e Entry) {
	it.pending++
	s.refresh(it.state)
	s.push(entry{Entry: e, state: it.state, item: it})
}

func cut(s string, limit int) string { return s[:min(len(s), limit)] }
