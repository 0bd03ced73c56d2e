package e2e_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

func TestADryRunOfASeekFindsThePositionsAndChangesNothing(t *testing.T) {
	t.Parallel()
	_, rf := newTopic(t, 4)
	produce(t, rf, "orders", 0, 40, 8)
	got := newRecorder()
	c := consume(t, rf, "orders", "g", got.handle, ringfence.ConsumeOptions{})
	got.waitFor(t, 40)
	c.leave(t)
	before, err := rf.Registry().List(t.Context(), "")
	must(t, err)
	for _, partitions := range [][]int{nil, {2}} {
		dry := &admin.SeekGroupOptions{Partitions: partitions, DryRun: true}
		would, err := rf.Admin().SeekGroup(t.Context(), "g", ringfence.SeekEarliest, dry)
		must(t, err)
		if _, err := rf.Admin().SeekGroup(t.Context(), "g", ringfence.SeekOffset(1000), dry); !errors.Is(err, ringfence.ErrInvalid) {
			t.Errorf("dry run of a seek past the end: %v; expected ErrInvalid", err)
		}
		after, err := rf.Registry().List(t.Context(), "")
		must(t, err)
		if !reflect.DeepEqual(before.Entries, after.Entries) {
			t.Fatalf("a dry run changed the registry from %v to %v", before, after)
		}
		did, err := rf.Admin().SeekGroup(t.Context(), "g", ringfence.SeekEarliest, &admin.SeekGroupOptions{Partitions: partitions})
		if err != nil || !did.Done || !reflect.DeepEqual(would.Positions, did.Positions) {
			t.Errorf("the dry run said %v, the seek did %v, %v", would, did, err)
		}
		if before, err = rf.Registry().List(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}
}

// A list of groups costs little: the checkpoints, most of what a store has of them, are left where they are.
func TestAListOfGroupsReadsNoCheckpoints(t *testing.T) {
	t.Parallel()
	_, rf := newTopic(t, 4)
	produce(t, rf, "orders", 0, 8, 8)
	got := newRecorder()
	c := consume(t, rf, "orders", "g", got.handle, ringfence.ConsumeOptions{})
	got.waitFor(t, 8)
	c.leave(t)
	g, err := protocol.NewGroup(rf.Registry(), "g")
	must(t, err)
	_, err = rf.Registry().Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: g.CheckpointKey(0), Value: []byte("{")}}})
	must(t, err)
	if groups, err := rf.Admin().ListGroups(t.Context()); err != nil || len(groups) != 1 || groups[0].Topic != "orders" || groups[0].Damaged != "" {
		t.Errorf("%+v, %v; expected the group, which no checkpoint describes", groups, err)
	}
	if info, err := rf.Admin().DescribeGroup(t.Context(), "g"); err != nil || info.Units[0].Positions[0].Damaged == "" {
		t.Errorf("%+v, %v; expected that a checkpoint is damaged", info, err)
	}
}
