package core

import (
	"reflect"
	"testing"
)

// carriedOut is what a shard does once what it notes is stored.
func carriedOut(s *State) (out []Effect) {
	for all := s.Effects(); len(all) > 0; all = s.Effects() {
		for _, e := range all {
			if n, ok := e.(Note); ok {
				s.Noted(n)
			} else {
				out = append(out, e)
			}
		}
	}
	return out
}

// letter is an owner with a dead letter, at place 1, and a record that waits behind it.
func letter(id ID) *State {
	s := owner()
	s.Read(1, &Record{Kind: Dead, By: s.cfg.Tenure, Seq: 2, ID: id, Key: []byte("k"), Blocking: true, Reason: Permanent, Copy: 7})
	s.Read(2, &Record{Kind: Park, By: s.cfg.Tenure, Seq: 3, ID: ID{Origin: Origin{Offset: id.Offset + 1}}, Key: []byte("k")})
	s.next = 3
	s.Effects()
	return s
}

// What became of a dead letter is known from the note alone when the journal says nothing of it any more.
func TestNothingIsDoneWithADeadLetterBeforeThatIsNoted(t *testing.T) {
	t.Parallel()
	for _, verb := range []Verb{Redrive, Discard, Pass, Edit} {
		id := ID{Origin: Origin{Offset: 5}}
		s := letter(id)
		it := s.items[id.Origin]
		s.about(it, Entry{Record: Record{Kind: Dead, ID: id, Key: []byte("k"), Copy: it.copy}}) // it is appended once more
		again := s.Effects()[0].(Append).Entries[0].Record
		s.Read(3, &Record{Kind: Order, Order: "o", User: "ann", Verb: verb, IDs: []ID{id}, Key: []byte("k")})
		s.Read(4, &again)
		effects := s.Effects()
		want := Note{Place: 3, Record: Record{Set: "s", Kind: Order, Order: "o", User: "ann", Verb: verb, IDs: []ID{id}, Key: []byte("k")}}
		want.Of = []Entry{{
			Record:  Record{Set: "s", Kind: Decided, Order: "o", User: "ann", Verb: verb, ID: id, Key: []byte("k"), Reason: Permanent},
			Payload: Payload{From: InDead, Place: 7},
		}}
		if len(effects) != 1 || !reflect.DeepEqual(effects[0], want) {
			t.Fatalf("verb %d: %+v; expected only %+v", verb, effects, want)
		}
		s.Noted(want)
		if effects = s.Effects(); len(effects) != 1 || len(effects[0].(Append).Entries) != 1 {
			t.Errorf("verb %d, once it is noted: %+v", verb, effects)
		}
	}
}

// An edited record takes the place of the dead letter, before what waits behind it.
func TestAnEditedRecordIsDeliveredInItsPlaceWithTheNewValue(t *testing.T) {
	t.Parallel()
	id := ID{Origin: Origin{Offset: 5}}
	s := letter(id)
	s.Read(3, &Record{Kind: Order, Verb: Edit, IDs: []ID{id}, Key: []byte("k")})
	e := carriedOut(s)[0].(Append).Entries[0]
	if e.Kind != Park || e.ID != (ID{id.Origin, 1}) || e.Payload != (Payload{From: InJournal, Place: 3}) {
		t.Errorf("written is %+v; expected the second round of %v with what lies at 3", e, id)
	}
	s.Read(4, &e.Record)
	s.Due(1, 10)
	if got := s.Effects(); len(got) != 1 || got[0].(Deliver).ID != e.ID || got[0].(Deliver).Place != 4 {
		t.Errorf("%+v is to be done; expected the delivery of %v from 4", got, e.ID)
	}
}

// The new value lies in the order, with a key: that of another record would bring the two into one order.
func TestAnEditWithAnotherKeyIsNone(t *testing.T) {
	t.Parallel()
	id := ID{Origin: Origin{Offset: 5}}
	for _, key := range [][]byte{nil, {}, []byte("other")} {
		s := letter(id)
		s.Read(3, &Record{Kind: Order, Verb: Edit, IDs: []ID{id}, Key: key})
		if got := carriedOut(s); len(got) > 0 {
			t.Errorf("key %q: %+v", key, got)
		}
	}
}

func TestOfTwoOrdersTheFirstCounts(t *testing.T) {
	t.Parallel()
	id := ID{Origin: Origin{Offset: 5}}
	s := letter(id)
	s.Read(3, &Record{Kind: Order, Verb: Pass, IDs: []ID{id}})
	a := s.Took(3)
	s.Read(4, &Record{Kind: Order, Verb: Edit, IDs: []ID{id}, Key: []byte("k")})
	if b := s.Took(4); !reflect.DeepEqual(a, []ID{id}) || len(b) > 0 {
		t.Errorf("the first took %v, the second %v", a, b)
	}
	effects := carriedOut(s)
	if e := effects[0].(Append).Entries[0]; len(effects) != 1 || e.Kind != Done {
		t.Errorf("written is %+v; expected that it is finished", e)
	}
	s.Read(5, &effects[0].(Append).Entries[0].Record)
	s.Due(1, 10)
	if got := s.Effects(); len(got) != 1 || got[0].(Deliver).ID.Offset != 6 {
		t.Errorf("%+v is to be done; expected that what waited is delivered", got)
	}
}

// A list of dead letters may be old: what was delivered again since is another round of the record.
func TestAnOrderOfAnEarlierRoundTakesNothing(t *testing.T) {
	t.Parallel()
	id := ID{Origin: Origin{Offset: 5}}
	for _, verb := range []Verb{Pass, Discard, Retry} {
		s := letter(id)
		s.Read(3, &Record{Kind: Order, Verb: Redrive, IDs: []ID{id}})
		again := carriedOut(s)[0].(Append).Entries[0].Record
		s.Read(4, &again)
		s.Read(5, &Record{Kind: Order, Verb: verb, IDs: []ID{id}})
		if took := s.Took(5); len(took) > 0 {
			t.Errorf("verb %d took %v, of which round %d is tried again", verb, took, again.ID.Round)
		}
		s.Read(6, &Record{Kind: Order, Verb: verb, IDs: []ID{again.ID}})
		if took := s.Took(6); len(took) != 1 {
			t.Errorf("verb %d took %v of the present round", verb, took)
		}
	}
}

// A dead letter is appended once more while an order for it comes. An heir that read the journal from the
// copy on would not know of the order.
func TestAnOrderIsNotForgottenByACopyThatIsUnderWay(t *testing.T) {
	t.Parallel()
	for _, verb := range []Verb{Redrive, Discard} {
		s, id := owner(), ID{Origin: Origin{Offset: 5}}
		dead := Record{Kind: Dead, By: s.cfg.Tenure, ID: id, Key: []byte("k"), Blocking: true, Reason: Permanent}
		fence := Record{Kind: Fence, By: s.cfg.Tenure}
		journal := []Record{fence, dead, fence, {Kind: Order, Verb: verb, IDs: []ID{id}}, fence, dead}
		for place := range journal {
			if r := &journal[place]; r.Kind != Order {
				r.Seq = uint64(place + 1)
			}
			if place > 0 { // owner has read the first
				s.Read(int64(place), &journal[place])
			}
		}
		from := s.From([]Next{{Offset: 6}})
		heir := New(Config{Set: "s", From: from})
		for place := from; place < int64(len(journal)); place++ {
			heir.Read(place, &journal[place])
		}
		if it, ok := heir.Item(id.Origin); !ok || it.Order != verb {
			t.Errorf("an heir from %d knows of order %d; expected %d: %+v", from, it.Order, verb, it)
		}
	}
}

// An order that is noted once more after a crash is about those of its records that are still as it found them.
func TestAnOrderIsNotedAnewOnlyForWhatItHasYetToDoWith(t *testing.T) {
	t.Parallel()
	by := Tenure{Epoch: 7, Run: 1}
	id := func(offset int64, round int) ID { return ID{Origin{Offset: offset}, round} }
	dead := func(seq uint64, offset int64) Record {
		return Record{Kind: Dead, By: by, Seq: seq, ID: id(offset, 0), Reason: Permanent, Copy: offset}
	}
	s := New(Config{Set: "s", Tenure: Tenure{Epoch: 8, Run: 1}})
	s.Start()
	script(s,
		Record{Kind: Fence, By: by, Seq: 1}, dead(2, 4), dead(3, 5), dead(4, 6),
		Record{Kind: Order, Verb: Redrive, IDs: []ID{id(4, 0), id(5, 0), id(6, 0)}},
		Record{Kind: Park, By: by, Seq: 5, ID: id(4, 1)},
		Record{Kind: Park, By: by, Seq: 6, ID: id(5, 1)},
		Record{Kind: Done, By: by, Seq: 7, ID: id(5, 1)},
	)
	fence := s.Effects()[0].(Append).Entries[0].Record
	s.Read(8, &fence)
	for _, e := range s.Effects() {
		if n, ok := e.(Note); ok && (!reflect.DeepEqual(n.IDs, []ID{id(6, 0)}) || len(n.Of) != 1 || n.Of[0].ID != id(6, 0)) {
			t.Errorf("noted are %v, %+v; expected only %v", n.IDs, n.Of, id(6, 0))
		}
	}
}
