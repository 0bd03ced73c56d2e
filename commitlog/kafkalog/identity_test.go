package kafkalog

import (
	"errors"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog/driver"
)

func TestProducersThatAreIdleAreForgotten(t *testing.T) {
	t.Parallel()
	q := &queue{}
	begun := time.Now().Add(-time.Hour)
	const doubtful, old = 1, 3
	for id := uint64(1); id <= 2*keepIdentities; id++ {
		i := q.identity(id)
		i.known, i.used = id != doubtful && id != old, begun.Add(time.Duration(id)*time.Millisecond)
	}
	q.others[old].used = begun.Add(-24 * time.Hour)
	q.identity(1 << 40)
	if want := keepIdentities + 1 + 1; len(q.others) != want {
		t.Errorf("%d producers are kept; want %d", len(q.others), want)
	}
	for _, id := range []uint64{doubtful, 2 * keepIdentities, 1 << 40} {
		if q.others[id] == nil {
			t.Errorf("producer %d was forgotten", id)
		}
	}
	for _, id := range []uint64{old, 5, keepIdentities} {
		if q.others[id] != nil {
			t.Errorf("producer %d is kept", id)
		}
	}
}

// A try of a deletion whose answer was lost comes again, and the name has a new topic by then.
func TestADeletionThatComesAgainSparesTheNextTopicOfTheName(t *testing.T) {
	t.Parallel()
	l, h := retained(t, driver.TopicConfig{})
	if err := l.DeleteTopic(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	if err := l.CreateTopic(t.Context(), h.s.config); err != nil {
		t.Fatal(err)
	}
	if err := h.s.remove(t.Context()); err != nil {
		t.Errorf("the deletion that came again: %v", err)
	}
	for range 10 { // every broker's view, and a moment to act on it
		if _, err := l.describe(t.Context(), "t"); err != nil {
			t.Fatalf("the topic created after the deletion is gone: %v", err)
		}
		sleep(t.Context(), 2)
	}
}

func TestATopicThatIsMadeAgainHasAnotherID(t *testing.T) {
	t.Parallel()
	l, h := retained(t, driver.TopicConfig{})
	first, err := l.TopicID(t.Context(), "t")
	if err != nil || first == "" || first != h.ID() {
		t.Fatalf("the topic has ID %q, its handle %q: %v", first, h.ID(), err)
	}
	if err := errors.Join(l.DeleteTopic(t.Context(), "t"), l.CreateTopic(t.Context(), h.s.config)); err != nil {
		t.Fatal(err)
	}
	next, err := l.OpenTopic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = next.Close() }()
	if id := next.(driver.Identified).ID(); id == "" || id == first { //nolint:forcetypeassert // as the log says
		t.Errorf("the next topic has ID %q, the one before had %q", id, first)
	}
	if h.ID() != first {
		t.Errorf("the handle of the topic that is gone has ID %q", h.ID())
	}
}

// A repeated append is answered with its own first offset, not with that of the batch that it came in.
func TestEachAppendOfABatchIsRememberedAtItsOffset(t *testing.T) {
	t.Parallel()
	id := &identity{id: 7}
	b := &batch{identity: id}
	for sequence := range int64(3) {
		b.items = append(b.items, &pending{req: &driver.AppendRequest{Records: make([]driver.Record, 2), Producer: driver.Producer{ID: 7, Sequence: sequence}}})
	}
	new(partition).remember(b, 10)
	for sequence := range int64(3) {
		if got, want := id.find(sequence), 10+2*sequence; got != want {
			t.Errorf("append %d is at %d; expected %d", sequence, got, want)
		}
	}
}
