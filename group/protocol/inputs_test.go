package protocol_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

// in is a position in a partition of the first storage topic.
func in(partition int, next int64) protocol.Position {
	return protocol.Position{Partition: partition, Next: next}
}

func TestASeekInOnePartitionLeavesTheOthersWhereTheyAre(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	_, a := f.join("a", "a1")
	grant, err := a.Claim(t.Context(), 0, "")
	must(t, err)
	must(t, f.g.Commit(t.Context(), grant, protocol.Checkpoint{Positions: []protocol.Position{in(0, 10), in(1, 20), in(2, 30)}}, ""))
	must(t, f.g.Seek(t.Context(), 0, protocol.Checkpoint{Positions: []protocol.Position{in(1, 5)}}, "seek"))
	for p, want := range []int64{10, 5, 30} {
		if got := f.unit(0).Checkpoint.Position(0, p); got == nil || got.Next != want {
			t.Errorf("partition %d is at %+v; expected %d", p, got, want)
		}
	}
}

// The owner may commit between the moment at which a seek reads what it keeps and that at which it writes.
func TestASeekTakesNothingBackInOtherPartitions(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	_, a := f.join("a", "a1")
	grant, err := a.Claim(t.Context(), 0, "")
	must(t, err)
	must(t, f.g.Commit(t.Context(), grant, protocol.Checkpoint{Positions: []protocol.Position{in(0, 10), in(1, 20)}}, ""))
	late := &hurried{forgetful: forgetful{of: f.h.Registry}, first: func() {
		u := f.unit(0)
		must(t, f.g.Commit(t.Context(), grant, protocol.Checkpoint{Positions: []protocol.Position{in(0, 15), in(1, 25)}}, u.CheckpointVersion))
	}}
	must(t, groupOf(t, registry.New(late)).Seek(t.Context(), 0, protocol.Checkpoint{Positions: []protocol.Position{in(1, 5)}}, "seek"))
	if got := f.unit(0).Checkpoint.Positions; len(got) != 2 || f.unit(0).Checkpoint.Position(0, 0).Next != 15 || f.unit(0).Checkpoint.Position(0, 1).Next != 5 {
		t.Errorf("the unit is at %v; expected 15 and 5", got)
	}
}

// What a seek keeps may be too much with what it moves: then the finished ranges go, and the seek is done.
func TestASeekStoresOnlyWhatCanBeRead(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	_, a := f.join("a", "a1")
	grant, err := a.Claim(t.Context(), 0, "")
	must(t, err)
	large := in(0, 10)
	for size := 0; size < registry.MaxValueBytes-1000; size += 18 { // "[1000000,1000001],"
		from := int64(1_000_000 + size)
		large.Done = append(large.Done, protocol.Range{from, from + 1})
	}
	must(t, f.g.Commit(t.Context(), grant, protocol.Checkpoint{Positions: []protocol.Position{large}}, ""))
	var many []protocol.Position
	for p := range 20 {
		many = append(many, in(1+p, 1_000_000_000_000_000))
	}
	must(t, f.g.Seek(t.Context(), 0, protocol.Checkpoint{Positions: many}, "seek"))
	if got := f.unit(0).Checkpoint; len(got.Positions) != 21 || got.Position(0, 0).Next != 10 || got.Position(0, 20).Next != many[19].Next {
		t.Errorf("the unit is at %v", got.Positions)
	}
	err = f.g.Seek(t.Context(), 0, protocol.Checkpoint{Positions: []protocol.Position{in(1, 5), in(1, 6)}}, "seek")
	if !errors.Is(err, fault.Invalid) || errors.Is(err, fault.Corrupt) {
		t.Errorf("a seek to two places in one partition: %v", err)
	}
}

func TestACheckpointWithPositionsThatNobodyCanHaveStoredIsRefused(t *testing.T) {
	t.Parallel()
	var many []protocol.Position
	for p := range protocol.MaxInputs + 1 {
		many = append(many, in(p, 1))
	}
	for name, c := range map[string]struct {
		positions []protocol.Position
		bad       bool
	}{
		"as many as there may be": {many[:protocol.MaxInputs], false},
		"too many":                {many, true},
		"in another order":        {[]protocol.Position{in(2, 1), in(0, 1), in(1, 1)}, false},
		"one twice":               {[]protocol.Position{in(0, 1), in(0, 2)}, true},
		"one twice, apart":        {[]protocol.Position{in(5, 1), in(1, 2), in(5, 3)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 1)
			key := f.g.CheckpointKey(0)
			_, err := f.h.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: key, Value: protocol.Checkpoint{Positions: c.positions}.Encode()}}})
			must(t, err)
			u, err := f.g.Unit(t.Context(), 0)
			if c.bad && (!errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), key)) {
				t.Errorf("read: %v; expected an error that names %s", err, key)
			}
			if !c.bad && (err != nil || !slices.EqualFunc(u.Checkpoint.Positions, c.positions, func(a, b protocol.Position) bool {
				return protocol.SamePositions([]protocol.Position{a}, []protocol.Position{b})
			})) {
				t.Errorf("read %+v, %v", u.Checkpoint, err)
			}
		})
	}
}

// However much a unit reads, its checkpoint can be stored, if need be without the finished ranges.
func TestTheLargestCheckpointFitsIntoAValue(t *testing.T) {
	t.Parallel()
	c := protocol.Checkpoint{From: math.MaxInt64, Member: strings.Repeat("m", 128), Updated: math.MaxInt64}
	for range protocol.MaxInputs {
		c.Positions = append(c.Positions, protocol.Position{
			Storage: math.MaxInt64, Partition: math.MaxInt64, Next: math.MaxInt64, Last: protocol.Stamp{math.MaxInt64, math.MaxInt64}, Done: slices.Repeat([]protocol.Range{{math.MaxInt64 - 1, math.MaxInt64}}, 1000),
		})
	}
	f := newFixture(t, 1)
	txn := f.g.CommitTxn(protocol.Grant{Epoch: 1 << 53, Version: "1"}, c, "")
	if n := len(txn.Puts[0].Value); n > registry.MaxValueBytes/4 {
		t.Errorf("the largest checkpoint takes %d bytes; a value has at most %d", n, registry.MaxValueBytes)
	}
}

// A partition may be in two checkpoints, of a unit that is over and of one that came after it.
func TestTheLowestNeededIsTheLowestOfAllUnits(t *testing.T) {
	t.Parallel()
	units := []protocol.Unit{
		{Number: 0, Checkpoint: &protocol.Checkpoint{Positions: []protocol.Position{in(0, 9), in(1, 4)}}},
		{Number: 1, Checkpoint: &protocol.Checkpoint{Positions: []protocol.Position{in(0, 7), in(1, 6)}}},
	}
	if got := protocol.LowestNeeded(units, 0, 3); !slices.Equal(got, []int64{7, 4, 0}) {
		t.Errorf("%v is needed; expected 7, 4 and all", got)
	}
}

// hurried is a store in which something happens before the first write.
type hurried struct {
	forgetful
	first func()
}

func (h *hurried) Apply(ctx context.Context, txns []driver.Txn) ([]driver.Result, error) {
	if first := h.first; first != nil {
		h.first = nil
		first()
	}
	return h.forgetful.Apply(ctx, txns)
}
