package push_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/push"
)

// Three subscriptions go to one server, and one to another: the first has never more requests under way than it may,
// whichever they are of, and all are delivered.
func TestAnEndpointGetsNoMoreAtOnceThanItMay(t *testing.T) {
	t.Parallel()
	rf := client(t)
	must(t, rf.EnsureTopic(t.Context(), "payments", ringfence.TopicConfig{Partitions: 2}))
	var free inbox
	in := crowd{pause: 5 * time.Millisecond, gathers: 2}
	at := receiver(t, in.ServeHTTP)
	for _, name := range []string{"a", "b", "c"} {
		subscribed(t, rf, name, at+"/"+name)
	}
	subscribed(t, rf, "d", receiver(t, free.ServeHTTP))
	daemonWithin(t, rf, map[string]push.Limits{at + "/": {Concurrency: 3, Rate: 100_000}})
	for i := range 20 {
		produce(t, rf, "payments", string(rune('a'+i)), "1")
	}
	eventually(t, "all records of all subscriptions", func() bool {
		for i := range 20 {
			key := string(rune('a' + i))
			if len(in.has("a/"+key))+len(in.has("b/"+key))+len(in.has("c/"+key)) < 3 || len(free.has("d/"+key)) < 1 {
				return false
			}
		}
		return true
	})
	if in.most.Load() > 3 || in.most.Load() < 2 {
		t.Errorf("%d requests were under way at once; want at most 3, and more than one", in.most.Load())
	}
}

// The shards of a subscription that is paused are there, with their parts of what its endpoint takes: the others use
// those, and no more than all.
func TestPausedSubscriptionsWidenNoLimit(t *testing.T) {
	t.Parallel()
	rf := client(t)
	must(t, rf.EnsureTopic(t.Context(), "payments", ringfence.TopicConfig{Partitions: 2}))
	in := crowd{pause: 20 * time.Millisecond, gathers: 3}
	at := receiver(t, in.ServeHTTP)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		subscribed(t, rf, name, at+"/"+name)
		if name != "a" {
			_, err := rf.Admin().PauseSubscription(t.Context(), name, nil)
			must(t, err)
		}
	}
	daemonWithin(t, rf, map[string]push.Limits{at: {Concurrency: 3}})
	for n := range 5 {
		for i := range 20 {
			produce(t, rf, "payments", string(rune('a'+i)), string(rune('1'+n)))
		}
	}
	eventually(t, "all records of the one that goes on", func() bool {
		for i := range 20 {
			if len(in.has("a/"+string(rune('a'+i)))) < 5 {
				return false
			}
		}
		return true
	})
	if in.most.Load() != 3 {
		t.Errorf("%d requests were under way at once; want 3, which the endpoint takes", in.most.Load())
	}
}

func TestLimitsAreOfOrigins(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"https://API.example.com:443/": "https://api.example.com", "http://h:8080": "http://h:8080", "http://[::1]:80": "http://[::1]",
	} {
		if got, err := push.Origin(s); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", s, got, err, want)
		}
	}
	for _, s := range []string{"https://h/path", "https://user:secret@h", "h", "ftp://h", "https://h?x=1", ""} {
		if got, err := push.Origin(s); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %q, %v; want it refused", s, got, err)
		}
	}
	err := push.Serve(t.Context(), nil, &push.ServeOptions{Endpoints: map[string]push.Limits{"https://h": {Rate: -1}}})
	if !errors.Is(err, fault.Invalid) {
		t.Errorf("a rate of -1: %v", err)
	}
}
