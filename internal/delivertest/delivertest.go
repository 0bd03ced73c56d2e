// Package delivertest tells the story of "ringfence demo --deliver" on any pair of stores, those of a module of
// their own too, and lets more go wrong in it: servers that restart, and a topic that grows.
package delivertest

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/verify"
	"github.com/ringfence/ringfence/push"
)

const (
	processTest = "TestDeliverProcess" // has to call Process
	jobVariable = "RINGFENCE_TEST_DELIVER"
)

// Stores are where all that is tested is kept.
type Stores struct {
	Config ringfence.Config // with Backends, if it needs them; Process gets the same
	// Restart takes a server away and brings it back, at times when its clients work. None: the stores
	// have no server.
	Restart []func()
}

// job is the task of a process: its stores, and the part of the endpoint.
type job struct {
	Dir, Log, Registry, Namespace string
	Endpoint                      *verify.Spec // nil: it is a daemon
}

// Run has a subscription delivered while its daemons, its endpoint and its servers are killed, its topic grows to
// numbers of partitions that divide and that don't, and the number of its shards changes. All that was produced
// comes to the endpoint, which fails a tenth of the attempts, in the order of each key. The poison alone fails for
// good; redriven, it comes in its place, and what waits for it behind it. At last nothing is left of a reshard.
func Run(t testing.TB, s Stores) {
	if r, err := tell(t, s, false); err != nil {
		t.Errorf("%v: %+v", err, r)
	}
}

// tell has the story told. With forget, the endpoint loses a record.
func tell(t testing.TB, s Stores, forget bool) (*verify.DeliverResult, error) {
	c := s.Config
	command := func(endpoint *verify.Spec) (string, []string, []string) {
		text, err := json.Marshal(job{Dir: c.Dir, Log: c.Log, Registry: c.Registry, Namespace: c.Namespace, Endpoint: endpoint})
		if err != nil {
			t.Error(err)
		}
		return os.Args[0], []string{"-test.run=^" + processTest + "$"}, []string{jobVariable + "=" + string(text)}
	}
	config := verify.DemoConfig{
		Site: verify.Site{
			Client: c, Dir: t.TempDir(),
			Command: func(s verify.Spec) (string, []string, []string) { return command(&s) },
		},
		Daemon: func() (string, []string, []string) { return command(nil) },
		Out:    t.Output(), Forget: forget, Restart: s.Restart,
	}
	if !forget {
		config.Grow = []int{24, 5}
	}
	return verify.DemoDeliver(t.Context(), config)
}

// Process is the body of the processes that Run starts. A package that calls Run calls it in a test of its
// own, TestDeliverProcess, with what opens its stores; in an ordinary run it does nothing.
func Process(t testing.TB, backends []ringfence.Backend) {
	text := os.Getenv(jobVariable)
	if text == "" {
		return
	}
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		t.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGTERM)
	defer stop()
	var err error
	if j.Endpoint != nil {
		err = verify.Serve(ctx, *j.Endpoint, nil, nil)
	} else {
		err = j.daemon(ctx, backends)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (j *job) daemon(ctx context.Context, backends []ringfence.Backend) (err error) {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	var rf *ringfence.Client
	for rf == nil { // a supervisor would start it again while a server restarts
		rf, err = ringfence.Open(ctx, ringfence.Config{Dir: j.Dir, Log: j.Log, Registry: j.Registry, Namespace: j.Namespace, Backends: backends, Logger: logger})
		switch {
		case err == nil:
			continue
		case !errors.Is(err, ringfence.ErrUnavailable):
			return err
		}
		logger.Warn("a store does not answer; it is opened again", "error", err)
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil
		}
	}
	defer rf.Close()
	return push.Serve(ctx, rf, &push.ServeOptions{
		Config:    push.Config{AllowNet: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Logger: logger},
		Subscribe: ringfence.SubscribeOptions{SessionTTL: 2 * time.Second},
		Poll:      100 * time.Millisecond,
	})
}
