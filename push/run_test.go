package push_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
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
	runs(t, func(ctx context.Context) error {
		return push.Run(ctx, rf, d.Name, &push.ServeOptions{Config: push.Config{AllowNet: loopback, Logger: log}, Endpoints: limits})
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

func TestRunRefusesLimitsOfAURLWithAPath(t *testing.T) {
	t.Parallel()
	rf := client(t)
	must(t, rf.EnsureTopic(t.Context(), "payments", ringfence.TopicConfig{Partitions: 1}))
	subscribed(t, rf, "a", "https://example.com/in")
	if err := push.Run(t.Context(), rf, "a", &push.ServeOptions{Endpoints: map[string]push.Limits{"https://example.com/in": {Rate: 1}}}); !errors.Is(err, fault.Invalid) {
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

// No logger is needed, as with Serve.
func TestRunWithoutALoggerOutlivesDefinitionsThatCanNotBeRead(t *testing.T) {
	t.Parallel()
	rf, reg := blindable(t)
	var in inbox
	at := receiver(t, in.ServeHTTP)
	subscribed(t, rf, "a", at)
	d, err := rf.Admin().GetSubscription(t.Context(), "a")
	must(t, err)
	sharing(t, rf, d, map[string]push.Limits{at: {Rate: 1000}}, nil)
	eventually(t, "its part of the limits", func() bool { return here(t, rf, "a") != nil })
	reg.blind.Store(true)
	_, err = rf.Admin().PauseSubscription(t.Context(), "a", nil) // a change, which it looks at
	must(t, err)
	eventually(t, "a look that is refused", func() bool { return reg.refused.Load() > 0 })
}

// Both a daemon and a process that delivers one subscription go on with the endpoint that the definition has by now:
// what failed at the old one comes to the new one, in order.
func TestAnAlteredEndpointGetsWhatTheOldOneRefuses(t *testing.T) {
	t.Parallel()
	for name, deliver := range map[string]func(*testing.T, *ringfence.Client){
		"serve": func(t *testing.T, rf *ringfence.Client) { t.Helper(); daemon(t, rf) },
		"run": func(t *testing.T, rf *ringfence.Client) {
			t.Helper()
			d, err := rf.Admin().GetSubscription(t.Context(), "billing")
			must(t, err)
			sharing(t, rf, d, nil, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rf := client(t)
			must(t, rf.EnsureTopic(t.Context(), "payments", ringfence.TopicConfig{Partitions: 2}))
			var old, in inbox
			old.set(func(_, value string) int {
				if value == "2" {
					return http.StatusInternalServerError
				}
				return 0
			})
			subscribed(t, rf, "billing", receiver(t, old.ServeHTTP))
			deliver(t, rf)
			produce(t, rf, "payments", "k", "1", "2", "3")
			produce(t, rf, "payments", "other", "1")
			eventually(t, "what the old one takes", func() bool { return len(old.has("billing/k"))+len(old.has("billing/other")) == 2 })
			at := receiver(t, in.ServeHTTP)
			_, err := rf.Admin().AlterSubscription(t.Context(), "billing", func(c *admin.SubscriptionConfig) error {
				c.Endpoint.URL, c.Endpoint.Timeout = at, time.Second
				return nil
			}, nil)
			must(t, err)
			eventually(t, "the rest at the new one", func() bool { return len(in.has("billing/k")) == 2 })
			if got := in.has("billing/k"); !slices.Equal(got, []string{"2", "3"}) {
				t.Errorf("they came as %q", got)
			}
		})
	}
}
