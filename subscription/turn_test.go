package subscription

import (
	"errors"
	"testing"

	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/topic"
)

func TestAJournalPutsNoSetBackThatNobodyCanRead(t *testing.T) {
	t.Parallel()
	log, reg := memlog.New(), memregistry.New()
	defer log.Close()
	defer reg.Close()
	topics := topic.NewCatalog(log, reg, "")
	if _, err := topics.Ensure(t.Context(), "orders", topic.Config{Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	c := NewCatalog(reg, topics)
	d, err := c.Ensure(t.Context(), Document{Name: "billing", Topic: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	for _, next := range []Set{
		{Set: 1, ID: "abcdefg3", Shards: 1 << 40},
		{Set: 1, ID: "abcdefg3"},
		{Set: 1, ID: "no", Shards: 1},
		{Set: 1, ID: "abcdefg3", Shards: 1, Starts: []int64{-2}},
		{Set: 1, ID: "abcdefg3", Shards: 1, Starts: []int64{1, 2, 3}},
		{Set: 1, ID: "abcdefg3", Shards: 3},             // of two partitions
		{Set: 1, ID: "abcdefg3", Shards: 1, Storage: 1}, // of a topic that has one
		{Set: 1, ID: "abcdefg3", Shards: 1, Storage: maxStorage},
		{Set: 1, ID: "abcdefg3", Shards: 1, Storage: -1},
		{Set: 1 << 40, ID: "abcdefg3", Shards: 1},
	} {
		if _, err := c.Restore(t.Context(), d, next); !errors.Is(err, fault.Corrupt) {
			t.Errorf("%+v: %v; expected fault.Corrupt", next, err)
		}
	}
	if d, err := c.Get(t.Context(), "billing"); err != nil || d.Turning() {
		t.Errorf("%+v, %v; expected the definition as it was", d, err)
	}
	if err := c.CheckTopic(t.Context(), d); err != nil {
		t.Errorf("what is left can't be delivered: %v", err)
	}
	if d, err = c.Restore(t.Context(), d, Set{Set: 1, ID: "abcdefg3", Shards: 1}); err != nil || !d.Turning() {
		t.Errorf("%+v, %v; expected that the set is there", d, err)
	}
}
