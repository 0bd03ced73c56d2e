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
	s := within(nil, at, nil)
	s.engine = e
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
		s[i] = within(nil, at, nil)
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
		if _, waited, err := at.slots.take(t.Context()); waited || err != nil {
			t.Fatal(waited, err)
		}
	}
	if _, _, err := at.slots.take(deadline(t)); err == nil {
		t.Error("an eleventh began")
	}
}

// Parts are fractions that no number has exactly; all of them are the whole.
func TestAllPartsTogetherAreAllThatAnEndpointTakes(t *testing.T) {
	t.Parallel()
	at := NewEndpoint(0, 10)
	for range 10 {
		at.Join(within(nil, at, nil), 0.1)
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
		s := within(nil, at, nil)
		defer at.Join(s, 1)()
		at.SetSubscriptions(0)
		if got := at.slots.atMost(1000); got != 10 {
			t.Errorf("%d at the same time; want 10", got)
		}
		began := 0
		for range 10_000 {
			if s.takeTokens(new(permit)) {
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
		s := within(&Limiter{rate: own}, at, nil)
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
		if s.acquire(t.Context(), new(permit)) != nil || s.acquire(t.Context(), new(permit)) == nil {
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
		s := within(&Limiter{rate: own}, at, nil)
		defer own.join(s, 1)()
		defer at.Join(s, 1)()
		time.Sleep(2 * time.Second)
		ofOwn, ofEndpoint := permit{tokens: [2]*rate{0: own}}, permit{tokens: [2]*rate{1: at.rate}}
		p := ofEndpoint
		if !s.takeTokens(&p) || !at.rate.take() {
			t.Fatal("a record that had a token of the endpoint took another, or did not begin")
		}
		p = ofEndpoint
		if err := s.acquire(t.Context(), &p); !errors.Is(err, errNoToken) {
			t.Errorf("%v; it began beyond the rate of the subscription, by a token of the endpoint", err)
		}
		if !at.rate.take() || p != (permit{}) {
			t.Error("it keeps its token of the endpoint, for which others wait")
		}
		p = ofOwn
		if err := s.acquire(t.Context(), &p); !errors.Is(err, errNoToken) {
			t.Errorf("%v; it began beyond the rate of the endpoint, by a token of the subscription", err)
		}
	})
}

// A parked record that is not attempted after all leaves the tokens that it was given to others, at once.
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
	for what, attempt := range map[string]func(*testing.T, *Shard, *dispatch.Record, permit) error{
		"as it waited for a slot": func(t *testing.T, s *Shard, r *dispatch.Record, p permit) error {
			take(t, s.slots.take)
			return s.parked(over, r, 0, p)
		},
		"as it waited for one of the endpoint": func(t *testing.T, s *Shard, r *dispatch.Record, p permit) error {
			take(t, s.cfg.Endpoint.slots.take)
			return s.parked(over, r, 0, p)
		},
		"as a pause came while it waited": func(t *testing.T, s *Shard, r *dispatch.Record, p permit) error {
			busy, answer := take(t, s.slots.take), make(chan error)
			go func() { answer <- s.parked(t.Context(), r, 0, p) }() // received below
			synctest.Wait()
			s.SetPaused(true)
			busy.release()
			return <-answer
		},
		"as its time has not come": func(t *testing.T, s *Shard, r *dispatch.Record, p permit) error {
			r.Headers = []commitlog.Header{{Name: NotBefore, Value: time.Now().Add(time.Hour).UTC().AppendFormat(nil, time.RFC3339Nano)}}
			return s.parked(t.Context(), r, 0, p)
		},
		"as the filter can't be computed": func(t *testing.T, s *Shard, r *dispatch.Record, p permit) error {
			s.SetTerms(Terms{Retry: s.cfg.Retry, Filter: func(*dispatch.Record) (bool, error) { return false, errors.New("no number") }})
			return s.parked(t.Context(), r, 0, p)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				own, at := newRate(quiet()), NewEndpoint(1, 1)
				defer own.end()
				defer at.End()
				own.set(1)
				s := within(&Limiter{rate: own}, at, func(context.Context, *dispatch.Record) error { return nil })
				s.slots.bound(1)
				defer own.join(s, 1)()
				defer at.Join(s, 1)()
				time.Sleep(2 * time.Second)
				if !own.take() || !at.ofRate().take() {
					t.Fatal("there are no tokens to give")
				}
				if err := attempt(t, s, &dispatch.Record{Attempt: 1}, permit{tokens: [2]*rate{own, at.rate}}); err == nil {
					t.Error("it was attempted")
				}
				if !own.take() || !at.ofRate().take() {
					t.Error("its tokens are nobody's")
				}
			})
		})
	}
}
