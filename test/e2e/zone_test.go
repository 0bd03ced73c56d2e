package e2e_test

import (
	"testing"

	"github.com/ringfence/ringfence"
)

// Members get the partitions of their zone as long as that is balanced.
func TestPartitionsGoToTheirZone(t *testing.T) {
	t.Parallel()
	s, rf := newTopic(t, 4)
	zones := []string{"us", "eu", "us", "eu"}
	got := newRecorder()
	a := consume(t, rf, "orders", "g", got.handle, ringfence.ConsumeOptions{Member: "a", Zone: "eu", PartitionZones: zones})
	b := consume(t, s.open(t), "orders", "g", got.handle, ringfence.ConsumeOptions{Member: "b", Zone: "us", PartitionZones: zones})
	eventually(t, "each zone to own its partitions", func() bool {
		info, err := rf.Admin().DescribeGroup(t.Context(), "g")
		if err != nil || len(info.Members) != 2 {
			return false
		}
		for _, u := range info.Units {
			if want := map[string]string{"eu": "a", "us": "b"}[zones[u.Unit]]; u.Owner != want {
				return false
			}
		}
		return true
	})
	a.leave(t)
	b.leave(t)
}
