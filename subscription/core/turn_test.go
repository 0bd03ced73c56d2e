package core

import (
	"reflect"
	"slices"
	"testing"
)

// settle answers the copies that a state wants, and reads back what it appends, until nothing more is wanted.
func settle(s *State, at int64) (all []Entry, other []Effect) {
	for {
		effects := s.Effects()
		if len(effects) == 0 {
			return all, other
		}
		for _, e := range effects {
			switch e := e.(type) {
			case Append:
				for i := range e.Entries {
					all = append(all, e.Entries[i])
					s.Read(at, &e.Entries[i].Record)
					at++
				}
			case Copy:
				s.Copied(e, 77)
			case Note:
				s.Noted(e)
			default:
				other = append(other, e)
			}
		}
	}
}

func TestNothingCountsAfterTheEndOfAJournal(t *testing.T) {
	t.Parallel()
	by, heir := Tenure{Epoch: 7, Run: 1}, Tenure{Epoch: 8, Run: 1}
	park := func(by Tenure, seq uint64, offset int64) Record {
		return Record{Kind: Park, By: by, Seq: seq, ID: ID{Origin: Origin{Offset: offset}}, Key: []byte("k")}
	}
	s := New(Config{Set: "s"})
	script(s,
		Record{Kind: Fence, By: by, Seq: 1}, park(by, 2, 4), Record{Kind: Close, By: by, Seq: 3}, park(by, 4, 5),
		Record{Kind: Fence, By: heir, Seq: 1}, park(heir, 2, 6), Record{Kind: Close, By: heir, Seq: 3},
	)
	if items := s.Items(); len(items) != 1 || items[0].Offset != 4 {
		t.Errorf("parked are %+v; expected what was before the end", items)
	}
	if at, ok := s.Ended(); !ok || at != (Ending{Place: 2, By: by}) {
		t.Errorf("it ended at %+v, %t", at, ok)
	}
}

func TestAnOwnerWritesNothingAfterItsEnd(t *testing.T) {
	t.Parallel()
	s := New(Config{Set: "s", Tenure: Tenure{Epoch: 7, Run: 1}})
	s.Start()
	s.Close() // before it knows anything: that is no end
	settle(s, 0)
	s.Close()
	if _, other := settle(s, 1); !reflect.DeepEqual(other, []Effect{Closed{}}) {
		t.Errorf("its owner is told %+v", other)
	}
	s.Park(Held{Origin: Origin{Offset: 3}, Key: []byte("k")})
	s.Refence()
	if more := s.Effects(); len(more) > 0 || s.phase == live {
		t.Errorf("after its end it wants %+v", more)
	}
	late := New(Config{Set: "s", Tenure: Tenure{Epoch: 9, Run: 1}})
	late.Start()
	late.Effects()
	script(late, Record{Kind: Fence, By: Tenure{Epoch: 7, Run: 1}, Seq: 1}, Record{Kind: Close, By: Tenure{Epoch: 7, Run: 1}, Seq: 2})
	if got := late.Effects(); !reflect.DeepEqual(got, []Effect{Closed{}}) {
		t.Errorf("a later start is told %+v", got)
	}
}

// What a parent has left is taken over: what is parked, what is a dead letter, orders that nobody has carried
// out, and what is finished at or above where the heir begins; nothing of other partitions, and nothing twice.
func TestAnHeirTakesOverWhatItsPartitionsHave(t *testing.T) {
	t.Parallel()
	by := Tenure{Epoch: 7, Run: 1}
	id := func(partition int32, offset int64) ID {
		return ID{Origin: Origin{Partition: partition, Offset: offset}}
	}
	dead := func(seq uint64, offset int64, key string) Record {
		return Record{Kind: Dead, By: by, Seq: seq, ID: id(1, offset), Key: []byte(key), Copy: offset, Blocking: true, Reason: Permanent, Answer: "no"}
	}
	parent := New(Config{Set: "s"})
	script(parent,
		Record{Kind: Fence, By: by, Seq: 1},
		Record{Kind: Park, By: by, Seq: 2, ID: id(0, 3), Key: []byte("other")},
		Record{Kind: Park, By: by, Seq: 3, ID: id(1, 4), Key: []byte("a"), Attempts: 2, Since: 5, Answer: "later"},
		dead(4, 5, "b"), dead(5, 6, "c"), dead(6, 11, "d"),
		Record{Kind: Park, By: by, Seq: 7, ID: id(1, 9), Key: []byte("e")}, Record{Kind: Done, By: by, Seq: 8, ID: id(1, 9)},
		Record{Kind: Park, By: by, Seq: 9, ID: id(1, 2), Key: []byte("f")}, Record{Kind: Done, By: by, Seq: 10, ID: id(1, 2)},
		Record{Kind: Order, Verb: Redrive, IDs: []ID{id(1, 6)}}, Record{Kind: Order, Verb: Discard, IDs: []ID{id(1, 11)}},
		dead(11, 12, "g"), dead(12, 13, "h"), Record{Kind: Order, Verb: Pass, IDs: []ID{id(1, 12)}},
		Record{Kind: Order, Verb: Edit, IDs: []ID{id(1, 13)}, Key: []byte("h")},
		Record{Kind: Close, By: by, Seq: 13},
	)
	heir := func(batch int) *State {
		s := New(Config{Set: "t", Tenure: Tenure{Epoch: 8, Run: 1}, Heir: true, Batch: batch})
		s.Start()
		settle(s, 0)
		return s
	}
	type row struct {
		kind  Kind
		id    ID
		from  Place
		place int64
	}
	redriven := id(1, 6)
	redriven.Round = 1
	edited := id(1, 13)
	edited.Round = 1
	want := []row{
		{Park, id(1, 4), InParent, 2}, {Dead, id(1, 5), Nowhere, 0}, {Park, redriven, InParentDead, 6}, {Known, id(1, 9), Nowhere, 0}, {Known, id(1, 11), Nowhere, 0},
		{Known, id(1, 12), Nowhere, 0}, {Park, edited, InParent, 15}, // from the order
	}
	for _, batch := range []int{1, 2, 256} {
		s := heir(batch)
		s.Adopt([]Parent{{Shard: 3, State: parent}}, []Next{{Partition: 1, Offset: 8}})
		if due, waits := s.Due(1<<50, 9); waits {
			t.Errorf("something is delivered at %d before all is taken over", due)
		}
		entries, other := settle(s, 1)
		got := map[ID]row{}
		for _, e := range entries {
			got[e.ID] = row{e.Kind, e.ID, e.Payload.From, e.Payload.Place}
		}
		for _, w := range want {
			if got[w.id] != w {
				t.Errorf("in batches of %d %v is %+v; expected %+v", batch, w.id, got[w.id], w)
			}
		}
		if len(entries) != len(want) || !reflect.DeepEqual(other, []Effect{Adopted{}}) {
			t.Errorf("in batches of %d: %d entries, then %+v", batch, len(entries), other)
		}
		if it, _ := s.Item(id(1, 4).Origin); it.Attempts != 2 || it.Answer != "later" || it.Since != 5 {
			t.Errorf("what was tried is taken over as %+v", it)
		}
		s.Adopt([]Parent{{Shard: 3, State: parent}}, []Next{{Partition: 1, Offset: 8}})
		if again, _ := settle(s, 99); len(again) > 0 {
			t.Errorf("taken over again: %+v", again)
		}
		s.Open()
		if s.Admit([]byte("e"), id(1, 9).Origin) != Past || s.Admit([]byte("a"), id(1, 10).Origin) != Divert || s.Admit([]byte("z"), id(1, 10).Origin) != Direct {
			t.Error("records are not admitted as in the set before")
		}
	}
}

// After a reset nothing is known of what comes again. What is parked below goes along, unless it is left
// behind; of a partition that was not reset everything does.
func TestAnHeirOfAResetKnowsNothingOfWhatComesAgain(t *testing.T) {
	t.Parallel()
	by := Tenure{Epoch: 7, Run: 1}
	id := func(partition int32, offset int64) ID {
		return ID{Origin: Origin{Partition: partition, Offset: offset}}
	}
	parent := New(Config{Set: "s"})
	script(parent,
		Record{Kind: Fence, By: by, Seq: 1},
		Record{Kind: Park, By: by, Seq: 2, ID: id(0, 4), Key: []byte("a")},
		Record{Kind: Park, By: by, Seq: 3, ID: id(0, 5), Key: []byte("a")},
		Record{Kind: Dead, By: by, Seq: 4, ID: id(0, 6), Key: []byte("b"), Blocking: true, Reason: Permanent},
		Record{Kind: Park, By: by, Seq: 5, ID: id(0, 8), Key: []byte("c")}, Record{Kind: Done, By: by, Seq: 6, ID: id(0, 8)},
		Record{Kind: Park, By: by, Seq: 7, ID: id(1, 6), Key: []byte("d")},
		Record{Kind: Park, By: by, Seq: 8, ID: id(1, 7), Key: []byte("e")}, Record{Kind: Done, By: by, Seq: 9, ID: id(1, 7)},
		Record{Kind: Close, By: by, Seq: 10},
	)
	for shed, want := range map[bool][]Kind{false: {Park, Park, Known}, true: {Park, Known}} {
		s := New(Config{Set: "t", Tenure: Tenure{Epoch: 8, Run: 1}, Heir: true})
		s.Start()
		settle(s, 0)
		s.Adopt([]Parent{{State: parent}}, []Next{{Offset: 5, Anew: true, Shed: shed}, {Partition: 1, Offset: 6}})
		entries, _ := settle(s, 1)
		var got []Kind
		for _, e := range entries {
			got = append(got, e.Kind)
		}
		if !slices.Equal(got, want) {
			t.Errorf("left behind: %t; taken over are %+v", shed, entries)
		}
		s.Open()
		if s.Admit([]byte("c"), id(0, 8).Origin) == Past || s.Admit([]byte("b"), id(0, 6).Origin) == Past {
			t.Error("a record that was to come again is passed over")
		}
		if blocked := s.Admit([]byte("a"), id(0, 5).Origin) == Divert; blocked == shed {
			t.Errorf("left behind: %t; the record behind the parked one is diverted: %t", shed, blocked)
		}
	}
}

// An order that a closing shard took may have had no time for its note: then the heir writes it, before the record goes on
// or is left behind.
func TestAnHeirNotesWhatWasOrderedBeforeItTakesOver(t *testing.T) {
	t.Parallel()
	by := Tenure{Epoch: 7, Run: 1}
	id := func(offset int64) ID { return ID{Origin: Origin{Offset: offset}} }
	parent := New(Config{Set: "s"})
	script(parent,
		Record{Kind: Fence, By: by, Seq: 1},
		Record{Kind: Dead, By: by, Seq: 2, ID: id(4), Key: []byte("a"), Copy: 40, Blocking: true, Reason: Permanent, Answer: "no", Since: 3, Attempts: 2},
		Record{Kind: Park, By: by, Seq: 3, ID: id(5), Key: []byte("b"), Attempts: 1, Since: 4, Answer: "later"},
		Record{Kind: Park, By: by, Seq: 4, ID: id(6), Key: []byte("c")},
		Record{Kind: Order, At: 9, Order: "one", User: "ann", Verb: Redrive, IDs: []ID{id(4)}},
		Record{Kind: Order, At: 10, Order: "two", User: "bob", Verb: Pass, IDs: []ID{id(5)}},
		Record{Kind: Close, By: by, Seq: 5},
	)
	s := New(Config{Set: "t", Tenure: Tenure{Epoch: 8, Run: 1}, Heir: true})
	s.Start()
	settle(s, 0)
	s.Adopt([]Parent{{Shard: 3, State: parent}}, []Next{{Offset: 7}})
	want := []Entry{{
		Record:  Record{Set: "s", Kind: Decided, At: 9, Order: "one", User: "ann", Verb: Redrive, ID: id(4), Key: []byte("a"), Attempts: 2, Since: 3, Answer: "no", Reason: Permanent},
		Payload: Payload{From: InParentDead, Place: 40, Shard: 3},
	}, {
		Record:  Record{Set: "s", Kind: Decided, At: 10, Order: "two", User: "bob", Verb: Pass, ID: id(5), Key: []byte("b"), Attempts: 1, Since: 4, Answer: "later"},
		Payload: Payload{From: InParent, Place: 2, Shard: 3},
	}}
	for i := range want {
		got := s.Effects()
		if len(got) != 1 || s.Drained() {
			t.Fatalf("before note %d is stored: %+v", i, got)
		}
		n, _ := got[0].(Note)
		if !reflect.DeepEqual(n.Of, want[i:i+1]) {
			t.Errorf("note %d is %+v; expected %+v", i, n.Of, want[i])
		}
		s.Noted(n)
	}
	entries, other := settle(s, 1)
	if len(entries) != 2 || entries[0].Kind != Park || entries[0].ID.Round != 1 || entries[1].ID != id(6) || !reflect.DeepEqual(other, []Effect{Adopted{}}) {
		t.Errorf("then %+v, %+v; expected what is redriven, and what is parked", entries, other)
	}
}

// An order to retry that comes during a reshard, after the end of the old journal, is for what the heir has yet to take over.
func TestARetryIsForWhatAnHeirHasYetToTakeOver(t *testing.T) {
	t.Parallel()
	by := Tenure{Epoch: 7, Run: 1}
	id := func(offset int64) ID { return ID{Origin: Origin{Offset: offset}} }
	parent := New(Config{Set: "s"})
	records := []Record{{Kind: Fence, By: by, Seq: 1}}
	for i, key := range []string{"a", "b", "c"} {
		records = append(records, Record{Kind: Park, By: by, Seq: uint64(i + 2), ID: id(int64(i)), Key: []byte(key), Attempts: 1, Since: 1, Due: 1000})
	}
	script(parent, append(records, Record{Kind: Close, By: by, Seq: 5})...)
	for name, order := range map[string]Record{
		"of a key": {Key: []byte("b")}, "of an ID": {IDs: []ID{id(1)}}, "of all": {},
	} {
		order.Kind, order.Verb = Order, Retry
		for _, when := range []string{"before it adopts", "while that is on its way"} {
			s := New(Config{Set: "t", Tenure: Tenure{Epoch: 8, Run: 1}, Heir: true, Now: 1})
			s.Start()
			journal, _ := settle(s, 0)
			if when == "before it adopts" {
				s.Read(50, &order)
			}
			s.Adopt([]Parent{{State: parent}}, []Next{{Offset: 3}})
			batch := s.Effects()[0].(Append).Entries
			if when != "before it adopts" {
				s.Read(50, &order)
			}
			for i := range batch {
				s.Read(int64(60+i), &batch[i].Record)
			}
			last, other := settle(s, 70)
			if !reflect.DeepEqual(other, []Effect{Adopted{}}) {
				t.Fatalf("%s, %s: %+v; expected that all is taken over", name, when, other)
			}
			next := New(Config{Set: "t"}) // an owner after the first checkpoint, which may be above the order
			for _, e := range slices.Concat(journal, batch, last) {
				next.Read(next.End(), &e.Record)
			}
			all := len(order.IDs) == 0 && order.Key == nil
			for _, it := range next.Items() {
				if due := it.Due == 0; due != (all || it.ID == id(1)) {
					t.Errorf("%s, %s: the next owner has %s due: %t", name, when, it.Key, due)
				}
			}
			s.Open()
			s.Due(2, 9)
			got := map[string]bool{}
			for _, e := range s.Effects() {
				if d, ok := e.(Deliver); ok {
					got[string(d.Key)] = true
				}
			}
			if !got["b"] || got["a"] != all || got["c"] != all {
				t.Errorf("%s, %s: due are %v", name, when, got)
			}
		}
	}
}

// What an order to skip has taken is delivered no more: an order to retry does not append it anew.
func TestARetryLeavesToAnHeirWhatIsSkipped(t *testing.T) {
	t.Parallel()
	by := Tenure{Epoch: 7, Run: 1}
	id := func(offset int64) ID { return ID{Origin: Origin{Offset: offset}} }
	park := func(seq uint64, offset int64) Record {
		return Record{Kind: Park, By: by, Seq: seq, ID: id(offset), Attempts: 1, Since: 1, Due: 1000}
	}
	parent := New(Config{Set: "s"})
	script(parent, Record{Kind: Fence, By: by, Seq: 1}, park(2, 4), park(3, 5), Record{Kind: Close, By: by, Seq: 4})
	s := New(Config{Set: "t", Tenure: Tenure{Epoch: 8, Run: 1}, Heir: true, Now: 1})
	s.Start()
	settle(s, 0)
	s.Adopt([]Parent{{State: parent}}, []Next{{Offset: 6}})
	first := s.Effects()[0].(Append).Entries[0].Record
	s.Read(50, &Record{Kind: Order, Verb: Retry})
	s.Read(51, &first)
	s.Read(52, &Record{Kind: Order, Verb: Pass, IDs: []ID{id(4)}})
	second := s.Effects()[0].(Append).Entries[0].Record
	s.Read(53, &second)
	again := s.Effects()
	if a, ok := again[0].(Append); len(again) != 1 || !ok || len(a.Entries) != 1 || a.Entries[0].ID != id(5) || a.Entries[0].Due != 0 {
		t.Errorf("%+v; expected that only %v is appended, as due", again, id(5))
	}
}
