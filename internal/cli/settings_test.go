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

func TestConfigFileOfHelpAndGuideIsAccepted(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/guide/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	_, help, _ := strings.Cut(newApp(strings.NewReader(""), io.Discard, io.Discard).configTopic().Long, "reported at once:\n")
	_, rest, _ := strings.Cut(string(guide), "```yaml\n")
	shown, _, _ := strings.Cut(rest, "```")
	for _, example := range []string{help, shown} {
		if !strings.Contains(example, "concurrency: ") {
			t.Fatalf("found no example, but %q", example)
		}
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(example), 0o600); err != nil {
			t.Fatal(err)
		}
		code, _, stderr := runLine(t, "topic", "list", "--config", path, "--data", filepath.Join(t.TempDir(), "none"))
		if code != 3 || !strings.Contains(stderr, "no Ringfence data") {
			t.Errorf("exit code %d and %q; expected only that the directory is missing", code, stderr)
		}
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
