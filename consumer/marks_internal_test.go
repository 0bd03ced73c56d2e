package consumer

import (
	"context"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/topic"
)

// Who can write to the registry, or puts the log back to a backup, has a checkpoint name records that are
// not there yet. They are handled when they come, and people see what is wrong until then.
func TestACheckpointThatNamesRecordsBeyondTheEndHidesNone(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]of{"memory": inMemory(), "directory": inDirectory(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, open, 2)
			s.produce(10, 0, 1)
			must(t, s.member(s.config("a", pairs, new(seen).handle))())
			bad := protocol.Checkpoint{Positions: []protocol.Position{
				{Next: 4, Done: []protocol.Range{{6, 8}, {12, 18}}},
				{Partition: 1, Next: 4, Done: []protocol.Range{{6, 8}}},
			}}
			if _, err := s.g.EnsureMeta(t.Context(), protocol.Meta{Topic: "orders", Units: 1, Layout: "pairs", Assignor: "sticky"}); err != nil {
				t.Fatal(err)
			}
			_, err := s.reg.Apply(t.Context(), []registry.Txn{{Puts: []registry.Put{{Key: s.g.CheckpointKey(0), Value: bad.Encode()}}}})
			must(t, err)
			info, err := pairs.Describe(t.Context(), s.reg, "g", func(context.Context, string) (*topic.Topic, error) { return s.top, nil })
			must(t, err)
			p := info.Units[0].Positions
			if !strings.Contains(p[0].Damaged, "names records up to offset 17") || p[0].Done != 0 || p[0].Lag != 6 {
				t.Errorf("the unit is described as %+v", p[0])
			}
			if p[1].Damaged != "" || p[1].Done != 2 || p[1].Lag != 4 {
				t.Errorf("the other partition is described as %+v", p[1])
			}
			var got seen
			stop := s.member(s.config("b", pairs, got.handle))
			s.await("the end", func(u []protocol.Unit) bool { return at(u, 0, 0, 0, 10, 10) })
			s.produce(10, 0)
			s.await("the end again", func(u []protocol.Unit) bool { return at(u, 0, 0, 0, 20, 10) })
			must(t, stop())
			got.expect(t, 0, 0, 4, 20)
			if n := len(got.of[partitionID{0, 1}]); n != 4 {
				t.Errorf("of the other partition %v were handled; expected 4, 5, 8 and 9", got.of[partitionID{0, 1}])
			}
		})
	}
}

// A position beyond the end is no place to go on from, and people see why.
func TestAPositionBeyondTheEndIsNamed(t *testing.T) {
	t.Parallel()
	s := newStage(t, inMemory(), 2)
	s.produce(3, 0)
	if _, err := s.g.EnsureMeta(t.Context(), protocol.Meta{Topic: "orders", Units: 1, Layout: "pairs", Assignor: "sticky"}); err != nil {
		t.Fatal(err)
	}
	bad := protocol.Checkpoint{Positions: []protocol.Position{{Next: 7}, {Partition: 1}}}
	_, err := s.reg.Apply(t.Context(), []registry.Txn{{Puts: []registry.Put{{Key: s.g.CheckpointKey(0), Value: bad.Encode()}}}})
	must(t, err)
	info, err := pairs.Describe(t.Context(), s.reg, "g", func(context.Context, string) (*topic.Topic, error) { return s.top, nil })
	must(t, err)
	if p := info.Units[0].Positions; !strings.Contains(p[0].Damaged, "is at offset 7, and the partition ends at 3") || p[1].Damaged != "" {
		t.Errorf("the unit is described as %+v", p)
	}
}
