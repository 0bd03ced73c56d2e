package shard

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription/core"
)

// deadInJournal is a journal with one dead letter.
func deadInJournal(t *testing.T) (*Journals, core.Item) {
	t.Helper()
	log := memlog.New()
	t.Cleanup(func() { _ = log.Close() })
	j := &Journals{Set: "abcdefgh", Shards: 1, Journal: newTopic(t, log, "journal"), Dead: newTopic(t, log, "dead"), Decisions: newTopic(t, log, "decisions")}
	by := core.Tenure{Epoch: 1, Run: 1}
	id := core.ID{Origin: core.Origin{Offset: 5}}
	dead := core.Record{Set: j.Set, Kind: core.Dead, By: by, Seq: 2, ID: id, Key: []byte("k"), Blocking: true, Reason: core.Permanent}
	fence := core.Record{Set: j.Set, Kind: core.Fence, By: by, Seq: 1}
	user := commitlog.Record{Key: []byte("k"), Value: []byte("bad"), Headers: []commitlog.Header{{Name: "h", Value: []byte("1")}}}
	for _, a := range []struct {
		to  *commitlog.Topic
		rec commitlog.Record
	}{{j.Dead, wrap(&dead, &user)}, {j.Journal, wrap(&fence, nil)}, {j.Journal, wrap(&dead, nil)}} {
		if _, err := a.to.Append(t.Context(), 0, []commitlog.Record{a.rec}, nil); err != nil {
			t.Fatal(err)
		}
	}
	items, err := j.Items(t.Context(), 0)
	if err != nil || len(items) != 1 {
		t.Fatalf("%+v, %v", items, err)
	}
	if rec, lost, err := j.Payload(t.Context(), 0, &items[0]); err != nil || lost != nil || string(rec.Value) != "bad" {
		t.Fatalf("%+v, %v, %v", rec, lost, err)
	}
	return j, items[0]
}

// Two people look at a dead letter, and both decide.
func TestOfTwoWhoOrderTheSecondIsToldThatItIsTooLate(t *testing.T) {
	t.Parallel()
	j, it := deadInJournal(t)
	if late, err := j.Order(t.Context(), Ordered{Verb: core.Pass, IDs: []core.ID{it.ID}}); err != nil || len(late) > 0 {
		t.Errorf("the first: %v, %v", late, err)
	}
	if late, err := j.Order(t.Context(), Ordered{Verb: core.Redrive, IDs: []core.ID{it.ID}}); err != nil || !reflect.DeepEqual(late, []core.ID{it.ID}) {
		t.Errorf("the second: %v is too late, %v; expected %v", late, err, it.ID)
	}
	// Carried out, and the journal trimmed, before anybody looks.
	b, err := j.Journal.Bounds(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	note := core.Record{Set: j.Set, Kind: core.Decided, Order: "theirs", Verb: core.Pass, ID: it.ID}
	if _, err := j.Decisions.Append(t.Context(), 0, []commitlog.Record{wrap(&note, nil)}, nil); err != nil {
		t.Fatal(err)
	}
	if err := j.Journal.Trim(t.Context(), 0, b.Next); err != nil {
		t.Fatal(err)
	}
	for order, want := range map[string]int{"theirs": 1, "another": 0} {
		if took, err := j.took(t.Context(), 0, b.Next-1, &core.Record{Verb: core.Pass, Order: order}); err != nil || len(took) != want {
			t.Errorf("order %s took %v, %v; expected %d", order, took, err, want)
		}
	}
}

// What was noted is decided once the journal has it no more: the note comes first.
func TestADeadLetterIsOpenUntilTheJournalSaysOtherwise(t *testing.T) {
	t.Parallel()
	j, it := deadInJournal(t)
	user, _, err := j.Payload(t.Context(), 0, &it)
	if err != nil {
		t.Fatal(err)
	}
	note := core.Record{Set: "ofbefore", Kind: core.Decided, At: 9, Order: "o", User: "ann", Verb: core.Pass, ID: it.ID, Key: it.Key, Reason: core.Permanent}
	for range 2 { // as after a crash
		if _, err := j.Decisions.Append(t.Context(), 0, []commitlog.Record{wrap(&note, &user)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	every := func(*Decision) bool { return true }
	if all, err := j.History(t.Context(), every); err != nil || len(all) > 0 {
		t.Errorf("while it is a dead letter: %+v, %v", all, err)
	}
	by := core.Tenure{Epoch: 1, Run: 1}
	done := core.Record{Set: j.Set, Kind: core.Done, By: by, Seq: 3, ID: it.ID}
	if _, err := j.Journal.Append(t.Context(), 0, []commitlog.Record{wrap(&done, nil)}, nil); err != nil {
		t.Fatal(err)
	}
	decided := func(when string) {
		t.Helper()
		all, err := j.History(t.Context(), every)
		if err != nil || len(all) != 1 || all[0].Verb != core.Pass || all[0].At != 9 || all[0].User != "ann" || string(all[0].Record.Value) != "bad" || all[0].Reason != core.Permanent {
			t.Errorf("%s: %+v, %v", when, all, err)
		}
	}
	decided("then")
	again := core.Record{Set: j.Set, Kind: core.Dead, By: by, Seq: 4, ID: it.ID, Key: it.Key, Since: 10, Reason: core.Permanent}
	if _, err := j.Journal.Append(t.Context(), 0, []commitlog.Record{wrap(&again, nil)}, nil); err != nil {
		t.Fatal(err)
	}
	decided("when a reset has brought it again, and it is given up once more")
}

func TestOrderKeepsTheEditedValue(t *testing.T) {
	t.Parallel()
	j, it := deadInJournal(t)
	edited := &commitlog.Record{Key: it.Key, Value: []byte("good")}
	if late, err := j.Order(t.Context(), Ordered{Verb: core.Edit, IDs: []core.ID{it.ID}, Key: it.Key, Edited: edited}); err != nil || len(late) > 0 {
		t.Fatalf("%v, %v", late, err)
	}
	got, err := readOne(t.Context(), j.Journal, 0, 2, j.Set, it.Origin)
	if err != nil || !bytes.Equal(got.Value, []byte("good")) {
		t.Errorf("in the order lies %+v, %v", got, err)
	}
	if _, err := readOne(t.Context(), j.Journal, 0, 2, j.Set, core.Origin{Offset: 6}); !errors.Is(err, fault.Corrupt) {
		t.Errorf("the value of another record: %v", err)
	}
}

// A place in a journal is only a number: what lies there says itself whose copy it is.
func TestAPlaceWithTheCopyOfAnotherRecordIsNoPayload(t *testing.T) {
	t.Parallel()
	log := memlog.New()
	defer func() { _ = log.Close() }()
	topic := newTopic(t, log, "t")
	mine, other := core.Origin{Partition: 0, Offset: 4}, core.Origin{Partition: 3, Offset: 4}
	dead := core.Record{Set: "s1", Kind: core.Dead, ID: core.ID{Origin: mine}, Key: []byte("k"), Reason: core.Permanent}
	done := core.Record{Set: "s1", Kind: core.Done, ID: core.ID{Origin: mine}}
	user := commitlog.Record{Key: []byte("k"), Value: []byte("v")}
	place, err := topic.Append(t.Context(), 0, []commitlog.Record{wrap(&dead, &user), wrap(&done, nil)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readOne(t.Context(), topic, 0, place, "s1", mine); err != nil || string(got.Value) != "v" {
		t.Errorf("its own copy: %+v, %v", got, err)
	}
	if got, err := readOne(t.Context(), topic, 0, place, "s1", other); !errors.Is(err, fault.Corrupt) {
		t.Errorf("the copy of another record: %+v, %v; expected fault.Corrupt", got, err)
	}
	if got, err := readOne(t.Context(), topic, 0, place+1, "s1", mine); !errors.Is(err, fault.Corrupt) {
		t.Errorf("a record without a payload: %+v, %v; expected fault.Corrupt", got, err)
	}
}

func TestAJournalIsNotWholeWithoutThePlaceItIsNeededFrom(t *testing.T) {
	t.Parallel()
	for from, whole := range map[int64]bool{4: false, 5: true, 9: true, 10: false} {
		if err := beyond(from, commitlog.Bounds{First: 5, Next: 9}); (err == nil) != whole || err != nil && !errors.Is(err, ErrCut) {
			t.Errorf("needed from %d: %v", from, err)
		}
	}
}
