package e2e_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/filelog"
)

// Another program deletes what a running consumer reads, and may make it anew: the consumer ends with what a new start
// is told.
func TestConsumeEndsWhenTheLogLosesItsTopic(t *testing.T) {
	t.Parallel()
	for name, anew := range map[string]bool{"deleted": false, "made anew": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			rf, err := ringfence.Open(t.Context(), ringfence.Config{Dir: dir})
			must(t, err)
			defer func() { must(t, rf.Close()) }()
			must(t, rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 2}))
			produce(t, rf, "orders", 0, 3, 1)
			got := newRecorder()
			ended := make(chan error, 1)
			go func() { ended <- rf.Consume(t.Context(), "orders", "g", got.handle, nil) }() // received below
			got.waitFor(t, 3)
			info, err := rf.Admin().DescribeTopic(t.Context(), "orders")
			must(t, err)
			log, err := filelog.Open(t.Context(), filelog.Config{Dir: dir})
			must(t, err)
			defer func() { must(t, log.Close()) }()
			must(t, log.DeleteTopic(t.Context(), info.Storage[0].Name))
			if anew {
				must(t, log.CreateTopic(t.Context(), commitlog.TopicConfig{Name: info.Storage[0].Name, Partitions: 1})) // fewer: that tells it from the one before, as an ID does elsewhere
			}
			err = <-ended
			other, openErr := ringfence.Open(t.Context(), ringfence.Config{Dir: dir})
			must(t, openErr)
			defer func() { must(t, other.Close()) }()
			again := other.Consume(t.Context(), "orders", "g", got.handle, nil)
			want := ringfence.ErrNotFound
			if anew {
				want = ringfence.ErrCorrupt
			}
			if !errors.Is(err, want) || again == nil || !strings.Contains(err.Error(), again.Error()) {
				t.Errorf("the consumer ended with %v; a new one is told %v", err, again)
			}
		})
	}
}
