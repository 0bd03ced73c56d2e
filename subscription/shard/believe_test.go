package shard

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription/core"
)

// Where somebody else has written the owner in the registry: an epoch that no journal can hold, and one that no
// reader of it believes. The shard says so and what to do, and does not wait for ever.
func TestAShardBeginsNoEpochThatNobodyReads(t *testing.T) {
	t.Parallel()
	log := memlog.New()
	defer func() { _ = log.Close() }()
	journal, dead := newTopic(t, log, "j"), newTopic(t, log, "d")
	for epoch, records := range map[int64]int64{core.MaxEpoch + 1: 0, core.MaxEpoch: 1} {
		b, err := journal.Bounds(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		s := New(Config{
			Name: "s", Set: "abcdefgh",
			Logger: slog.New(slog.DiscardHandler), Journal: journal, Dead: dead, Epoch: epoch,
		})
		if err := s.Run(t.Context()); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "subscription delete --force") {
			t.Errorf("epoch %d: %v; expected fault.Corrupt, and what to do", epoch, err)
		}
		if now, err := journal.Bounds(t.Context(), 0); err != nil || now.Next != b.Next+records {
			t.Errorf("epoch %d: the journal goes from %d to %d, %v; expected %d records more", epoch, b.Next, now.Next, err, records)
		}
	}
}
