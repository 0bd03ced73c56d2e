package hook_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/ringfence/ringfence/internal/hook"
)

func TestGateStopsUntilItOpens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := new(hook.Gate)
		pass := hook.GateOf(g.With(t.Context())).Pass
		if err := pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		g.Shut()
		g.Shut()
		passed := make(chan error, 1)
		go func() { passed <- pass(t.Context()) }() // joined below
		synctest.Wait()
		if len(passed) > 0 {
			t.Fatal("it let through while it was shut:", <-passed)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := pass(ended); !errors.Is(err, context.Canceled) {
			t.Error("whose context has ended waits for nothing:", err)
		}
		g.Open()
		if err := <-passed; err != nil {
			t.Error(err)
		}
	})
}

func TestRequestsAreSentAgainInTheirOrder(t *testing.T) {
	t.Parallel()
	var r hook.Requests
	var mu sync.Mutex
	var got []string
	request := func(name string) func(context.Context) error {
		return func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, name)
			return nil
		}
	}
	ctx := r.Record(t.Context())
	hook.Sent(ctx, request("first"))
	// These wait for each other: one after the other they would wait for ever.
	wave := hook.AtOnce(ctx)
	meet := make(chan struct{})
	hook.Sent(wave, func(context.Context) error { meet <- struct{}{}; return request("wave")(ctx) })
	hook.Sent(wave, func(context.Context) error { <-meet; return request("wave")(ctx) })
	hook.Sent(ctx, request("last"))
	for range 2 {
		got = nil
		if err := r.Send(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := []string{"first", "wave", "wave", "last"}; !slices.Equal(got, want) {
			t.Errorf("sent %q, expected %q", got, want)
		}
	}
	failed := errors.New("failed")
	hook.Sent(wave, func(context.Context) error { return failed })
	hook.Sent(wave, func(context.Context) error { <-meet; return nil })
	hook.Sent(wave, func(context.Context) error { meet <- struct{}{}; return nil })
	got = nil
	if err := r.Send(t.Context()); !errors.Is(err, failed) || slices.Contains(got, "last") {
		t.Errorf("%v after %q; expected nothing behind a request that failed", err, got)
	}
}
