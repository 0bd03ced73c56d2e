package demo

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/push"
)

// TestDemoDaemon is no test but the body of a daemon of those below.
func TestDemoDaemon(t *testing.T) { //nolint:paralleltest // it is a process of its own
	if flag.NArg() == 0 {
		return
	}
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGTERM)
	defer stop()
	rf, err := ringfence.Open(ctx, ringfence.Config{Dir: flag.Arg(0)})
	if err != nil {
		t.Fatal(err)
	}
	t.Fatal(push.Serve(ctx, rf, &push.ServeOptions{
		Config:    push.Config{AllowNet: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		Subscribe: ringfence.SubscribeOptions{SessionTTL: time.Second},
		Poll:      100 * time.Millisecond,
	}))
}

// TestDemoEndpoint is no test but the body of an endpoint of those below.
func TestDemoEndpoint(t *testing.T) { //nolint:paralleltest // it is a process of its own
	if flag.NArg() == 0 {
		return
	}
	var e Endpoint
	if err := json.Unmarshal([]byte(flag.Arg(0)), &e); err != nil {
		t.Fatal(err)
	}
	t.Fatal(e.Serve(t.Context()))
}

func deliver(t *testing.T, forget bool) (*DeliverResult, string, error) {
	t.Helper()
	var story strings.Builder
	dir := t.TempDir()
	r, err := Deliver(t.Context(), DeliverConfig{
		Config:     Config{Client: ringfence.Config{Dir: dir + "/data"}, Dir: dir, Binary: os.Args[0], Fresh: true, Out: &story},
		DaemonArgs: func() []string { return []string{"-test.run=^TestDemoDaemon$", "--", dir + "/data"} },
		EndpointArgs: func(e Endpoint) []string {
			text, err := json.Marshal(e)
			if err != nil {
				t.Error(err)
			}
			return []string{"-test.run=^TestDemoEndpoint$", "--", string(text)}
		},
		Forget: forget,
	})
	return r, story.String(), err
}

func TestDeliveriesKeepEveryPromise(t *testing.T) {
	t.Parallel()
	r, story, err := deliver(t, false)
	if err != nil {
		t.Fatalf("%v\n%s", err, story)
	}
	if r.Produced == 0 || r.Delivered != r.Produced || r.DeadLetters != 1 || r.Redriven != 1 || r.Waiting == 0 {
		t.Errorf("%+v\n%s", r, story)
	}
	for _, scene := range []string{"kill -9 the endpoint", "kill -9 a daemon", "4 shards become 6", "redriven", "ok   "} {
		if !strings.Contains(story, scene) {
			t.Errorf("the story does not tell %q:\n%s", scene, story)
		}
	}
}

// An endpoint that answers for a record and loses it breaks what the judgement looks for.
func TestTheJudgementOfDeliveriesFindsWhatIsLost(t *testing.T) {
	t.Parallel()
	r, story, err := deliver(t, true)
	if !errors.Is(err, ErrBroken) || errors.Is(err, context.Canceled) {
		t.Fatalf("%v; expected a broken promise\n%s", err, story)
	}
	if r.Lost != 1 || !slices.ContainsFunc(r.Broken, func(s string) bool { return strings.Contains(s, "record 7 of key \"customer-3\"") }) || !strings.Contains(story, "BAD ") {
		t.Errorf("%+v\n%s", r, story)
	}
}
