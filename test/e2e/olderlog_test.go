package e2e_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
)

// A log that was put back to an earlier state ends before what its registry knows. A group that went on there would pass
// over what is appended up to its checkpoint, so its member ends, and names both places.
func TestALogThatWasPutBackEndsItsMembers(t *testing.T) {
	t.Parallel()
	for _, sealed := range []bool{false, true} { // then the definition knows the end
		s := newStores()
		rf := s.open(t)
		must(t, rf.EnsureTopic(t.Context(), "t", ringfence.TopicConfig{Partitions: 1}))
		for range 3 {
			_, err := rf.Produce(t.Context(), "t", ringfence.Message{Key: []byte("k"), Value: []byte("v")})
			must(t, err)
		}
		consume := func(group string) error {
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			left := 3
			return s.open(t).Consume(ctx, "t", group, func(context.Context, *ringfence.Message) error {
				if left--; left == 0 {
					stop()
				}
				return nil
			}, nil)
		}
		if sealed {
			_, err := rf.Admin().AddStorage(t.Context(), "t", 2)
			must(t, err)
			_, err = rf.Admin().SwitchProduce(t.Context(), "t")
			must(t, err)
		} else {
			must(t, consume("g"))
		}
		all, err := rf.Log().Topics(t.Context())
		must(t, err)
		must(t, rf.Log().DeleteTopic(t.Context(), all[0].Name))
		must(t, rf.Log().CreateTopic(t.Context(), all[0]))
		if err := consume("g"); !errors.Is(err, ringfence.ErrCorrupt) || !strings.Contains(err.Error(), "ends at offset 0 in the log") || !strings.Contains(err.Error(), "offset 3") {
			t.Errorf("sealed %t: %v; expected damage, and both places", sealed, err)
		} else if strings.Contains(err.Error(), "a seek does not help") != sealed {
			t.Errorf("sealed %t: %v; expected a seek as the way out of a checkpoint alone", sealed, err)
		}
	}
}
