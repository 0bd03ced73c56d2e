package cli

import (
	"strings"
	"syscall"
	"testing"
)

// fails is a standard output that takes nothing.
type fails struct{ err error }

func (f fails) Write([]byte) (int, error) { return 0, f.err }

func TestLostOutputIsAFailure(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"--help", "topic create --help", "help topic", "--version", "version", "completion bash"} {
		for err, want := range map[error]int{syscall.ENOSPC: 1, syscall.EPIPE: 0} {
			var told strings.Builder
			a := newApp(strings.NewReader(""), fails{err}, &told)
			if code := a.run(t.Context(), strings.Fields(line)); code != want || strings.Count(told.String(), err.Error()) != want {
				t.Errorf("%s into %v: exit code %d and %q; expected %d", line, err, code, &told, want)
			}
		}
	}
}

func TestFlagsThatBelongTogetherAreChecked(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	for line, want := range map[string]string{
		"topic alter x":                        "retention-bytes",
		"subscription limit s":                 "none of --rate, --concurrency is given: expected at least one of them",
		"produce x --key a --key-sep :":        "--key, --key-sep exclude each other: expected one of them",
		"topic mirror a b c --once --cut-over": "--cut-over, --once exclude",
		"demo --deliver --consumers 3":         "--consumers, --deliver exclude",
		"consume t":                            `--group is missing; see "ringfence consume --help"`,
		"subscription create s":                "--topic is missing",
		"consume t --group g --exec-stores":    "--exec-stores needs --exec",
	} {
		code, _, stderr := runLine(t, append(strings.Fields(line), "--data", data)...)
		if code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %q; expected %q", line, code, stderr, want)
		}
	}
}
