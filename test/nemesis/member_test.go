package nemesis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/backends"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/harness"
)

// specVariable, in the environment, makes this test binary a member.
const specVariable = "RINGFENCE_NEMESIS_MEMBER"

// How a member ends that did not reach its store while it was starting, and one that was replaced
// by a newer start of its name.
const (
	exitUnavailable = 75
	exitReplaced    = 76
)

// spec is what a member process is told. It is a member of the groups of its scenes.
type spec struct {
	Name     string
	Start    int // its number among all starts
	Scenes   int // of scenes, the first so many
	History  string
	Dir      string // of the log, and of the registry without a URL
	Log      string // URL; "": the directory
	Registry string // likewise
}

// path is of its history of a scene.
func (s *spec) path(c scene) string {
	return filepath.Join(s.History, fmt.Sprintf("%s-%s-%d.jsonl", c, s.Name, s.Start))
}

func TestMain(m *testing.M) {
	if raw := os.Getenv(specVariable); raw != "" {
		os.Exit(serve(raw))
	}
	goleak.VerifyTestMain(m)
}

// serve is the body of a member process.
func serve(raw string) int {
	var s spec
	if err := json.Unmarshal([]byte(raw), &s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := s.serve(ctx)
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil && transient(err):
		fmt.Fprintln(os.Stderr, "left while the store was away:", err)
		return 0
	case transient(err):
		fmt.Fprintln(os.Stderr, err)
		return exitUnavailable
	case ctx.Err() != nil && errors.Is(err, fault.Fenced):
		return exitReplaced
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func transient(err error) bool {
	return errors.Is(err, fault.Unavailable) || errors.Is(err, fault.Unknown) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// serve works in all scenes, each with a client of its own, until ctx ends or one of them fails.
func (s *spec) serve(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ends := make(chan error, s.Scenes)
	for _, c := range scenes[:s.Scenes] {
		go func() { // joined below
			defer stop()
			ends <- s.play(ctx, c)
		}()
	}
	first := <-ends // the others may fail because of it
	for range s.Scenes - 1 {
		<-ends
	}
	return first
}

// play makes the topic, as many others may at the same time, and consumes it.
func (s *spec) play(ctx context.Context, c scene) error {
	log := slog.New(&pauses{Handler: slog.NewTextHandler(os.Stderr, nil).WithAttrs([]slog.Attr{slog.String("scene", c.String())}), path: s.path(c) + pausesSuffix})
	client, err := s.open(ctx, c, log)
	if err != nil {
		return err
	}
	if err := client.EnsureTopic(ctx, topic, topicConfig); err != nil {
		return errors.Join(err, client.Close())
	}
	return harness.ServeProcess(ctx, harness.MemberConfig{ // closes what is below the client
		Name: s.Name, Topic: topic, Group: c.group, TTL: ttl, Work: work, Logger: log, Log: client.Log(), Store: client.Registry(), Namespace: c.namespace,
	}, s.path(c))
}

func (s *spec) open(ctx context.Context, c scene, log *slog.Logger) (*ringfence.Client, error) {
	return ringfence.Open(ctx, ringfence.Config{Dir: s.Dir, Log: s.Log, Registry: s.Registry, Namespace: c.namespace, Logger: log, Backends: backends.All()})
}

// process is a member.
type process struct {
	spec
	*harness.Process
}

func start(s spec) (*process, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	p, err := harness.Start(s.Name, os.Args[0], nil, []string{specVariable + "=" + string(raw)})
	if err != nil {
		return nil, err
	}
	return &process{s, p}, nil
}

// wait returns how it ended. An end by SIGKILL is no error, and one because its store was away while
// it started is transient.
func (p *process) wait() (unavailable bool, err error) {
	err = p.Wait()
	switch code := p.ExitCode(); {
	case err != nil && code == exitUnavailable:
		return true, nil
	case err != nil && p.WasAsked() && (code == exitReplaced || code == -1):
		return false, nil // -1: before it listened for the signal
	}
	return false, err
}

// leftInOrder says whether it ended as it was asked to; it has ended.
func (p *process) leftInOrder() bool { return p.WasAsked() && !p.WasKilled() && p.ExitCode() == 0 }
