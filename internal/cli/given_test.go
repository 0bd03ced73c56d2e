package cli

import (
	"context"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringfence/ringfence"
)

// A variable of a shell that is not set must not lead to another store, to an endpoint that gets no signature,
// or to any other default.
func TestEmptyFlagIsRefused(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "none")
	tried := 0
	everyCommand(t, func(path string, cmd *cobra.Command) {
		if !needsStores(cmd) || path == "config" {
			return
		}
		line, _, _ := called(t, path, data)
		flags := cmd.LocalFlags()
		flags.AddFlag(cmd.Root().PersistentFlags().Lookup("registry"))
		flags.VisitAll(func(f *pflag.Flag) {
			if !strings.HasPrefix(f.Value.Type(), "string") || slices.Contains(mayBeEmpty, f.Name) {
				return
			}
			tried++
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // it would do what it is for
			defer cancel()
			var stdout, stderr strings.Builder
			code := newApp(strings.NewReader(""), &stdout, &stderr).run(ctx, append(slices.Clip(line), "--"+f.Name+"="))
			if code != 2 || stdout.String() != "" || !strings.Contains(stderr.String(), f.Name) || !strings.Contains(stderr.String(), "expected") {
				t.Errorf("%s --%s=: exit code %d, %q, %q; expected 2, and what was expected of the flag", path, f.Name, code, &stdout, &stderr)
			}
		})
	})
	if tried < 50 {
		t.Errorf("%d flags were tried", tried)
	}
}

// The URL of an endpoint may hold a secret, which only its delivery needs.
func TestNoCommandShowsTheSecretOfAnEndpoint(t *testing.T) {
	t.Parallel()
	data := withSamples(t)
	was := stored(t, data, "subscriptions/billing", nil)
	now := strings.Replace(was, `"retry":`, `"endpoint":{"url":"http://127.0.0.1:1/in?token=hush"},"retry":`, 1)
	if now == was {
		t.Fatalf("it stays %s", was)
	}
	stored(t, data, "subscriptions/billing", &now)
	shown := 0
	everyCommand(t, func(path string, _ *cobra.Command) {
		line, _, ok := called(t, path, data)
		if !ok || path == "subscription create" || slices.Contains(atTheEnd, path) || path == "serve" {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var stdout, stderr strings.Builder
		newApp(strings.NewReader(""), &stdout, &stderr).run(ctx, append(slices.Clip(line), "--format", "json"))
		if strings.Contains(stdout.String()+stderr.String(), "hush") {
			t.Errorf("%s shows it: %s%s", path, &stdout, &stderr)
		}
		if strings.Contains(stdout.String(), "127.0.0.1:1/in") {
			shown++
		}
	})
	if shown < 5 {
		t.Errorf("%d commands showed the endpoint", shown)
	}
}

// The command of one record may be a ringfence that runs a command for each of its own.
func TestExecGivesNoKeyOfAnotherRecord(t *testing.T) {
	t.Parallel()
	environ := []string{"RINGFENCE_RECORD_KEY=stale", "RINGFENCE_RECORD_KEYS=other", "PATH=/bin"}
	var out strings.Builder
	a := newApp(strings.NewReader(""), &out, io.Discard)
	a.environ = environ
	t.Cleanup(func() {
		if err := a.children.Release(); err != nil {
			t.Error(err)
		}
	})
	h, done := a.processor(&consumeFlags{exec: "echo [$RINGFENCE_RECORD_KEY]"}, func(error) {})
	defer done()
	if err := h(t.Context(), &ringfence.Message{Value: []byte("v")}); err != nil || out.String() != "[]\n" {
		t.Errorf("a command got %q: %v", &out, err)
	}
	if got := without(environ, []string{"RINGFENCE_RECORD_KEY"}); !slices.Equal(got, []string{"RINGFENCE_RECORD_KEYS=other", "PATH=/bin"}) {
		t.Errorf("a command gets %q", got)
	}
}

func TestSubscriptionsAreNamed(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	subscriptionOf(t, data)
	for line, want := range map[string]string{
		"subscription describe":             "billing\nmailing\n:4\n",
		"subscription dead-letters redrive": "billing\nmailing\n:4\n",
		"subscription why billing":          ":4\n",
	} {
		_, stdout, _ := runLine(t, append(append([]string{"__complete"}, strings.Fields(line+" --data "+data)...), "")...)
		if !strings.HasPrefix(stdout, want) {
			t.Errorf("%s: %q; expected %q", line, stdout, want)
		}
	}
	if _, stdout, _ := runLine(t, "subscription", "describe", "billing", "--data", data); !strings.Contains(stdout, "it was never delivered: start ringfence subscription run billing --exec COMMAND\n") {
		t.Errorf("the command that delivers it is not named: %q", stdout)
	}
	_, _, stderr := runLine(t, "subscription", "create", strings.Repeat("a", 300), "--topic", "orders", "--data", data)
	if !strings.Contains(stderr, "expected 1 to 64 letters") || strings.Contains(stderr, "mistakes") {
		t.Errorf("got %q", stderr)
	}
	for line, want := range map[string]string{
		"topic create":                       "expected 1 to 128",
		"subscription create --topic orders": "expected 1 to 64 letters",
		"subscription describe":              "expected 1 to 64 letters",
		"group describe":                     "expected 1 to 128 letters",
	} {
		code, _, stderr := runLine(t, append(strings.Fields(line+" --data "+data), "")...)
		if code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s \"\": %d, %q; expected 2 and %q", line, code, stderr, want)
		}
	}
	_, _, stderr = runLine(t, "subscription", "describe", "biling", "--data", data)
	if !strings.Contains(stderr, `"ringfence subscription list" shows those that are there`) {
		t.Errorf("got %q", stderr)
	}
}
