package pulsarlog

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
)

// sender is one producer id in a partition. Its sequence numbers are Pulsar's: the broker stores
// none twice, also over restarts of both, and admits one connection of a name at a time. What the
// broker does not tell is kept here, for as long as the topic is open: the number that is due, and
// where the last ones went.
type sender struct {
	brokerProducer
	epoch  int32
	due    int64 // -1: nothing was asked for yet
	firsts [driver.ProducerWindow]int64
}

// keepSenders is how many ids of a partition stay connected, and are remembered. One that is in
// doubt is always: only this process knows what to look for when the partition is sealed.
const keepSenders = 64

func (w *writer) sender(id uint64) *sender {
	s := w.known[id]
	if s == nil {
		if len(w.known) >= keepSenders {
			w.dropKnown(func(s *sender) bool { return !s.doubt })
		}
		s = &sender{brokerProducer: brokerProducer{name: fmt.Sprintf("ringfence-%016x", id)}, due: -1}
		w.known[id] = s
	}
	return s
}

func (w *writer) dropKnown(which func(*sender) bool) {
	for id, s := range w.known {
		if which(s) {
			s.drop()
			delete(w.known, id)
		}
	}
}

func (w *writer) dropAll() {
	w.dropKnown(func(*sender) bool { return true })
	w.plain.drop()
}

// admit checks epoch and number, and answers a duplicate that is remembered.
func (s *sender) admit(p driver.Producer) (first int64, known bool, err error) {
	switch {
	case p.Epoch < s.epoch:
		return 0, false, fmt.Errorf("producer %x appends with epoch %d after epoch %d: %w", p.ID, p.Epoch, s.epoch, fault.Fenced)
	case p.Sequence < 0 || s.due >= 0 && p.Sequence > s.due:
		return 0, false, fmt.Errorf("producer %x appends sequence %d; expected at most %d: %w", p.ID, p.Sequence, s.due, fault.Invalid)
	}
	s.epoch = p.Epoch
	if s.due < 0 {
		// Not when it was stored: were a later one stored first, the broker would take this one for
		// a duplicate.
		s.due = p.Sequence
		for i := range s.firsts {
			s.firsts[i] = -1
		}
	}
	if p.Sequence < s.due {
		if s.due-p.Sequence > driver.ProducerWindow {
			return -1, true, nil
		}
		return s.firsts[p.Sequence%driver.ProducerWindow], true, nil
	}
	return 0, false, nil
}

// commitKnown appends for a producer id, as an entry of its own.
func (w *writer) commitKnown(it *item) {
	s := w.sender(it.producer.ID)
	if w.past != nil {
		first, err := w.recall(s.name, it.producer.Sequence)
		w.answerKnown(it, first, err)
		return
	}
	first, known, err := s.admit(it.producer)
	if err == nil && !known {
		first, err = w.sendKnown(s, it)
	}
	w.answerKnown(it, first, err)
	if err == nil && !known && first >= 0 && w.past == nil {
		w.roll(first)
	}
}

func (w *writer) answerKnown(it *item, first int64, err error) {
	if err != nil {
		err = w.p.fail("append to", err)
	}
	it.done(first, err)
}

// sendKnown sends what is the next append of a producer id, as far as this process knows.
func (w *writer) sendKnown(s *sender, it *item) (int64, error) {
	for _, m := range it.messages {
		m.SequenceID = &it.producer.Sequence
	}
	head := it.messages[0]
	if head.Properties == nil {
		head.Properties = map[string]string{}
	}
	head.Properties[sequenceProperty] = strconv.FormatInt(it.producer.Sequence, 10)
	first, err := w.send(&s.brokerProducer, it.messages)
	switch {
	case errors.Is(err, errNotThere):
		first, err = -1, nil // the broker has it of another process
	case errors.Is(err, fault.Sealed):
		first, err = w.recall(s.name, it.producer.Sequence)
	}
	s.doubt = errors.Is(err, fault.Unknown) || s.doubt && err != nil
	if err == nil {
		s.remember(it.producer.Sequence, first)
		if first >= 0 {
			s.floor = first + int64(len(it.messages))
		}
	}
	return first, err
}

func (s *sender) remember(sequence, first int64) {
	s.firsts[sequence%driver.ProducerWindow] = first
	s.due = sequence + 1
}
