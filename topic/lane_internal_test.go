package topic

import (
	"errors"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/internal/fault"
)

// numberedMessage is one of a producer whose home, storage topic 0, takes nothing new any more.
func numberedMessage(storage int, sequence int64) *message {
	return &message{
		t: &Topic{}, g: &generation{storage: storage}, n: &numbered{absent: fault.Sealed},
		opts: &commitlog.AppendOptions{Producer: commitlog.Producer{ID: 7, Sequence: sequence}},
	}
}

// A message may begin before a switch is noticed and come to its lane after it: what it has to wait
// for is on its way to the next storage topic, and nothing that its producer forgot.
func TestALaneSendsWhatComesAfterTheSealBehindWhatItRefused(t *testing.T) {
	t.Parallel()
	l := newLane(0, 0)
	l.end(0)
	var window []*message
	for sequence := range int64(3) {
		m := numberedMessage(1, sequence)
		if goes := l.lodge(m, 0); goes.err != nil || goes.as.Sequence != sequence {
			t.Fatalf("sequence %d goes to %+v", sequence, goes)
		}
		window = append(window, m)
	}
	l.settle(window[0], 0, nil, false)
	for _, m := range window[1:] { // the log has a gap where it refused the first
		l.settle(m, 0, fault.Sealed, true)
	}
	if goes := l.lodge(numberedMessage(1, 3), 0); !goes.refused {
		t.Errorf("after the seal: %+v; expected to be refused with those before it", goes)
	}
	for sequence := int64(1); sequence < 4; sequence++ {
		if goes := l.lodge(numberedMessage(2, sequence), 0); goes.err != nil || goes.refused || goes.as.Sequence != sequence-1 {
			t.Errorf("sequence %d goes to %+v; expected the next place of storage topic 2", sequence, goes)
		}
	}
	if goes := l.lodge(numberedMessage(2, 5), 0); !errors.Is(goes.err, fault.Invalid) {
		t.Errorf("a gap of the producer: %+v; expected Invalid", goes)
	}
}

// The IDs that a lane gives are its own: that the log has forgotten one of them concerns nobody else,
// as long as nothing is in doubt.
func TestALaneGoesOnUnderAnotherIDWhenTheLogForgotItsOwn(t *testing.T) {
	t.Parallel()
	l := newLane(0, 0)
	l.end(0)
	send := func(sequence int64, err error) (lodged, error) {
		t.Helper()
		m := numberedMessage(1, sequence)
		m.n.lane = l
		goes := l.lodge(m, 0)
		if goes.err != nil {
			t.Fatalf("sequence %d goes to %+v", sequence, goes)
		}
		_, _, told := m.note(0, err, false, false)
		return goes, told
	}
	first, told := send(0, nil)
	if told != nil {
		t.Fatal(told)
	}
	if goes, told := send(1, fault.Forgotten); !errors.Is(told, fault.NotDone) || errors.Is(told, fault.Forgotten) || goes.as.ID != first.as.ID {
		t.Errorf("the producer is told %v; expected that it may send again", told)
	}
	if goes, told := send(1, nil); told != nil || goes.as.ID == first.as.ID || goes.as.Sequence != 0 {
		t.Errorf("the next try goes as %+v, %v; expected the beginning of another ID than %x", goes.as, told, first.as.ID)
	}
	if _, told := send(2, fault.Unknown); !errors.Is(told, fault.Unknown) {
		t.Errorf("the producer is told %v", told)
	}
	if _, told := send(2, fault.Forgotten); !errors.Is(told, fault.Forgotten) {
		t.Errorf("the producer is told %v about what may be stored; expected that nobody knows", told)
	}
}
