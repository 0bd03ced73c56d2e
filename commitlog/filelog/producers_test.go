package filelog

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/segment"
)

// overSegment is what a process knows that learns of producers from a segment's header.
func overSegment(t *producers) *producers {
	p, err := segment.ParseProducers(t.encode(), 1<<20)
	if err != nil {
		panic(err)
	}
	next := newProducers(p)
	next.limit, next.graves = t.limit, t.graves
	return next
}

// order is the IDs that are known, the longest silent first.
func (t *producers) order() []uint64 {
	var ids []uint64
	for p := t.ends.next; p != &t.ends; p = p.next {
		ids = append(ids, p.ID)
	}
	return ids
}

func small() *producers {
	t := newProducers(&segment.Producers{})
	t.limit, t.graves = 8*segment.ProducerBytes, 4
	return t
}

// Whoever has read the same frames remembers the same producers, wherever segments end; nothing is
// taken twice; and who was forgotten is not taken for a new one.
func TestProducersAreTakenOnceWhateverIsForgotten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		one, other := small(), small()
		type stream struct {
			id        uint64
			partition int
		}
		stored := map[stream]int64{} // appends
		owner := map[uint64]int32{}
		base := int64(0)
		for range rapid.IntRange(1, 200).Draw(t, "appends") {
			f := segment.Frame{
				Kind: segment.Records, Count: 1, Base: base, Partition: rapid.IntRange(0, 2).Draw(t, "partition"),
				ProducerID: rapid.Uint64Range(1, 30).Draw(t, "id"), ProducerEpoch: rapid.Int32Range(0, 2).Draw(t, "epoch"),
			}
			k := stream{f.ProducerID, f.Partition}
			f.Sequence = max(0, stored[k]-rapid.Int64Range(0, 2).Draw(t, "back"))
			if rapid.Bool().Draw(t, "a segment ends") {
				other = overSegment(other)
			}
			at, err := one.check(&f)
			if at2, err2 := other.check(&f); at != at2 || (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() {
				t.Fatalf("one process answers %d, %v, the other %d, %v", at, err, at2, err2)
			}
			switch {
			case err == nil && (f.Sequence != stored[k] || f.ProducerEpoch < owner[k.id]):
				t.Fatalf("%+v is taken; %d are stored, the epoch is %d", f, stored[k], owner[k.id])
			case err == nil:
				one.add(&f)
				other.add(&f)
				stored[k]++
				owner[k.id] = f.ProducerEpoch
				base++
			case errors.Is(err, errDuplicate) && f.Sequence >= stored[k]:
				t.Fatalf("%+v is called a duplicate; %d are stored", f, stored[k])
			}
			if !slices.Equal(one.order(), other.order()) || !slices.Equal(one.forgotten, other.forgotten) || one.floor != other.floor || one.bytes != other.bytes {
				t.Fatalf("one process remembers %v in %d bytes, not %v below %d, the other %v in %d bytes, not %v below %d",
					one.order(), one.bytes, one.forgotten, one.floor, other.order(), other.bytes, other.forgotten, other.floor)
			}
			if len(one.encode()) > one.bytes+12+8*one.graves+4 || one.bytes > one.limit {
				t.Fatalf("%d bytes are counted, %d encoded, %d allowed", one.bytes, len(one.encode()), one.limit)
			}
		}
	})
}

func TestTheLongestSilentProducerGivesWayAlsoAfterASegmentChange(t *testing.T) {
	t.Parallel()
	table := small()
	put := func(id uint64, sequence int64) {
		table.add(&segment.Frame{Kind: segment.Records, Count: 1, ProducerID: id, Sequence: sequence})
	}
	for id := uint64(5); id > 0; id-- {
		put(id, 0)
	}
	put(5, 1) // 4 is the longest silent one
	before := table.order()
	table = overSegment(table)
	if after := table.order(); !slices.Equal(before, after) || !slices.Equal(before, []uint64{4, 3, 2, 1, 5}) {
		t.Fatalf("the order is %v behind the change, %v before", after, before)
	}
	for id := uint64(100); len(table.forgotten) < 2; id++ {
		put(id, 0)
	}
	if want := []uint64{3, 4}; !slices.Equal(table.forgotten, want) {
		t.Errorf("%v were forgotten; expected %v", table.forgotten, want)
	}
}

// The lowest IDs of the forgotten give way to a floor; those above it are told from new ones.
func TestOnlyLowIDsAreTakenForForgottenOnes(t *testing.T) {
	t.Parallel()
	table := small()
	frame := func(id uint64) *segment.Frame {
		return &segment.Frame{Kind: segment.Records, Count: 1, ProducerID: id}
	}
	for id := uint64(10); table.floor == 0; id += 10 {
		table.add(frame(id))
	}
	if table.floor != 10 || !slices.Equal(table.forgotten, []uint64{20, 30, 40, 50}) {
		t.Fatalf("the floor is %d, and above it %v are forgotten", table.floor, table.forgotten)
	}
	for _, id := range []uint64{1, 10, 20, 50} {
		if _, err := table.check(frame(id)); !errors.Is(err, fault.Forgotten) {
			t.Errorf("producer %d: %v; expected %v", id, err, fault.Forgotten)
		}
	}
	for _, id := range []uint64{11, 45, 1000} {
		if _, err := table.check(frame(id)); err != nil {
			t.Errorf("producer %d, which is new: %v", id, err)
		}
	}
}

func TestAHeaderHoldsAllThatMayBeRemembered(t *testing.T) {
	t.Parallel()
	h := segment.Header{Bases: make([]int64, 4096), Producers: make([]byte, 12+8*forgottenIDs+4+producerBytes)}
	if b := segment.AppendHeader(nil, &h); len(b) > segment.MaxHeader {
		t.Errorf("a header may take %d bytes; %d are allowed", len(b), segment.MaxHeader)
	} else if got, err := segment.ParseHeader(b); err != nil || !reflect.DeepEqual(got, &h) {
		t.Errorf("it does not come back: %v", err)
	}
}
