package protocol_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// What is stored is read by encoding/json and by people, whoever encodes it.
func TestACheckpointIsEncodedAsJSONDoes(t *testing.T) {
	t.Parallel()
	number := rapid.OneOf(rapid.Int64(), rapid.Int64Range(0, 12))
	rapid.Check(t, func(t *rapid.T) {
		c := protocol.Checkpoint{
			From: number.Draw(t, "journal"), Epoch: number.Draw(t, "epoch"), Updated: number.Draw(t, "updated"),
			Member: rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9._-]{0,20}`), rapid.String()).Draw(t, "member"),
		}
		if n := rapid.IntRange(-1, 3).Draw(t, "positions"); n >= 0 {
			c.Positions = make([]protocol.Position, n)
		}
		for i := range c.Positions {
			p := &c.Positions[i]
			p.Storage, p.Partition, p.Next = int(number.Draw(t, "storage")), int(number.Draw(t, "partition")), number.Draw(t, "next")
			for range rapid.IntRange(0, 3).Draw(t, "done") {
				p.Done = append(p.Done, protocol.Range{number.Draw(t, "from"), number.Draw(t, "to")})
			}
			p.Last, p.Top = protocol.Stamp{number.Draw(t, "last"), number.Draw(t, "time")}, protocol.Stamp{number.Draw(t, "top"), number.Draw(t, "time")}
			for range rapid.IntRange(0, 3).Draw(t, "failing") {
				p.Failing = append(p.Failing, protocol.Failing{
					Offset: number.Draw(t, "offset"), Attempts: int(number.Draw(t, "attempts")),
					Since: number.Draw(t, "since"), Due: number.Draw(t, "due"), Pause: number.Draw(t, "pause"),
				})
			}
		}
		if rapid.Bool().Draw(t, "told") {
			c.Deliveries = &protocol.Deliveries{At: number.Draw(t, "at"), Rate: rapid.Float64().Draw(t, "rate"), Running: int(number.Draw(t, "running"))}
			if rapid.Bool().Draw(t, "held back") {
				c.Deliveries.HeldBack = &protocol.HeldBack{Since: number.Draw(t, "since"), Why: rapid.String().Draw(t, "why")}
			}
		}
		if got, want := string(c.Encode()), string(registry.Encode(c)); got != want {
			t.Fatalf("%s\nwant %s", got, want)
		}
	})
}

func TestKeysOfUnitsHaveEightDigitsOrMore(t *testing.T) {
	t.Parallel()
	g, err := protocol.NewGroup(registry.New(nil), "g")
	if err != nil {
		t.Fatal(err)
	}
	for _, unit := range []int{0, 7, 10, 16383, 99_999_999, 100_000_000, 1 << 40} {
		if got, want := g.OwnerKey(unit), fmt.Sprintf("groups/g/owners/%08d", unit); got != want {
			t.Errorf("unit %d: %s, want %s", unit, got, want)
		}
		if got, want := g.CheckpointKey(unit), fmt.Sprintf("checkpoints/g/%08d", unit); got != want {
			t.Errorf("unit %d: %s, want %s", unit, got, want)
		}
	}
}

func BenchmarkCheckpointEncode(b *testing.B) {
	c := protocol.Checkpoint{Positions: []protocol.Position{{Partition: 3, Next: 123456789}}, Epoch: 7, Member: "consumer-1", Updated: 1763712000000}
	b.Run("own", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = c.Encode()
		}
	})
	b.Run("json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = registry.Encode(c)
		}
	})
}

func TestTheLowestNeededIsThatOfItsStorageTopic(t *testing.T) {
	t.Parallel()
	units := []protocol.Unit{
		{Number: 0, Checkpoint: &protocol.Checkpoint{Positions: []protocol.Position{{Storage: 0, Partition: 0, Next: 7}, {Storage: 1, Partition: 1, Next: 5}}}},
		{Number: 1}, // nothing was ever finished
		{Number: 2, Checkpoint: &protocol.Checkpoint{Positions: []protocol.Position{{Storage: 1, Partition: 0, Next: 3}, {Storage: 1, Partition: 9, Next: 4}}}},
	}
	for storage, want := range [][]int64{{7, 0}, {3, 5}, {0, 0}} {
		if got := protocol.LowestNeeded(units, storage, 2); !slices.Equal(got, want) {
			t.Errorf("of storage topic %d %v is needed; want %v", storage, got, want)
		}
	}
}

// Whatever is added to a position: two that differ in it are not the same, or nobody would store it.
func TestPositionsThatDifferAreNotTheSame(t *testing.T) {
	t.Parallel()
	full := protocol.Position{Storage: 1, Partition: 2, Next: 3, Done: []protocol.Range{{5, 6}}, Last: protocol.Stamp{2, 1}, Top: protocol.Stamp{7, 1}, Failing: []protocol.Failing{{Offset: 7}}}
	if !protocol.SamePositions([]protocol.Position{full}, []protocol.Position{full}) {
		t.Error("a position is not itself")
	}
	for i := range reflect.TypeFor[protocol.Position]().NumField() {
		other := full
		f := reflect.ValueOf(&other).Elem().Field(i)
		if f.IsZero() {
			t.Fatalf("the test has no %s", reflect.TypeFor[protocol.Position]().Field(i).Name)
		}
		f.SetZero()
		if protocol.SamePositions([]protocol.Position{full}, []protocol.Position{other}) {
			t.Errorf("%s does not count", reflect.TypeFor[protocol.Position]().Field(i).Name)
		}
	}
}

func TestUnitRefusesFailingRecordsThatContradictEachOther(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string][]protocol.Failing{
		"out of order":     {{Offset: 2, Attempts: 1}, {Offset: 1, Attempts: 1}},
		"twice":            {{Offset: 2, Attempts: 1}, {Offset: 2, Attempts: 1}},
		"no attempt":       {{Offset: 2}},
		"a negative place": {{Offset: -2, Attempts: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, 1)
			key := f.g.CheckpointKey(0)
			_, err := f.h.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: key, Value: protocol.Checkpoint{Positions: []protocol.Position{{Failing: bad}}}.Encode()}}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.g.Unit(t.Context(), 0); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), key) {
				t.Errorf("read as a checkpoint: %v", err)
			}
		})
	}
}
