package e2e_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/subscription/shard"
)

// A handler may owe its answer for ever. When its unit is given up the endpoint has its place again.
func TestAnAnswerThatNeverComesKeepsNoPlaceAtTheEndpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rf := newSubscriptionOf(t, 1, admin.SubscriptionConfig{})
		produce(t, rf, "orders", 0, 4, 4)
		at := shard.NewEndpoint(0, 1)
		defer at.End()
		var d delivered
		h := d.handler(func(*ringfence.Message) error { return nil })
		var lost atomic.Bool
		subscribeWith(t, rf, "billing", func(ctx context.Context, m *ringfence.Message) error {
			if lost.CompareAndSwap(false, true) {
				m.Later()
				return nil
			}
			return h(ctx, m)
		}, &ringfence.SubscribeOptions{Target: at, HandlerTimeout: 10 * time.Second})
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if len(d.tries) != 4 {
			t.Errorf("%d of 4 records were tried after one was never answered", len(d.tries))
		}
	})
}

// An outage that is never answered counts as a probe under way until its unit is given up, and no longer.
func TestProbesThatAreNeverAnsweredKeepNobodyFromTryingAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rf := newSubscriptionOf(t, 1, admin.SubscriptionConfig{})
		produce(t, rf, "orders", 0, 40, 40)
		var up atomic.Bool
		var silent atomic.Int32
		var d delivered
		h := d.handler(func(*ringfence.Message) error { return nil })
		subscribeWith(t, rf, "billing", func(ctx context.Context, m *ringfence.Message) error {
			switch {
			case !up.Load():
				return ringfence.Outage(errors.New("down"))
			case silent.Add(1) <= 6:
				m.Later()
				return nil
			}
			return h(ctx, m)
		}, &ringfence.SubscribeOptions{HandlerTimeout: time.Minute})
		time.Sleep(time.Minute)
		synctest.Wait()
		up.Store(true)
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if len(d.tries) != 40 {
			t.Errorf("%d of 40 records were tried after %d probes were never answered", len(d.tries), min(6, silent.Load()))
		}
	})
}

// A parked record has its time as any other: its shard is given up when its answer does not come, and it is delivered again.
func TestAnAnswerForAParkedRecordThatNeverComesGivesTheShardUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rf := newSubscriptionOf(t, 1, admin.SubscriptionConfig{Hold: -1})
		produce(t, rf, "orders", 0, 4, 4)
		var d delivered
		h := d.handler(func(*ringfence.Message) error { return nil })
		var lost atomic.Bool
		subscribeWith(t, rf, "billing", func(ctx context.Context, m *ringfence.Message) error {
			if string(m.Value) == "0" {
				if m.Attempt == 1 {
					return errors.New("no")
				}
				if lost.CompareAndSwap(false, true) {
					m.Later()
					return nil
				}
			}
			return h(ctx, m)
		}, &ringfence.SubscribeOptions{HandlerTimeout: 10 * time.Second})
		time.Sleep(5 * time.Minute)
		if synctest.Wait(); d.attempts() != 4 {
			t.Errorf("%d of 4 attempts that were to come to an answer", d.attempts())
		}
	})
}

// A handler has its time from its beginning, not from when the endpoint was busy with others.
func TestAWaitForTheEndpointIsNoTimeOfTheHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rf := newSubscriptionOf(t, 1, admin.SubscriptionConfig{})
		produce(t, rf, "orders", 0, 16, 16)
		at := shard.NewEndpoint(0, 1)
		defer at.End()
		var d delivered
		h := d.handler(func(*ringfence.Message) error { return nil })
		subscribeWith(t, rf, "billing", func(ctx context.Context, m *ringfence.Message) error {
			select {
			case <-time.After(3 * time.Second):
			case <-ctx.Done():
				t.Errorf("%s was cancelled", m.Value)
			}
			return h(ctx, m)
		}, &ringfence.SubscribeOptions{Target: at, HandlerTimeout: 5 * time.Second})
		time.Sleep(time.Minute)
		if synctest.Wait(); d.attempts() != 16 {
			t.Errorf("%d attempts at 16 records; expected one of each", d.attempts())
		}
	})
}
