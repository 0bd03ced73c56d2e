package filelog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/segment"
)

// What a topic remembers of idempotent producers follows from its frames alone, so every process
// that has read the same frames knows the same, in the same order; a segment's header repeats it.
//
// It is bounded in bytes, and what gives way is a whole producer, the one that was silent the
// longest. So a producer that is known is known in all partitions: a partition without a stream of
// it has nothing of it, and its epoch fences everywhere. A producer that is not known is either new
// or forgotten, and a guess is not allowed: a first sequence that is taken twice is a record that is there
// twice. So the IDs of the forgotten are kept, the highest of them one by one, and of the others
// only that they lie at or below a floor. IDs that driver.NewProducerID makes rise with the time,
// so the floor follows at a great distance and a new one is never below it. An ID chosen otherwise
// may be: then it is taken for a forgotten one, and the producer has to choose again.
const (
	// producerBytes bounds what is known of producers, as a header holds it.
	producerBytes = 1 << 20
	// forgottenIDs is how many forgotten producers are told from new ones by their very ID.
	forgottenIDs = 1 << 15
)

// producers is that memory.
type producers struct {
	limit, graves int // producerBytes and forgottenIDs

	known     map[uint64]*producer
	ends      producer // next is the longest silent one, prev the one that appended last
	bytes     int
	forgotten []uint64 // ascending, all above floor
	floor     uint64
	scratch   []byte
}

// producer stands in the order of the last appends.
type producer struct {
	segment.Producer
	prev, next *producer
}

// newProducers takes over what a header says.
func newProducers(p *segment.Producers) *producers {
	t := &producers{limit: producerBytes, graves: forgottenIDs, known: map[uint64]*producer{}, forgotten: p.Forgotten, floor: p.Floor}
	t.ends.prev, t.ends.next = &t.ends, &t.ends
	for _, k := range p.Known {
		st := &producer{Producer: *k}
		t.known[k.ID] = st
		t.toEnd(st)
		t.bytes += segment.ProducerBytes
		for i := range k.Streams {
			t.bytes += t.size(&k.Streams[i])
		}
	}
	return t
}

// toEnd makes p, which is in no place, the one that appended last.
func (t *producers) toEnd(p *producer) {
	p.prev, p.next = t.ends.prev, &t.ends
	p.prev.next, p.next.prev = p, p
}

func (p *producer) leave() { p.prev.next, p.next.prev = p.next, p.prev }

func (t *producers) size(s *segment.Stream) int {
	t.scratch = segment.AppendStream(t.scratch[:0], s)
	return len(t.scratch)
}

// stream is what p has in a partition, and where that stands or would stand.
func (p *producer) stream(partition int) (*segment.Stream, int) {
	i, ok := slices.BinarySearchFunc(p.Streams, partition, func(s segment.Stream, at int) int { return cmp.Compare(s.Partition, at) })
	if !ok {
		return nil, i
	}
	return &p.Streams[i], i
}

// errDuplicate says that a frame is stored already, at the offset that came with it.
var errDuplicate = errors.New("stored already")

// check tells whether f may be appended: nil, errDuplicate with its first offset (-1 when that
// is not remembered), fault.Fenced, fault.Forgotten or fault.Invalid.
func (t *producers) check(f *segment.Frame) (int64, error) {
	var s *segment.Stream
	want := int64(0)
	switch p := t.known[f.ProducerID]; {
	case p == nil && t.forgot(f.ProducerID):
		return 0, fmt.Errorf("producer %x sent sequence %d to partition %d, but others have appended so much since its last append (or its ID is as low as theirs) that it is forgotten: "+
			"look whether the records are stored, then go on with a new producer ID: %w", f.ProducerID, f.Sequence, f.Partition, fault.Forgotten)
	case p != nil && f.ProducerEpoch < p.Epoch:
		return 0, fmt.Errorf("producer %x has epoch %d, a newer one has %d: %w", f.ProducerID, f.ProducerEpoch, p.Epoch, fault.Fenced)
	case p != nil:
		if s, _ = p.stream(f.Partition); s != nil {
			want = s.Sequence + 1
		}
	}
	switch {
	case f.Sequence < 0 || f.Sequence > want:
		return 0, fmt.Errorf("producer %x sent sequence %d to partition %d; expected %d: %w", f.ProducerID, f.Sequence, f.Partition, want, fault.Invalid)
	case f.Sequence == want:
		return 0, nil
	case want-f.Sequence > int64(len(s.First)):
		return -1, errDuplicate
	}
	return s.First[want-1-f.Sequence], errDuplicate
}

// announces tells whether f is of a higher epoch than is known.
func (t *producers) announces(f *segment.Frame) bool {
	return f.ProducerEpoch > t.known[f.ProducerID].Epoch
}

// add remembers a frame that was appended.
func (t *producers) add(f *segment.Frame) {
	if f.ProducerID == 0 || f.Kind != segment.Records {
		return
	}
	p := t.known[f.ProducerID]
	if p == nil {
		p = &producer{Producer: segment.Producer{ID: f.ProducerID, Epoch: f.ProducerEpoch}}
		t.known[p.ID] = p
		t.bytes += segment.ProducerBytes
	} else {
		p.leave()
	}
	t.toEnd(p)
	p.Epoch = max(p.Epoch, f.ProducerEpoch)
	if f.Count == 0 { // nothing but its epoch
		return
	}
	s, i := p.stream(f.Partition)
	if s == nil {
		p.Streams = slices.Insert(p.Streams, i, segment.Stream{Partition: f.Partition, First: make([]int64, 0, driver.ProducerWindow)})
		s = &p.Streams[i]
	} else {
		t.bytes -= t.size(s)
	}
	s.Sequence = f.Sequence
	s.First = slices.Insert(s.First[:min(len(s.First), driver.ProducerWindow-1)], 0, f.Base)
	t.bytes += t.size(s)
	for t.bytes > t.limit && t.ends.next != p {
		t.forget(t.ends.next)
	}
}

// forget lets go of a producer, but for its ID.
func (t *producers) forget(p *producer) {
	p.leave()
	delete(t.known, p.ID)
	t.bytes -= segment.ProducerBytes
	for i := range p.Streams {
		t.bytes -= t.size(&p.Streams[i])
	}
	if i, ok := slices.BinarySearch(t.forgotten, p.ID); !ok && p.ID > t.floor {
		t.forgotten = slices.Insert(t.forgotten, i, p.ID)
	}
	for len(t.forgotten) > t.graves {
		t.floor = t.forgotten[0]
		t.forgotten = slices.Delete(t.forgotten, 0, 1)
	}
}

// forgot tells whether a producer that is not known may have been forgotten.
func (t *producers) forgot(id uint64) bool {
	_, ok := slices.BinarySearch(t.forgotten, id)
	return ok || id <= t.floor
}

// encode is the memory for a segment's header.
func (t *producers) encode() []byte {
	out := segment.Producers{Floor: t.floor, Forgotten: t.forgotten}
	for p := t.ends.next; p != &t.ends; p = p.next {
		out.Known = append(out.Known, &p.Producer)
	}
	return segment.AppendProducers(nil, &out)
}
