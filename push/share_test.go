package push_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/push"
	"github.com/ringfence/ringfence/registry"
)

// here is what the owners of a subscription's shards tell of its endpoint's limits; nil: nothing yet.
func here(t *testing.T, rf *ringfence.Client, name string) *api.EndpointPart {
	t.Helper()
	d, err := rf.Admin().GetSubscription(t.Context(), name)
	must(t, err)
	g, err := rf.Admin().DescribeGroup(t.Context(), d.Group())
	if errors.Is(err, ringfence.ErrNotFound) {
		return nil
	}
	must(t, err)
	for _, u := range g.Units {
		if u.Deliveries != nil {
			return u.Deliveries.Endpoint
		}
	}
	return nil
}

// sharing delivers one subscription until the test ends.
func sharing(t *testing.T, rf *ringfence.Client, d *api.Subscription, limits map[string]push.Limits, log *slog.Logger) {
	t.Helper()
	e, err := push.For(rf, d, push.Config{AllowNet: loopback})
	must(t, err)
	target, end, err := push.Share(t.Context(), rf, d, limits, log)
	must(t, err)
	runs(t, func(ctx context.Context) error {
		defer end()
		return rf.Subscribe(ctx, d.Name, e.Deliver, &ringfence.SubscribeOptions{Target: target})
	})
}

// A process that delivers one subscription leaves the others that go to its endpoint their parts, and has those when
// they are gone.
func TestWhoDeliversOneSubscriptionHasItsPartOfTheEndpoint(t *testing.T) {
	t.Parallel()
	rf := client(t)
	must(t, rf.EnsureTopic(t.Context(), "payments", ringfence.TopicConfig{Partitions: 2}))
	in := crowd{pause: 5 * time.Millisecond}
	at := receiver(t, in.ServeHTTP)
	for _, name := range []string{"a", "b"} {
		subscribed(t, rf, name, at+"/"+name)
	}
	d, err := rf.Admin().GetSubscription(t.Context(), "a")
	must(t, err)
	sharing(t, rf, d, map[string]push.Limits{at: {Concurrency: 4, Rate: 1000}, "https://elsewhere": {Rate: 1}}, slog.New(slog.DiscardHandler))
	want := api.EndpointPart{Rate: 1000, RateHere: 500, Concurrency: 4, ConcurrencyHere: 2}
	eventually(t, "half of it with half of the subscriptions", func() bool { p := here(t, rf, "a"); return p != nil && *p == want })
	for i := range 20 {
		produce(t, rf, "payments", string(rune('a'+i)), "1")
	}
	eventually(t, "all records", func() bool {
		for i := range 20 {
			if len(in.has("a/"+string(rune('a'+i)))) < 1 {
				return false
			}
		}
		return true
	})
	if in.most.Load() > 2 {
		t.Errorf("%d requests were under way at once; want at most 2, half of what the endpoint takes", in.most.Load())
	}
	must(t, rf.Admin().DeleteSubscription(t.Context(), "b", &admin.DeleteSubscriptionOptions{Force: true}))
	want.RateHere, want.ConcurrencyHere = 1000, 4
	eventually(t, "all of it as the other subscription is gone", func() bool { p := here(t, rf, "a"); return p != nil && *p == want })
}

func TestAShareOfNoLimitsIsNone(t *testing.T) {
	t.Parallel()
	rf := client(t)
	must(t, rf.EnsureTopic(t.Context(), "payments", ringfence.TopicConfig{Partitions: 1}))
	subscribed(t, rf, "a", "https://example.com/in")
	d, err := rf.Admin().GetSubscription(t.Context(), "a")
	must(t, err)
	target, end, err := push.Share(t.Context(), rf, d, map[string]push.Limits{"https://example.com:8443": {Rate: 1}}, slog.New(slog.DiscardHandler))
	if must(t, err); target != nil {
		t.Error("the limits of another endpoint are heeded")
	}
	end()
	if _, _, err := push.Share(t.Context(), rf, d, map[string]push.Limits{"https://example.com/in": {Rate: 1}}, nil); !errors.Is(err, fault.Invalid) {
		t.Errorf("limits of a URL with a path: %v", err)
	}
}

// Where definitions can't be read nobody knows how many go to the endpoint: the parts stay as they were.
func TestADefinitionThatCanNotBeReadGivesNobodyItsPart(t *testing.T) {
	t.Parallel()
	rf, reg := raw(t)
	must(t, rf.EnsureTopic(t.Context(), "payments", ringfence.TopicConfig{Partitions: 1}))
	var in inbox
	at := receiver(t, in.ServeHTTP)
	for _, name := range []string{"a", "b"} {
		subscribed(t, rf, name, at)
	}
	d, err := rf.Admin().GetSubscription(t.Context(), "a")
	must(t, err)
	told := make(chan struct{}, 1000)
	log := slog.New(slog.NewTextHandler(writer(func(line []byte) {
		if bytes.Contains(line, []byte("can be read")) {
			told <- struct{}{}
		}
	}), nil))
	sharing(t, rf, d, map[string]push.Limits{at: {Rate: 1000}}, log)
	want := api.EndpointPart{Rate: 1000, RateHere: 500}
	eventually(t, "half of the rate", func() bool { p := here(t, rf, "a"); return p != nil && *p == want })
	_, err = reg.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "subscriptions/b", Value: []byte("{")}}})
	must(t, err)
	<-told
	since, n := api.TimeOf(time.Now()), 0
	var last *api.Deliveries // what is told of a time after that
	eventually(t, "what is used now", func() bool {
		n++
		produce(t, rf, "payments", strconv.Itoa(n), "1") // so that there is something to tell
		g, err := rf.Admin().DescribeGroup(t.Context(), d.Group())
		must(t, err)
		last = g.Units[0].Deliveries
		return last != nil && last.At > since
	})
	if last.Endpoint == nil || *last.Endpoint != want {
		t.Errorf("the process has %+v of the endpoint; want %+v, as one of two", last.Endpoint, want)
	}
}

// Nobody needs to give a logger, as with Serve.
func TestAShareWithoutALoggerOutlivesDefinitionsThatCanNotBeRead(t *testing.T) {
	t.Parallel()
	rf, reg := blindable(t)
	var in inbox
	at := receiver(t, in.ServeHTTP)
	subscribed(t, rf, "a", at)
	d, err := rf.Admin().GetSubscription(t.Context(), "a")
	must(t, err)
	target, end, err := push.Share(t.Context(), rf, d, map[string]push.Limits{at: {Rate: 1000}}, nil)
	must(t, err)
	if target == nil {
		t.Error("there is no part of the limits")
	}
	reg.blind.Store(true)
	_, err = rf.Admin().PauseSubscription(t.Context(), "a", nil) // a change, which it looks at
	must(t, err)
	eventually(t, "a look that is refused", func() bool { return reg.refused.Load() > 0 })
	end()
}
