package subscription

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/topic"
)

func TestRestoreRefusesASetThatItsTopicCanNotHave(t *testing.T) {
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
		{Set: 1, ID: "abcdefg3", Shards: 3},             // of two partitions
		{Set: 1, ID: "abcdefg3", Shards: 1, Storage: 1}, // of a topic that has one
		{Set: 1, ID: "abcdefg3", Shards: 1, Storage: -1},
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

// A shard may have read its definition long ago, and its journal may be old: only the end of the newest set, while
// nothing turns, puts one back that is newer.
func TestAnOldJournalPutsNoSetBack(t *testing.T) {
	t.Parallel()
	log, reg := memlog.New(), memregistry.New()
	defer log.Close()
	defer reg.Close()
	topics := topic.NewCatalog(log, reg, "")
	if _, err := topics.Ensure(t.Context(), "orders", topic.Config{Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	c := NewCatalog(reg, topics)
	first, err := c.Ensure(t.Context(), Document{Name: "billing", Topic: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := c.Reshard(t.Context(), first, first.Set().Shards); err != nil || len(d.Sets) != 1 {
		t.Fatalf("a turn to as many shards as there are: %+v, %v", d, err)
	}
	d, err := c.Restore(t.Context(), first, Set{Set: 1, ID: "abcdefg3", Shards: 1, Pause: 77})
	if err != nil || len(d.Sets) != 2 || d.Sets[1].Pause != 0 {
		t.Fatalf("%+v, %v; expected the set, which has not paused yet", d, err)
	}
	if d, err = c.Advance(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	put := func(what string, as *Document, next Set) {
		t.Helper()
		if now, err := c.Restore(t.Context(), as, next); err != nil || len(now.Sets) != 2 {
			t.Errorf("%s: %+v, %v; expected the definition as it was", what, now, err)
		}
	}
	put("while another turn is under way", d, Set{Set: 2, ID: "abcdefg4", Shards: 1})
	if d, err = c.Retire(t.Context(), d, "abcdefg3"); err != nil || d.Sets[1].State != active {
		t.Fatalf("%+v, %v; the set that delivers was retired", d, err)
	}
	if d, err = c.Retire(t.Context(), d, first.Set().ID); err != nil || d.Turning() {
		t.Fatalf("%+v, %v", d, err)
	}
	put("by a set that is not the newest", first, Set{Set: 2, ID: "abcdefg4", Shards: 1})
	put("that is no newer", d, Set{Set: 1, ID: "abcdefg4", Shards: 1})
	put("that is there", d, Set{Set: 2, ID: first.Set().ID, Shards: 1})

	for _, pause := range []time.Duration{50 * time.Millisecond, 20 * time.Millisecond} {
		if err := c.NotePause(t.Context(), d, pause); err != nil {
			t.Fatal(err)
		}
	}
	if d, err = c.Get(t.Context(), "billing"); err != nil || d.Set().Pause != 50 {
		t.Errorf("%+v, %v; expected the longest pause", d, err)
	}
	freely := func(context.Context, *Document) error { return nil }
	if err := c.Delete(t.Context(), "billing", freely, freely); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Ensure(t.Context(), Document{Name: "billing", Topic: "orders"}); err != nil {
		t.Fatal(err)
	}
	if err := c.NotePause(t.Context(), d, time.Second); !errors.Is(err, fault.NotFound) {
		t.Errorf("a change of the life before: %v; expected fault.NotFound", err)
	}
}

// What was planned for one subscription is not done to the next of its name.
func TestOnlyTheSubscriptionThatWasMeantIsResharded(t *testing.T) {
	t.Parallel()
	log, reg := memlog.New(), memregistry.New()
	defer log.Close()
	defer reg.Close()
	topics := topic.NewCatalog(log, reg, "")
	if _, err := topics.Ensure(t.Context(), "orders", topic.Config{Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	c := NewCatalog(reg, topics)
	ensure := func() *Document {
		t.Helper()
		d, err := c.Ensure(t.Context(), Document{Name: "billing", Topic: "orders"})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	meant := ensure()
	freely := func(context.Context, *Document) error { return nil }
	if err := c.Delete(t.Context(), "billing", freely, freely); err != nil {
		t.Fatal(err)
	}
	next := ensure()
	if _, err := c.Reshard(t.Context(), meant, 1); !errors.Is(err, fault.NotFound) {
		t.Errorf("of a subscription that is gone: %v; expected fault.NotFound", err)
	}
	if d, err := c.Get(t.Context(), "billing"); err != nil || d.Turning() || d.Life() != next.Life() {
		t.Errorf("%+v, %v; expected the definition as it was", d, err)
	}
}
