package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/limits"
)

// runLine runs one command line in this process.
func runLine(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	a := newApp(strings.NewReader(""), &out, &errs)
	code = a.run(t.Context(), args)
	return code, out.String(), errs.String()
}

// exampleOf is the indented block that ends a help text.
func exampleOf(help string) string {
	var lines []string
	for line := range strings.Lines(help) {
		if !strings.HasPrefix(line, "  ") {
			lines = nil // an earlier block
			continue
		}
		lines = append(lines, strings.TrimPrefix(line, "  "))
	}
	return strings.Join(lines, "")
}

func TestConfigFileOfTheHelpIsAccepted(t *testing.T) {
	t.Parallel()
	a := newApp(strings.NewReader(""), io.Discard, io.Discard)
	path := filepath.Join(t.TempDir(), "config.yaml")
	example := exampleOf(a.configTopic().Long)
	if !strings.Contains(example, "concurrency: 32") {
		t.Fatalf("found no example in the help, but %q", example)
	}
	if err := os.WriteFile(path, []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(t.TempDir(), "none")
	code, _, stderr := runLine(t, "topic", "list", "--config", path, "--data", data)
	if code != 3 || !strings.Contains(stderr, "no Ringfence data") {
		t.Errorf("exit code %d and %q; expected only that %s is missing", code, stderr, data)
	}
}

func TestConfigFileWithAPasswordIsPrivate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.yaml")
	data := filepath.Join(t.TempDir(), "none")
	for _, c := range []struct {
		registry string
		mode     os.FileMode
		refused  bool
	}{
		{"postgres://rf:s3cret@db/rf", 0o604, true},
		{"postgres://rf:s3cret@db/rf", 0o600, false},
		{"postgres://rf@db/rf", 0o644, false},
	} {
		text := "bench:\n  registry:\n    processes: 1\nregistry: " + c.registry + "\n"
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, c.mode)); err != nil {
			t.Fatal(err)
		}
		_, _, stderr := runLine(t, "topic", "list", "--config", path, "--data", data, "--registry", "file:"+data)
		if refused := strings.Contains(stderr, "(mode 0604"); refused != c.refused || strings.Contains(stderr, "s3cret") {
			t.Errorf("%s in a file of mode %o: %q", c.registry, c.mode, stderr)
		}
	}
}

func TestConfigFileWithoutAnEndIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, limits.SettingsFileBytes+1)); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := runLine(t, "topic", "list", "--config", path); code != 2 || !strings.Contains(stderr, path+" is longer than") {
		t.Errorf("exit code %d and %q", code, stderr)
	}
}

func TestConfigFileOfTheGuideIsAccepted(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/guide/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(guide), "```yaml\n")
	example, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("found no YAML in docs/guide/cli.md")
	}
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := runLine(t, "topic", "list", "--config", path, "--data", filepath.Join(t.TempDir(), "none"))
	if code != 3 {
		t.Errorf("exit code %d and %q; expected only that the directory is missing", code, stderr)
	}
}
