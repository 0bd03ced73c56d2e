package shard

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/dispatch"
)

// aims has a process begin what it may at an endpoint, for a shard of that part of a subscription.
func (g *greedy) aims(at *Limiter, part float64) (leave func()) {
	e := &eager{g: g, may: make(chan bool, 64)}
	s := &Shard{cfg: Config{Endpoint: at}, engine: e}
	s.st = New(Config{Logger: quiet()}).st
	unjoin := at.Join(s, part)
	over := make(chan struct{})
	go e.run(s, over)
	return func() {
		close(over)
		unjoin()
	}
}

// Two processes share three subscriptions that go to one endpoint: together they keep to its rate, each by what
// it has, and what one subscription leaves another uses.
func TestAllSubscriptionsTogetherKeepToTheRateOfTheirEndpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at, bt := NewEndpoint(200, 0), NewEndpoint(200, 0)
		defer at.End()
		defer bt.End()
		a, b := &greedy{rate: at.rate}, &greedy{rate: bt.rate}
		at.SetSubscriptions(2)
		bt.SetSubscriptions(2)
		defer a.aims(at, 1)()
		leave := a.aims(at, 0.5)
		defer b.aims(bt, 0.5)()
		const span = 10 * time.Second
		time.Sleep(span)
		about(t, "one subscription and half of another", a.since(), 1500)
		about(t, "the other half", b.since(), 500)
		leave()
		defer b.aims(bt, 0.5)()
		time.Sleep(span)
		about(t, "one of two", a.since(), 1000)
		about(t, "the other", b.since(), 1000)
		at.SetSubscriptions(4) // two are made that have nothing to deliver
		bt.SetSubscriptions(4)
		time.Sleep(span)
		about(t, "one of four", a.since(), 500)
	})
}

func TestAllSubscriptionsTogetherKeepToTheConcurrencyOfTheirEndpoint(t *testing.T) {
	t.Parallel()
	at := NewEndpoint(0, 10)
	at.SetSubscriptions(3)
	s := make([]*Shard, 4)
	for i := range s {
		s[i] = New(Config{Endpoint: at, Logger: quiet()})
	}
	has := func(what string, want int) {
		t.Helper()
		if got := at.slots.atMost(1000); got != want {
			t.Errorf("%s: %d at the same time; want %d", what, got, want)
		}
	}
	at.Join(s[0], 0.01)
	has("a hundredth of one of three", 1)
	leave := at.Join(s[1], 0.99)
	has("one of three", 3)
	at.Join(s[2], 1)
	at.Join(s[3], 1)
	has("all", 10)
	leave()
	has("all but one", 6)
	at.SetSubscriptions(2)
	has("two", 10)
	for range 10 {
		if _, waited, err := at.take(t.Context()); waited || err != nil {
			t.Fatal(waited, err)
		}
	}
	if _, _, err := at.take(deadline(t)); err == nil {
		t.Error("an eleventh began")
	}
}

// Parts are fractions that no number has exactly; all of them are the whole.
func TestAllPartsTogetherAreAllThatAnEndpointTakes(t *testing.T) {
	t.Parallel()
	at := NewEndpoint(0, 10)
	for range 10 {
		at.Join(New(Config{Endpoint: at, Logger: quiet()}), 0.1)
	}
	if got := at.slots.atMost(1000); got != 10 {
		t.Errorf("ten tenths of 10 are %d", got)
	}
}

// Who is told of no subscription has one that ends, or begins, at that moment.
func TestAnEndpointWithoutSubscriptionsKeepsItsLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := NewEndpoint(100, 10)
		defer at.End()
		s := New(Config{Endpoint: at, Logger: quiet()})
		defer at.Join(s, 1)()
		at.SetSubscriptions(0)
		if got := at.slots.atMost(1000); got != 10 {
			t.Errorf("%d at the same time; want 10", got)
		}
		began := 0
		for range 10_000 {
			if s.mayBegin(false) {
				began++
			}
			time.Sleep(time.Millisecond)
		}
		about(t, "the rate", began, 1000)
	})
}

// An attempt that the endpoint has no token for gives that of its subscription back.
func TestATokenIsNotLostWhenTheEndpointHasNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		own, at := newRate(quiet()), NewEndpoint(1, 0)
		defer own.end()
		defer at.End()
		own.set(100)
		s := New(Config{Limits: &Limiter{rate: own}, Endpoint: at, Logger: quiet()})
		defer own.join(s, 1)()
		defer at.Join(s, 1)()
		time.Sleep(10 * time.Second)
		had := func() float64 {
			own.mu.Lock()
			defer own.mu.Unlock()
			own.refill(time.Now())
			return own.tokens
		}
		before := had()
		if !s.mayBegin(false) || s.mayBegin(false) {
			t.Fatal("want one attempt, as the endpoint takes one in a second")
		}
		if got := before - had(); got != 1 {
			t.Errorf("%g tokens of the subscription were used for one attempt", got)
		}
	})
}

// A parked record that has its token of the one has none of the other.
func TestATokenOfTheEndpointIsNoneOfTheSubscription(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		own, at := newRate(quiet()), NewEndpoint(1, 0)
		defer own.end()
		defer at.End()
		own.set(1)
		s := New(Config{Limits: &Limiter{rate: own}, Endpoint: at, Logger: quiet()})
		defer own.join(s, 1)()
		defer at.Join(s, 1)()
		time.Sleep(2 * time.Second)
		s.paidFor(at.ofRate().why).Add(1)
		if !s.mayBegin(true) || !at.ofRate().take() {
			t.Fatal("a record that had a token of the endpoint took another, or did not begin")
		}
		s.paidFor(at.ofRate().why).Add(1)
		if s.mayBegin(true) {
			t.Error("it began beyond the rate of the subscription, by a token of the endpoint")
		}
		if !at.ofRate().take() || s.paidFor(at.ofRate().why).Load() != 0 {
			t.Error("it keeps its token of the endpoint, for which others wait")
		}
		s.paidFor(own.why).Add(1)
		if s.mayBegin(true) {
			t.Error("it began beyond the rate of the endpoint, by a token of the subscription")
		}
	})
}

// A parked record that is not attempted after all leaves the tokens that it was given to others, at once; those of
// another one it leaves alone.
func TestAParkedRecordThatDoesNotBeginLeavesItsTokensToOthers(t *testing.T) {
	t.Parallel()
	over, end := context.WithCancel(t.Context())
	end()
	take := func(t *testing.T, take func(context.Context) (*slots, bool, error)) *slots {
		t.Helper()
		taken, _, err := take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return taken
	}
	for what, attempt := range map[string]func(*testing.T, *Shard, *dispatch.Record) error{
		"as it waited for a slot": func(t *testing.T, s *Shard, r *dispatch.Record) error {
			take(t, s.slots.take)
			return s.parked(over, r, 0)
		},
		"as it waited for one of the endpoint": func(t *testing.T, s *Shard, r *dispatch.Record) error {
			take(t, s.cfg.Endpoint.take)
			return s.parked(over, r, 0)
		},
		"as a pause came while it waited": func(t *testing.T, s *Shard, r *dispatch.Record) error {
			busy, answer := take(t, s.slots.take), make(chan error)
			go func() { answer <- s.parked(t.Context(), r, 0) }() // received below
			synctest.Wait()
			s.SetPaused(true)
			busy.give()
			return <-answer
		},
		"as its time has not come": func(t *testing.T, s *Shard, r *dispatch.Record) error {
			r.Headers = []commitlog.Header{{Name: NotBefore, Value: time.Now().Add(time.Hour).UTC().AppendFormat(nil, time.RFC3339Nano)}}
			return s.parked(t.Context(), r, 0)
		},
		"as the filter can't be computed": func(t *testing.T, s *Shard, r *dispatch.Record) error {
			s.cfg.Filter = func(*dispatch.Record) (bool, error) { return false, errors.New("no number") }
			return s.parked(t.Context(), r, 0)
		},
		"of another one": func(t *testing.T, s *Shard, r *dispatch.Record) error { // it is another one's that has them
			busy := take(t, s.slots.take)
			if err := s.bounded(over, r, false); err == nil {
				t.Error("a new record began without a slot")
			}
			busy.give()
			return s.bounded(t.Context(), r, false)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				own, at := newRate(quiet()), NewEndpoint(1, 1)
				defer own.end()
				defer at.End()
				own.set(1)
				s := New(Config{Limits: &Limiter{rate: own}, Endpoint: at, Logger: quiet(),
					Handler: func(context.Context, *dispatch.Record) error { return nil }})
				s.slots.bound(1)
				defer own.join(s, 1)()
				defer at.Join(s, 1)()
				time.Sleep(2 * time.Second)
				if !own.take() || !at.ofRate().take() {
					t.Fatal("there are no tokens to give")
				}
				s.paid.Add(1)
				s.paidThere.Add(1)
				if err := attempt(t, s, &dispatch.Record{Attempt: 1}); err == nil {
					t.Error("it was attempted")
				}
				if what == "of another one" {
					if s.paid.Load() != 1 || s.paidThere.Load() != 1 {
						t.Error("a new record took the tokens of one that is parked")
					}
					return
				}
				if s.paid.Load() != 0 || s.paidThere.Load() != 0 {
					t.Error("it keeps its tokens")
				}
				if !own.take() || !at.ofRate().take() {
					t.Error("its tokens are nobody's")
				}
			})
		})
	}
}
