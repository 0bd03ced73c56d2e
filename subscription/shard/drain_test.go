package shard

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/dispatch"
)

// idleEngine has no main records.
type idleEngine struct{}

func (idleEngine) Pause()                            {}
func (idleEngine) Resume()                           {}
func (idleEngine) TryOne() bool                      { return false }
func (idleEngine) Limit(int)                         {}
func (idleEngine) SetRetry(dispatch.Retry)           {}
func (idleEngine) Hurry(func(*dispatch.Record) bool) {}

// The next owner begins once a drain is over, so an attempt that the drain does not wait for would be made beside
// those of the next owner.
func TestShardDrainWaitsForParkedAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun, ended := make(chan struct{}), false
		s := begin(t, policy(time.Second, time.Minute, 0, 0), nil, func(context.Context, *dispatch.Record) error {
			close(begun)
			time.Sleep(time.Minute)
			ended = true
			return nil
		})
		s.delay(1, time.Hour)
		<-begun
		if s.Drain(t.Context(), time.Hour); !ended {
			t.Error("the shard is drained while an attempt is under way")
		}
	})
}

func TestShardTriesNothingParkedOnceItDrains(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		s := begin(t, policy(time.Second, time.Minute, 0, 0), nil, func(context.Context, *dispatch.Record) error {
			attempts++
			return nil
		})
		s.Uses(idleEngine{})
		s.setPaused(heldBack, true)
		s.delay(1, time.Hour)
		time.Sleep(2 * time.Hour)
		s.Quiesce()
		tried := s.tryOne()
		if synctest.Wait(); tried || attempts > 0 {
			t.Errorf("tried: %t; %d attempts at a parked record of a shard that drains", tried, attempts)
		}
	})
}

// A cancelled attempt says nothing about the endpoint: an outage goes on.
func TestCancelledAttemptDoesNotEndAnOutage(t *testing.T) {
	t.Parallel()
	limits := NewLimiter(quiet())
	defer limits.End()
	ctx, cancel := context.WithCancel(t.Context())
	s := within(limits, nil, func(context.Context, *dispatch.Record) error {
		cancel()
		return ctx.Err()
	})
	limits.circuit.attempt(1, true, cut{})
	limits.circuit.grant()
	if err := s.Handle(ctx, &dispatch.Record{Attempt: 1}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if b := limits.circuit; !b.open() || b.probes != 0 {
		t.Errorf("open: %t, with %d probes under way; expected it to stay open, with none", b.open(), b.probes)
	}
}
