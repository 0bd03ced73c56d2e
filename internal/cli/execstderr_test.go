package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What a command writes to stderr may quote a record: a terminal gets it line by line, and obeys none of it; a
// file gets it as it is.
func TestExecStderrShowsSequencesOfCommands(t *testing.T) {
	t.Parallel()
	const said = "before\x1b]0;title\x07 after\n"
	dir := t.TempDir()
	plant(t, dir)
	run := func(to *os.File, group string) {
		t.Helper()
		a := newApp(strings.NewReader(""), to, to)
		a.environ = os.Environ()
		if code := a.run(t.Context(), []string{"consume", "t", "--group", group, "--max", "1", "--data", dir, "--exec", `printf 'before\033]0;title\007 after\n' >&2`}); code != 0 {
			t.Fatalf("exit code %d", code)
		}
	}
	program, end := terminal(t)
	run(program, "watched")
	if shown := end(); strings.Contains(shown, "\x1b]") || !strings.Contains(shown, `before\u001b]0;title\u0007 after`) {
		t.Errorf("the terminal got %q", shown)
	}
	path := filepath.Join(t.TempDir(), "errors")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	run(file, "kept")
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !strings.Contains(string(got), said) {
		t.Errorf("the file got %q, %v", got, err)
	}
}

func TestExecStderrKeepsLinesWhole(t *testing.T) {
	t.Parallel()
	var to strings.Builder
	s := &shownLines{to: &to}
	for _, part := range []string{"gr\xc3", "\xbc", "n\nre", "st", "\n"} {
		if n, err := s.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
		if got := to.String(); got != "" && !strings.HasSuffix(got, "\n") {
			t.Fatalf("part of a line is shown: %q", got)
		}
	}
	if got := to.String(); got != "gr\u00fcn\nrest\n" {
		t.Errorf("%q", got)
	}
	_, _ = s.Write([]byte(strings.Repeat("x", maxShownLine+1)))
	if len(s.rest) != 0 {
		t.Errorf("%d bytes of a line without end are kept", len(s.rest))
	}
}

// What a command leaves running has its stderr, of a terminal too: the command has ended all the same. What it says
// without a newline is shown.
func TestExecStderrEndsBeforeWhatACommandLeavesRunning(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plant(t, dir)
	program, end := terminal(t)
	a := newApp(strings.NewReader(""), program, program)
	a.environ = os.Environ()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	code := a.run(ctx, []string{"consume", "t", "--group", "parting", "--max", "1", "--data", dir, "--exec", "sleep 20 >/dev/null & printf 'the last word' >&2"})
	if shown := end(); code != 0 || !strings.HasSuffix(shown, "the last word\r\n") || strings.Contains(shown, "failed") {
		t.Errorf("exit code %d, and the terminal got %q", code, shown)
	}
}
