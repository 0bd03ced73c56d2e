package pulsarlog

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// Appends with a producer id are sent one by one. With the broker away for long each would wait for
// the patience of a connection, and the last of many for hours.
func TestWhatWaitedForABrokerThatWasAwayIsGivenUp(t *testing.T) {
	t.Parallel()
	w := &writer{p: newPartition(newTopic(&log{sendTimeout: time.Minute}, driver.TopicConfig{Name: "t"}), 0)}
	now := time.Now()
	var refused []string
	waiting := func(name string, age time.Duration) *item {
		return &item{since: now.Add(-age), done: func(_ int64, err error) {
			if !errors.Is(err, fault.NotDone) {
				t.Errorf("%s: error %v; expected that it is not done", name, err)
			}
			refused = append(refused, name)
		}}
	}
	batch := []*item{waiting("old", 2*time.Minute), waiting("older", time.Hour), waiting("young", time.Second)}
	if rest := w.overdue(batch); len(rest) != 3 {
		t.Fatalf("%d of 3 appends are left though the broker was never away", len(rest))
	}
	w.away, w.tried = fault.NotDone, now.Add(-90*time.Second)
	if rest := w.overdue(batch); len(rest) != 1 || rest[0] != batch[2] || !slices.Equal(refused, []string{"old", "older"}) {
		t.Errorf("%v were given up, and %d are left", refused, len(rest))
	}
	late := waiting("came after the try", 80*time.Second)
	if rest := w.overdue([]*item{late}); len(rest) != 1 {
		t.Error("an append was given up though nobody has tried to connect since it came")
	}
}

// Only this process can find out what became of an append in doubt.
func TestASenderInDoubtIsNotForgotten(t *testing.T) {
	t.Parallel()
	w := &writer{known: map[uint64]*sender{}}
	w.sender(1).doubt = true
	w.sender(1).due = 5
	for id := range uint64(3 * keepSenders) {
		w.sender(id + 2)
	}
	if s := w.sender(1); s.due != 5 || !s.doubt {
		t.Error("a sender in doubt was forgotten")
	}
	if n := len(w.known); n > keepSenders+1 {
		t.Errorf("%d senders are kept", n)
	}
}
