package dispatch

import (
	"context"
	"errors"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
)

// What several records share has a count of those that are left in it. A handler that says by itself how long
// answers count must not come between.
func TestAHandlerCannotTakeARecordFromWhatItWasReadWith(t *testing.T) {
	t.Parallel()
	var in input
	lost := false
	shared := &memory{live: 1, count: 1, from: &in, lost: func() bool { return lost }}
	r := &Record{Record: commitlog.Record{Offset: 0}, data: shared}
	ctx, cancel := context.WithCancel(t.Context())
	r.Within(ctx)
	cancel()
	if r.data != shared {
		t.Fatal("a record of an engine has been taken from what it was read with")
	}
	if l := NewLater(r); l.Answer(nil) != nil {
		t.Error("an answer counts while the engine has the unit; it was refused")
	}
	lost = true
	if l := NewLater(r); l.Answer(nil) == nil {
		t.Error("an answer was taken after the engine had lost the unit")
	}
}

// A record that is given memory of its own is still one of its input, and of its engine.
func TestARecordWithMemoryOfItsOwnBelongsWhereItCameFrom(t *testing.T) {
	t.Parallel()
	var in input
	lost := false
	shared := &memory{live: 4, count: 4, bytes: 400, from: &in, lost: func() bool { return lost }, atWork: func(Attempt) bool { return true }}
	e, n := &Engine{retained: 400}, &node{rec: Record{Record: commitlog.Record{Value: []byte("v")}, data: shared}}
	e.moveOut(n)
	if own := n.rec.data; own == shared || own.live != 1 || own.from != &in || shared.live != 3 {
		t.Errorf("it lies in %+v now, and what it was read into is %+v", own, shared)
	}
	if n.rec.Owe(Attempt{}) == nil {
		t.Error("its handler can't answer later")
	}
	l := NewLater(&n.rec)
	lost = true
	if err := l.Answer(nil); !errors.Is(err, fault.Fenced) {
		t.Errorf("an answer after the engine had lost the unit is taken with %v; expected ErrFenced", err)
	}
}

// What no engine handles is over when its caller has the outcome: then nobody owes an answer, and who was so close
// that he believes so is told.
func TestNoAnswerIsOwedForWhatWasHandledWithoutAnEngine(t *testing.T) {
	t.Parallel()
	r := &Record{}
	r.Within(t.Context())
	owed := r.Owe(Attempt{})
	if owed == nil {
		t.Fatal("its handler can't answer later")
	}
	r.late = nil // as the caller would have found it a moment before
	if err := r.Wait(t.Context(), nil, 0); err != nil {
		t.Fatal(err)
	}
	if err := owed.Answer(errors.New("no")); !errors.Is(err, errLate) {
		t.Errorf("an answer that nobody takes: %v; expected ErrInvalid", err)
	}
	if r.Owe(Attempt{}) != nil {
		t.Error("there is an answer when the handler has returned")
	}
}
