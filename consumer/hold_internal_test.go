package consumer

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/topic"
)

// A group from the latest record begins a partition without a checkpoint at its hold. A seek of another partition, by a
// process that does not know where the group begins, leaves that hold as it is.
func TestSeekLeavesTheHoldOfAPartitionThatHasNotBegun(t *testing.T) {
	t.Parallel()
	_, _, _, g, top := watched(t, topic.Config{Partitions: 2})
	for i := range 8 {
		if _, err := top.Produce(t.Context(), fmt.Append(nil, i), i%2, []commitlog.Record{{Value: []byte("v")}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.EnsureMeta(t.Context(), protocol.Meta{Topic: "orders", Units: 2}); err != nil {
		t.Fatal(err)
	}
	member := NewHold(g, top, slog.Default())
	member.member, member.latest = true, true
	if err := member.Require(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, to := range []SeekTarget{SeekLatest, SeekEarliest} {
		if _, err := (Layout{}).seek(t.Context(), g, top, to, &SeekOptions{Partitions: []int{0}}, top.Unchanged(), slog.Default()); err != nil {
			t.Fatal(err)
		}
	}
	held, err := HeldBy(t.Context(), top, "g")
	if err != nil || !slices.Equal(held[0], []int64{0, 4}) {
		t.Errorf("the group holds %v, %v; expected all of partition 0, which was sought, and 4 of the other one", held[0], err)
	}
}
