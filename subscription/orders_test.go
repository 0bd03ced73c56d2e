package subscription

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

// letterInJournal is a journal with one dead letter.
func letterInJournal(t *testing.T) (*Journals, []Letter) {
	t.Helper()
	log := memlog.New()
	t.Cleanup(func() { _ = log.Close() })
	j := &Journals{Definition: &Document{Name: "billing", Sets: []Set{{ID: "abcdefgh", Shards: 1, State: active}}}}
	for name, to := range map[string]**commitlog.Topic{"journal": &j.Journal, "dead": &j.Dead} {
		err := log.CreateTopic(t.Context(), commitlog.TopicConfig{Name: name, Partitions: 1})
		if err != nil {
			t.Fatal(err)
		}
		topic, err := log.Topic(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		*to = topic
	}
	by := core.Tenure{Epoch: 1, Run: 1}
	id := core.ID{Origin: core.Origin{Offset: 5}}
	dead := core.Record{Set: j.set(), Kind: core.Dead, By: by, Seq: 2, ID: id, Key: []byte("k"), Blocking: true, Reason: core.Permanent}
	fence := core.Record{Set: j.set(), Kind: core.Fence, By: by, Seq: 1}
	user := commitlog.Record{Key: []byte("k"), Value: []byte("bad"), Headers: []commitlog.Header{{Name: "h", Value: []byte("1")}}}
	for _, a := range []struct {
		to  *commitlog.Topic
		rec commitlog.Record
	}{{j.Dead, wrap(&dead, &user)}, {j.Journal, wrap(&fence, nil)}, {j.Journal, wrap(&dead, nil)}} {
		if _, err := a.to.Append(t.Context(), 0, []commitlog.Record{a.rec}, nil); err != nil {
			t.Fatal(err)
		}
	}
	letters, err := j.Letters(t.Context())
	if err != nil || len(letters) != 1 || letters[0].Lost != nil {
		t.Fatalf("%+v, %v", letters, err)
	}
	return j, letters
}

// Two people look at a dead letter, and both decide.
func TestOfTwoWhoOrderTheSecondIsToldThatItIsTooLate(t *testing.T) {
	t.Parallel()
	j, letters := letterInJournal(t)
	if late, err := j.Order(t.Context(), core.Pass, letters, nil); err != nil || len(late) > 0 {
		t.Errorf("the first: %v, %v", late, err)
	}
	if late, err := j.Order(t.Context(), core.Redrive, letters, nil); err != nil || !reflect.DeepEqual(late, []core.ID{letters[0].ID}) {
		t.Errorf("the second: %v is too late, %v; expected %v", late, err, letters[0].ID)
	}
	// Carried out, and the journal trimmed, before anybody looks.
	b, err := j.Journal.Bounds(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	note := core.Record{Set: j.set(), Kind: core.Order, Order: "theirs", Verb: core.Pass, IDs: []core.ID{letters[0].ID}}
	if _, err := j.Dead.Append(t.Context(), 0, []commitlog.Record{wrap(&note, nil)}, nil); err != nil {
		t.Fatal(err)
	}
	if err := j.Journal.Trim(t.Context(), 0, b.Next); err != nil {
		t.Fatal(err)
	}
	for order, want := range map[string]int{"theirs": 1, "another": 0} {
		if took, err := j.took(t.Context(), 0, b.Next-1, order); err != nil || len(took) != want {
			t.Errorf("order %s took %v, %v; expected %d", order, took, err, want)
		}
	}
}

// What was noted is decided once the journal has it no more: the note comes first.
func TestADeadLetterIsOpenUntilTheJournalSaysOtherwise(t *testing.T) {
	t.Parallel()
	j, letters := letterInJournal(t)
	note := core.Record{Set: j.set(), Kind: core.Order, At: 9, Verb: core.Pass, IDs: []core.ID{letters[0].ID}}
	if _, err := j.Dead.Append(t.Context(), 0, []commitlog.Record{wrap(&note, nil)}, nil); err != nil {
		t.Fatal(err)
	}
	if all, err := j.History(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("while it is a dead letter: %+v, %v", all, err)
	}
	done := core.Record{Set: j.set(), Kind: core.Done, By: core.Tenure{Epoch: 1, Run: 1}, Seq: 3, ID: letters[0].ID}
	if _, err := j.Journal.Append(t.Context(), 0, []commitlog.Record{wrap(&done, nil)}, nil); err != nil {
		t.Fatal(err)
	}
	all, err := j.History(t.Context())
	if err != nil || len(all) != 1 || all[0].Verb != core.Pass || all[0].Decided != 9 || string(all[0].Record.Value) != "bad" || all[0].Item.Reason != core.Permanent {
		t.Errorf("then: %+v, %v", all, err)
	}
}

func TestAnEditKeepsKeyAndHeadersAndSaysWhatItWas(t *testing.T) {
	t.Parallel()
	j, letters := letterInJournal(t)
	for range 2 { // also when that was an edited record itself
		rec, err := letters[0].Edit([]byte("good"))
		if err != nil || string(rec.Key) != "k" || string(rec.Value) != "good" || len(rec.Headers) != 2 || rec.Headers[1].Name != Edited || string(rec.Headers[1].Value) != "0.0.5.0" {
			t.Fatalf("%+v, %v", rec, err)
		}
		letters[0].Record = rec
	}
	if late, err := j.Order(t.Context(), core.Edit, letters, &letters[0].Record); err != nil || len(late) > 0 {
		t.Fatalf("%v, %v", late, err)
	}
	got, err := readOne(t.Context(), j.Journal, 0, 2, j.set(), letters[0].ID.Origin)
	if err != nil || !bytes.Equal(got.Value, []byte("good")) || len(got.Headers) != 2 {
		t.Errorf("in the order lies %+v, %v", got, err)
	}
	if _, err := readOne(t.Context(), j.Journal, 0, 2, j.set(), core.Origin{Offset: 6}); !errors.Is(err, fault.Corrupt) {
		t.Errorf("the value of another record: %v", err)
	}
	if _, err := letters[0].Edit(make([]byte, commitlog.MaxRecordBytes)); !errors.Is(err, fault.Invalid) {
		t.Errorf("a value that is too large: %v", err)
	}
}
