package e2e_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence"
)

// What a handler does after its unit was lost is done a second time by somebody else. A drain, which
// gives handlers time, must not keep the news from them.
func TestHandlersAreCancelledWhenTheirUnitIsLostWhileItDrains(t *testing.T) {
	t.Parallel()
	const patience = time.Hour // of the drain
	for name, lose := range map[string]struct {
		how    func(t *testing.T, s *stores, rf *ringfence.Client)
		within time.Duration
	}{
		"fenced": {func(t *testing.T, s *stores, rf *ringfence.Client) {
			if _, err := rf.Admin().SeekGroup(t.Context(), "g", ringfence.SeekEarliest, nil); err != nil {
				t.Error(err)
			}
		}, time.Millisecond},
		"session lost": {func(_ *testing.T, s *stores, _ *ringfence.Client) { s.reg.SetOutage(true) }, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, rf := newTopic(t, 1)
				produce(t, rf, "orders", 0, 1, 1)
				cancelled := make(chan error, 1)
				c := consume(t, rf, "orders", "g", func(ctx context.Context, _ *ringfence.Message) error {
					<-ctx.Done()
					cancelled <- context.Cause(ctx)
					return ctx.Err()
				}, ringfence.ConsumeOptions{DrainTimeout: patience})
				time.Sleep(time.Second)
				c.stop()
				time.Sleep(time.Second)
				if len(cancelled) > 0 {
					t.Fatalf("a drain cancelled the handler: %v", <-cancelled)
				}
				began := time.Now()
				lose.how(t, s, rf)
				cause := <-cancelled
				if took := time.Since(began); took > lose.within || !errors.Is(cause, ringfence.ErrFenced) {
					t.Errorf("the handler was cancelled %s after its unit was lost, because: %v; expected ErrFenced within %s", took, cause, lose.within)
				}
				s.reg.SetOutage(false)
				<-c.done
			})
		})
	}
}
