package e2e_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/subscription/shard"
)

// A journal that somebody else has trimmed no longer knows what was parked. That is told by whoever looks,
// before and after its shard has gone on, until a reset delivers it again.
func TestAJournalThatSomebodyElseTrimmedIsTold(t *testing.T) {
	t.Parallel()
	s, rf := parked(t)
	info, err := rf.Admin().GetSubscription(t.Context(), "billing")
	must(t, err)
	if _, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil); err != nil {
		t.Fatal("before: ", err)
	}
	journal := raw(t, s, rf, info.Set().Journal)
	b, err := journal.Bounds(t.Context(), 0)
	must(t, err)
	must(t, journal.Trim(t.Context(), 0, b.Next))

	told := func(when string) {
		t.Helper()
		_, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
		if !errors.Is(err, shard.ErrCut) || !strings.Contains(err.Error(), "shard 0") || !strings.Contains(err.Error(), "of its records are gone") {
			t.Errorf("%s: %v; expected what is missing", when, err)
		}
	}
	told("at once")
	var d delivered
	stop := subscribe(t, rf, "billing", d.handler(func(*ringfence.Message) error { return nil }))
	produce(t, rf, "orders", 3, 3, 1)
	eventually(t, "the shard goes on", func() bool { return len(d.of("k0")) == 3 })
	stop()
	told("after the shard has gone on")

	stop = subscribe(t, rf, "billing", d.handler(func(*ringfence.Message) error { return nil }))
	defer stop()
	_, err = rf.Admin().ResetSubscription(t.Context(), "billing", ringfence.SeekEarliest, nil)
	must(t, err)
	eventually(t, "all is delivered again", func() bool { return len(d.of("k0")) == 6 })
	eventually(t, "the old shard set is over, and what it had lost with it", func() bool {
		_, err := rf.Admin().ListDeadLetters(t.Context(), "billing", nil)
		return err == nil
	})
}
