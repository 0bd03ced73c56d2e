package shard

import (
	"context"
	"errors"
	"testing"

	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/internal/fault"
)

// Who answers while the handler of a parked record still runs is told, too, that it is somebody else's.
func TestAnAnswerForAParkedRecordOfALostShardIsTold(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		ctx, lose := context.WithCancel(t.Context())
		var told error
		s := within(nil, nil, func(_ context.Context, r *dispatch.Record) error {
			l := dispatch.NewLater(r)
			r.AnswerLater(l)
			if lost {
				lose()
			}
			told = l.Answer(nil)
			return nil
		})
		if err := s.ask(ctx, &dispatch.Record{}, true); err != nil || lost != errors.Is(told, fault.Fenced) || !lost && told != nil {
			t.Errorf("lost %t: the answer was taken as %v; expected ErrFenced when it is lost", lost, told)
		}
		lose()
	}
}
