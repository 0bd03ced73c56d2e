package harness

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
)

// echoJob says what it was given, and then all that it hears.
type echoJob struct {
	Given string
	kept  string // does not go to the child
}

func (j *echoJob) Run(_ context.Context, t *Talk) error {
	if err := errors.Join(t.Ready(), t.Say(j.Given+j.kept)); err != nil {
		return err
	}
	for line, ok := t.Hear(); ok; line, ok = t.Hear() {
		if err := t.Say(line); err != nil {
			return err
		}
	}
	return nil
}

func startEcho(ctx context.Context, t *testing.T) *Child {
	t.Helper()
	c, err := StartChild(ctx, []string{os.Args[0], "job"}, nil, &echoJob{Given: "given, ", kept: "lost"})
	must(t, err)
	t.Cleanup(c.End)
	return c
}

func hears(t *testing.T, c *Child, want string) {
	t.Helper()
	var got string
	if err := c.Hear(&got); err != nil || got != want {
		t.Fatalf("it said %q, %v; expected %q", got, err, want)
	}
}

func TestChildEndsWhenItsStarterIsGone(t *testing.T) {
	t.Parallel()
	c := startEcho(t.Context(), t)
	must(t, errors.Join(c.Hear(&struct{}{}), c.Tell("go")))
	hears(t, c, "given, kept")
	must(t, c.Tell("a line"))
	hears(t, c, "a line")
	if err := c.Finish(); err != nil || c.ExitCode() != 0 {
		t.Errorf("%v, exit code %d", err, c.ExitCode())
	}
}

func TestChildIsKilledWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c := startEcho(ctx, t)
	cancel()
	<-c.Done()
	if err := c.Wait(); err != nil || !c.WasKilled() {
		t.Errorf("%v, killed %t", err, c.WasKilled())
	}
	said := 0
	for v := any(nil); c.Hear(&v) == nil; said++ {
		v = nil
	}
	if said > 1 {
		t.Errorf("it said %d things; it was not told to go on", said)
	}
}

func TestRunJobNamesAnUnknownJob(t *testing.T) {
	t.Parallel()
	err := RunJob(t.Context(), `{"Type":"*bank.robbery","Job":{}}`, strings.NewReader(""), &strings.Builder{}, &echoJob{})
	if err == nil || !strings.Contains(err.Error(), "*bank.robbery") {
		t.Errorf("got %v", err)
	}
	if err := RunJob(t.Context(), "nonsense", strings.NewReader(""), &strings.Builder{}); err == nil {
		t.Error("nonsense is a task")
	}
}
