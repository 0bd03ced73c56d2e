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

const (
	maxProducers = 4096 // pairs of producer and partition that a topic remembers
	keptFirsts   = driver.ProducerWindow
)

type producerKey struct {
	id        uint64
	partition int
}

type producerState struct {
	epoch    int32
	sequence int64
	firsts   [keptFirsts]int64 // by sequence modulo keptFirsts
	kept     int
	used     uint64
}

// producers is what a topic remembers of idempotent producers. It follows from the frames, so
// every process that has read the same frames has the same table.
type producers struct {
	m      map[producerKey]*producerState
	epochs map[uint64]int32 // the highest of each id
	tick   uint64
}

func newProducers(list []segment.Producer) *producers {
	t := &producers{m: map[producerKey]*producerState{}, epochs: map[uint64]int32{}}
	for i := range list {
		p := &list[i]
		t.tick++
		st := &producerState{epoch: p.Epoch, sequence: p.Sequence, kept: min(len(p.First), keptFirsts), used: t.tick}
		for j := range st.kept {
			st.firsts[slot(p.Sequence-int64(j))] = p.First[j]
		}
		t.m[producerKey{p.ID, p.Partition}] = st
		t.epochs[p.ID] = max(t.epochs[p.ID], p.Epoch)
	}
	return t
}

func slot(sequence int64) int { return int(uint64(sequence) % keptFirsts) }

// errDuplicate says that a frame is stored already, at the offset that came with it.
var errDuplicate = errors.New("stored already")

// check tells whether f may be appended: nil, errDuplicate with its first offset (-1 when that
// is not remembered), fault.Fenced or fault.Invalid.
func (t *producers) check(f *segment.Frame) (int64, error) {
	if highest, ok := t.epochs[f.ProducerID]; ok && f.ProducerEpoch < highest {
		return 0, fmt.Errorf("producer %x has epoch %d, a newer one has %d: %w", f.ProducerID, f.ProducerEpoch, highest, fault.Fenced)
	}
	want := int64(0)
	st := t.m[producerKey{f.ProducerID, f.Partition}]
	if st != nil {
		want = st.sequence + 1
	}
	switch {
	case f.Sequence < 0 || f.Sequence > want:
		return 0, fmt.Errorf("producer %x sent sequence %d to partition %d; expected %d: %w", f.ProducerID, f.Sequence, f.Partition, want, fault.Invalid)
	case f.Sequence == want:
		return 0, nil
	case want-f.Sequence > int64(st.kept):
		return -1, errDuplicate
	}
	return st.firsts[slot(f.Sequence)], errDuplicate
}

// add remembers a frame that was appended.
func (t *producers) add(f *segment.Frame) {
	if f.ProducerID == 0 || f.Kind != segment.Records {
		return
	}
	key := producerKey{f.ProducerID, f.Partition}
	st := t.m[key]
	if st == nil {
		if len(t.m) >= maxProducers {
			t.evict()
		}
		st = &producerState{}
		t.m[key] = st
	}
	t.tick++
	st.used = t.tick
	st.epoch, st.sequence = f.ProducerEpoch, f.Sequence
	st.firsts[slot(f.Sequence)] = f.Base
	st.kept = min(st.kept+1, keptFirsts)
	t.epochs[f.ProducerID] = max(t.epochs[f.ProducerID], f.ProducerEpoch)
}

// evict forgets the pair that was silent the longest.
func (t *producers) evict() {
	var oldest producerKey
	first := true
	for key, st := range t.m {
		if first || st.used < t.m[oldest].used {
			oldest, first = key, false
		}
	}
	delete(t.m, oldest)
	for key := range t.m {
		if key.id == oldest.id {
			return
		}
	}
	delete(t.epochs, oldest.id)
}

// list is the table for a segment header, the longest silent first.
func (t *producers) list() []segment.Producer {
	keys := make([]producerKey, 0, len(t.m))
	for key := range t.m {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b producerKey) int { return cmp.Compare(t.m[a].used, t.m[b].used) })
	out := make([]segment.Producer, 0, len(keys))
	for _, key := range keys {
		st := t.m[key]
		p := segment.Producer{ID: key.id, Partition: key.partition, Epoch: st.epoch, Sequence: st.sequence}
		for j := range st.kept {
			p.First = append(p.First, st.firsts[slot(st.sequence-int64(j))])
		}
		out = append(out, p)
	}
	return out
}
