package subscription

import (
	"testing"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/subscription/core"
)

// What is tried again, what was given up, and what waits for that are counted apart, over all shards.
func TestTheBacklogTellsParkedRecordsFromDeadLetters(t *testing.T) {
	t.Parallel()
	item := func(key string, dead bool, at int64) core.Item {
		it := core.Item{Dead: dead, Blocking: dead && key != "skipped", Timestamp: at}
		if key != "" {
			it.Key = []byte(key)
		}
		return it
	}
	c := tally{parked: map[string]bool{}, dead: map[string]bool{}}
	c.count([]core.Item{
		item("a", true, 500), item("a", false, 400), item("b", false, 300), item("b", false, 350),
		item("", false, 0), item("", true, 450), item("skipped", true, 600), item("skipped", false, 700),
	})
	c.count([]core.Item{item("a", false, 900), item("c", false, 800)}) // of another shard: nothing is in front of this a
	want := api.Backlog{Parked: api.Heap{Records: 7, Keys: 4, OldestAt: api.Millis(300)}, Dead: api.Heap{Records: 3, Keys: 2, OldestAt: api.Millis(450)}, Blocked: 1}
	if c.Backlog != want {
		t.Errorf("%+v, expected %+v", c.Backlog, want)
	}
}
