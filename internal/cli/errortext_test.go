package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A line of a message is one of ours: what a path or a server says makes none.
func TestOnlyWhatWasJoinedIsALine(t *testing.T) {
	t.Parallel()
	one, two := errors.New("one"), fmt.Errorf("two\n  - three: %w", &fs.PathError{Op: "open", Path: "a\nb", Err: fs.ErrNotExist})
	const twoShown = `two\n  - three: open a\nb: file does not exist`
	a := newApp(nil, io.Discard, io.Discard)
	for _, c := range []struct {
		err   error
		lines []string
	}{
		{one, []string{"one"}},
		{two, []string{twoShown}},
		{errors.Join(two), []string{twoShown}},
		{errors.Join(one, two), []string{"one", twoShown}},
		{errors.Join(one, errors.Join(two, one)), []string{"one", twoShown, "one"}},
		{fmt.Errorf("x\ny: %w, and so on", errors.Join(one, two)), []string{`x\ny: one`, twoShown + ", and so on"}},
		{fmt.Errorf("%w: %w", two, one), []string{twoShown + ": one"}},
		{fmt.Errorf("%w%w", one, one), []string{"oneone"}},
		{errors.New("a\n\nb"), []string{`a\n\nb`}},
		{errors.New(""), []string{""}},
	} {
		if got := a.faults(c.err); !slices.Equal(got, c.lines) {
			t.Errorf("%q:\n%q; expected\n%q", c.err, got, c.lines)
		}
	}
	for _, args := range [][]string{
		{"topic", "list", "--data", filepath.Join(t.TempDir(), "x\n  - FAKE")},
		{"topic", "list", "--config", filepath.Join(t.TempDir(), "x\n  - FAKE")},
		{"topic", "list", "--format", "x\n  - FAKE", "--log-level", "x\n  - FAKE"},
		{"topic", "list", "--x\n  - FAKE"},
		{"topic", "x\n  - FAKE"},
		{"x\n  - FAKE"},
		{"produce", "x\n  - FAKE", "--data", t.TempDir()},
		{"bench", "all", "--dir", filepath.Join(t.TempDir(), "x\n  - FAKE", "y")},
	} {
		if code, _, stderr := runLine(t, args...); code == 0 || strings.Contains(stderr, "\n  - FAKE") {
			t.Errorf("%q: exit code %d and\n%s", args, code, stderr)
		}
	}
}
