package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/fault"
)

// On a terminal discard asks, unless there is nothing to discard; without one it never does.
func TestDiscardAsksOnATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	giveUp(t, dir)
	discard := func(answer string, flags ...string) (int, string) {
		t.Helper()
		screen, program := openTerminal(t)
		if _, err := io.WriteString(screen, answer+"\n"); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		code := newApp(program, &out, program).run(t.Context(), append([]string{"subscription", "dead-letters", "discard", "s", "--data", dir}, flags...))
		_, _ = program.Close(), screen.Close()
		return code, out.String()
	}
	if code, out := discard("n", "--all"); code != fault.ExitCode(fault.NotDone) || out != "" {
		t.Errorf("after no: exit code %d, %q", code, out)
	}
	if code, out := discard("n", "--all", "--dry-run"); code != 0 || !strings.Contains(out, "2 records, if it were not a dry run") {
		t.Errorf("a dry run: exit code %d, %q", code, out)
	}
	for _, only := range [][]string{{"--key", "k"}, {"--all"}} { // what was asked about, and then what is left
		if code, out := discard("y", only...); code != 0 || !strings.HasPrefix(out, "discard: 1 record") {
			t.Errorf("after yes to %q: exit code %d, %q", only, code, out)
		}
	}
	if code, out := discard("n", "--all"); code != 0 || out != "discard: 0 records\n" {
		t.Errorf("when there is nothing: exit code %d, %q", code, out)
	}
	giveUp(t, dir)
	if code, out := discard("n", "--all", "--yes"); code != 0 || !strings.Contains(out, "discard: ") {
		t.Errorf("with --yes: exit code %d, %q", code, out)
	}
}

// giveUp leaves dead letters of keys k and l in subscription s.
func giveUp(t *testing.T, dir string) {
	t.Helper()
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rf.Close() }()
	if err := rf.EnsureTopic(t.Context(), "t", ringfence.TopicConfig{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := rf.Admin().CreateSubscription(t.Context(), "s", admin.SubscriptionConfig{Topic: "t", DeadLetters: api.SkipRecord}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"k", "l"} {
		if _, err := rf.Produce(t.Context(), "t", ringfence.Message{Key: []byte(key), Value: []byte("v")}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	over := make(chan error, 1)
	refuse := func(context.Context, *ringfence.Message) error { return ringfence.Permanent(errors.New("no")) }
	go func() { over <- rf.Subscribe(ctx, "s", refuse, nil) }() // joined below
	for {
		list, err := rf.Admin().ListDeadLetters(t.Context(), "s", nil)
		if err != nil {
			t.Fatal(err)
		}
		open := 0
		for i := range list {
			if list[i].Status == "failed" || list[i].Status == "" {
				open++
			}
		}
		if open > 1 {
			break
		}
	}
	stop()
	if err := <-over; err != nil {
		t.Fatal(err)
	}
}
