package cli

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// fails is a standard output that takes nothing.
type fails struct{ err error }

func (f fails) Write([]byte) (int, error) { return 0, f.err }

func TestWhatCouldNotBePrintedIsAFailure(t *testing.T) {
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

func TestFlagsThatBelongTogetherAreToldInOurWords(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	for line, want := range map[string]string{
		"topic alter x":                                  "nothing to do: expected --retention-bytes, --retention-age or --retention-force",
		"produce x --key a --key-sep :":                  "--key and --key-sep: expected one of them",
		"topic mirror a b c --once --cut-over":           "--once and --cut-over: expected one of them",
		"topic mirror a b c --once --cut-over --abandon": "--once, --cut-over and --abandon: expected one of them",
	} {
		code, _, stderr := runLine(t, append(strings.Fields(line), "--data", data)...)
		if code != 2 || !strings.Contains(stderr, want) || strings.Contains(stderr, "group") {
			t.Errorf("%s: exit code %d, %q; expected %q", line, code, stderr, want)
		}
	}
	a := newApp(strings.NewReader(""), fails{errors.ErrUnsupported}, fails{errors.ErrUnsupported})
	var look func(*cobra.Command)
	look = func(c *cobra.Command) {
		marked := false
		c.Flags().VisitAll(func(f *pflag.Flag) {
			for kind := range f.Annotations {
				marked = marked || strings.HasPrefix(kind, "cobra_annotation_") && kind != cobra.BashCompOneRequiredFlag
			}
		})
		if marked != (len(a.groups[c]) > 0) {
			t.Errorf("%s has flags that belong together, and not by oneOf or onlyOneOf", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			look(sub)
		}
	}
	look(a.rootCommand())
}
