package verify

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/history"
)

// staged is a small demo in processes of this binary; what it tells goes to story.
func staged(t *testing.T, story *strings.Builder) DemoConfig {
	t.Helper()
	dir := t.TempDir()
	return DemoConfig{
		Partitions: 5, Consumers: 3, Messages: 600, Out: story,
		Site: Site{Client: ringfence.Config{Dir: dir}, Dir: t.TempDir(), Command: func(s Spec) (string, []string, []string) {
			raw, err := json.Marshal(s)
			if err != nil {
				t.Error(err)
			}
			return os.Args[0], nil, []string{specVariable + "=" + string(raw), dirVariable + "=" + dir}
		}},
	}
}

func TestDemoKeepsEveryPromise(t *testing.T) {
	t.Parallel()
	var story strings.Builder
	r, err := Demo(t.Context(), staged(t, &story))
	if err != nil {
		t.Fatalf("%v\n%s", err, &story)
	}
	if r.Produced != 600 || r.Delivered != 600 || r.Lost != 0 || r.Reordered != 0 || r.StaleCommits == 0 || r.StaleRefused != r.StaleCommits {
		t.Errorf("%+v", r)
	}
	for _, scene := range []string{"kill -9 A (pid ", "A comes back", "SIGSTOP C (pid ", "ok   0 lost"} {
		if !strings.Contains(story.String(), scene) {
			t.Errorf("the story does not tell %q:\n%s", scene, &story)
		}
	}
}

func TestDemoMovesNothingToAConsumerWithoutWork(t *testing.T) {
	t.Parallel()
	var story strings.Builder
	c := staged(t, &story)
	c.Partitions, c.Consumers, c.Messages = 2, 3, 1000 // enough that it is stopped in the middle of work
	r, err := Demo(t.Context(), c)
	if err != nil || r.MovedOnReturn != 0 {
		t.Fatalf("%v %+v\n%s", err, r, &story)
	}
}

func TestDemoThatIsInterruptedLeavesNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c := staged(t, nil)
	c.Partitions, c.Consumers, c.Messages = 2, 2, 200
	c.Out = writerFunc(func(p []byte) (int, error) {
		if strings.Contains(string(p), "comes back") {
			cancel()
		}
		return len(p), nil
	})
	_, ended := Demo(ctx, c)
	if !errors.Is(ended, context.Canceled) {
		t.Errorf("error %v; expected that it was cancelled", ended)
	}
	rf, err := ringfence.Open(t.Context(), c.Client)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rf.Close() }()
	if topics, err := rf.Admin().ListTopics(t.Context()); err != nil || len(topics) > 0 {
		t.Errorf("%v: %v are left, after %v", err, topics, ended)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestDemoRefusesWrongNumbers(t *testing.T) {
	t.Parallel()
	_, err := Demo(t.Context(), DemoConfig{Consumers: 1, Messages: 1})
	for _, what := range []string{"--partitions 0", "--consumers 1", "--messages 1"} {
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), what) {
			t.Errorf("error %v does not say %q", err, what)
		}
	}
}

// A demo must show that stale commits are refused: without any, or with an accepted one, a promise is broken.
func TestDemoWantsToSeeStaleCommitsRefused(t *testing.T) {
	t.Parallel()
	for _, r := range []DemoResult{{}, {StaleCommits: 2, StaleRefused: 1}} {
		d := groupDemo{result: r}
		st := &stage{screen: screen{began: time.Now()}}
		if d.verdict(st, &history.Report{}); len(st.outcome.Broken) != 1 {
			t.Errorf("%d of %d stale commits refused: %q; expected a broken promise", r.StaleRefused, r.StaleCommits, st.outcome.Broken)
		}
	}
}
