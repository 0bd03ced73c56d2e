package ringfence_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/ringfence/ringfence"
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
	if err != nil {
		t.Fatal(err)
	}
	for _, partitions := range [][]int{nil, {2}} {
		dry := &ringfence.SeekOptions{Partitions: partitions, DryRun: true}
		would, err := rf.SeekGroup(t.Context(), "g", ringfence.SeekEarliest, dry)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rf.SeekGroup(t.Context(), "g", ringfence.SeekOffset(1000), dry); !errors.Is(err, ringfence.ErrInvalid) {
			t.Errorf("dry run of a seek past the end: %v; expected ErrInvalid", err)
		}
		after, err := rf.Registry().List(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(before.Entries, after.Entries) {
			t.Fatalf("a dry run changed the registry from %v to %v", before, after)
		}
		did, err := rf.SeekGroup(t.Context(), "g", ringfence.SeekEarliest, &ringfence.SeekOptions{Partitions: partitions})
		if err != nil || !reflect.DeepEqual(would, did) {
			t.Errorf("the dry run said %v, the seek did %v, %v", would, did, err)
		}
		if before, err = rf.Registry().List(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}
}
