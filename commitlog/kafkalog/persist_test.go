package kafkalog

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestATimeOutTellsTheLastAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("connection refused")
		for want, tries := range map[string]int{"the last answer: connection refused": 2, "no answer until then": 0} {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			err := persist(ctx, func(ctx context.Context) error {
				if tries--; tries >= 0 {
					return refused
				}
				<-ctx.Done()
				return ctx.Err()
			})
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v; expected %q", err, want)
			}
		}
	})
}
