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
