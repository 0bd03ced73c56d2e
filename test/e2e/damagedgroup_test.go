package e2e_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
)

// overwrite writes over what is stored under a key, as a stranger would.
func overwrite(t *testing.T, rf *ringfence.Client, key, value string) {
	t.Helper()
	e, err := rf.Registry().Get(t.Context(), key)
	if err == nil {
		_, err = rf.Registry().Txn(t.Context(), registry.Txn{Checks: []registry.Check{{Key: key, Version: e.Version}}, Puts: []registry.Put{{Key: key, Value: []byte(value)}}})
	}
	must(t, err)
}

// A checkpoint that can't be read stops its partition, which is named, and no other. A seek mends it.
func TestACheckpointThatCannotBeReadStopsItsPartitionOnly(t *testing.T) {
	t.Parallel()
	rf := newStores().open(t)
	must(t, rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 3}))
	got := newRecorder()
	produce(t, rf, "orders", 0, 60, 30)
	c := consume(t, rf, "orders", "g", got.handle, ringfence.ConsumeOptions{})
	got.waitFor(t, 60)
	c.leave(t)
	g, err := protocol.NewGroup(rf.Registry(), "g")
	must(t, err)
	overwrite(t, rf, g.CheckpointKey(1), `{"positions":[{"storage":0,"partition":1,"next":-1}]}`)
	info, err := rf.Admin().DescribeGroup(t.Context(), "g")
	if err != nil || !strings.Contains(info.Units[1].Positions[0].Damaged, "nothing is read before a seek") || info.Units[0].Positions[0].Damaged != "" {
		t.Fatalf("it is described as %+v, %v", info, err)
	}
	again := newRecorder()
	produce(t, rf, "orders", 60, 60, 30)
	topic, err := rf.Admin().DescribeTopic(t.Context(), "orders")
	must(t, err)
	of := func(p int) int64 {
		return topic.Storage[0].Partitions[p].Next - info.Units[p].Positions[0].Next
	}
	c = consume(t, rf, "orders", "g", again.handle, ringfence.ConsumeOptions{})
	again.waitFor(t, int(of(0)+of(2)))
	_, err = rf.Admin().SeekGroup(t.Context(), "g", ringfence.SeekOffset(info.Units[1].Positions[0].Next), &admin.SeekGroupOptions{Partitions: []int{1}})
	must(t, err)
	again.waitFor(t, 60)
	c.leave(t)
}

// A group that can't be read is named, and hides no other.
func TestListGroupsNamesADamagedGroupAndShowsTheOthers(t *testing.T) {
	t.Parallel()
	s, rf := newTopic(t, 2)
	produce(t, rf, "orders", 0, 10, 5)
	consumeAll(t, rf, 10)
	before, err := rf.Admin().ListGroups(t.Context())
	must(t, err)
	forge(t, s, "groups/m/meta", "{not JSON")
	after, err := rf.Admin().ListGroups(t.Context())
	if err != nil || len(after) != 2 || !reflect.DeepEqual(after[0], before[0]) || !strings.Contains(after[1].Damaged, "groups/m/meta") {
		t.Errorf("%+v, %v; expected the other as it was, and the damaged one with its key", after, err)
	}
	if _, err := rf.Admin().DescribeGroup(t.Context(), "m"); !errors.Is(err, ringfence.ErrCorrupt) {
		t.Errorf("it is described: %v; expected ErrCorrupt", err)
	}
}
