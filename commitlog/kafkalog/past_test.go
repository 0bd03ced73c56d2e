package kafkalog

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// What a broker has forgotten of a producer stands in the records. A sealed partition never gets more
// of them, so nothing that is there may be called absent.
func TestASealedPartitionIsReadForWhatTheBrokerForgot(t *testing.T) {
	t.Parallel()
	_, h := retained(t, driver.TopicConfig{})
	request := func(id uint64, sequence int64) *driver.AppendRequest {
		return &driver.AppendRequest{Records: []driver.Record{{Value: fmt.Append(nil, sequence)}}, Producer: driver.Producer{ID: id, Sequence: sequence}}
	}
	var firsts []int64
	for sequence := range int64(3) {
		first, err := h.appendRequest(request(7, sequence))
		if err != nil {
			t.Fatal(err)
		}
		firsts = append(firsts, first)
	}
	if _, err := h.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := func() *handle {
		l, err := open(t.Context(), h.s.l.c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
		topic, err := l.OpenTopic(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		return topic.(*handle)
	}

	h = again()
	p := h.s.parts[0]
	id := p.produce.identity(7)
	if err := p.recall(t.Context(), id); err != nil || !id.known || id.next != 3 {
		t.Fatalf("read from the records: %v, next %d; want 3", err, id.next)
	}
	for sequence, want := range firsts {
		if first := id.find(int64(sequence)); first != want {
			t.Errorf("sequence %d at %d; want %d", sequence, first, want)
		}
	}
	for sequence := range int64(2) {
		if _, err := h.appendRequest(request(8, sequence)); !errors.Is(err, fault.Sealed) && !errors.Is(err, fault.Invalid) {
			t.Errorf("sequence %d of one that the broker never knew: %v; want Sealed or Invalid", sequence, err)
		}
	}

	if err := h.Trim(t.Context(), 0, firsts[1]); err != nil {
		t.Fatal(err)
	}
	for sequence := range int64(2) {
		h = again()
		if _, err := h.appendRequest(request(8, sequence)); !errors.Is(err, fault.Forgotten) {
			t.Errorf("sequence %d of one that what was trimmed may be of: %v; want Forgotten", sequence, err)
		}
	}
	if first, err := h.appendRequest(request(7, 2)); err != nil || first != firsts[2] {
		t.Errorf("the last append again: %d, %v; want %d", first, err, firsts[2])
	}
	if _, err := h.appendRequest(request(7, 3)); !errors.Is(err, fault.Sealed) {
		t.Errorf("behind the last append: %v; want Sealed", err)
	}
}
