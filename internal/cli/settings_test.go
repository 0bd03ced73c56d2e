package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/limits"
	"github.com/ringfence/ringfence/internal/testserver"
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

func TestTheConfigurationFileOfTheHelpIsAccepted(t *testing.T) {
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

func TestAConfigurationFileWithAPasswordIsForItsOwnerAlone(t *testing.T) {
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
		if refused := strings.Contains(stderr, "other users can read it (mode 0604"); refused != c.refused || strings.Contains(stderr, "s3cret") {
			t.Errorf("%s in a file of mode %o: %q", c.registry, c.mode, stderr)
		}
	}
}

// What stands in the file is done, a command of --exec for example. Another owner is told, as containers
// are given files of others every day.
func TestAConfigurationFileThatOthersCanWriteIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.yaml")
	data := filepath.Join(t.TempDir(), "none")
	if err := os.WriteFile(path, []byte("format: text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	try := func(args ...string) string {
		t.Helper()
		_, _, stderr := runLine(t, append([]string{"topic", "list", "--config", path, "--data", data}, args...)...)
		return stderr
	}
	for mode, says := range map[os.FileMode]string{0o644: "no Ringfence data", 0o602: "run chmod go-w " + path} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if got := try(); !strings.Contains(got, says) {
			t.Errorf("mode %o: %q does not say %q", mode, got, says)
		}
		if got := try("--allow-shared"); !strings.Contains(got, "no Ringfence data") || strings.Contains(got, path) {
			t.Errorf("mode %o, which is allowed: %q", mode, got)
		}
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	testserver.Share(t, path)
	if got := try(); !strings.Contains(got, "(mode 0770+)") || !strings.Contains(got, "run chmod go-w "+path) {
		t.Errorf("a file with a list of rights: %q", got)
	}
	stranger := testserver.Stranger(t)
	if err := os.Chmod(path, 0o660); err != nil { // of root, and of its group
		t.Fatal(err)
	}
	if got := try(); !strings.Contains(got, "run chmod go-w "+path) {
		t.Errorf("a file that root's group can write: %q", got)
	}
	if err := errors.Join(os.Chmod(path, 0o644), os.Chown(path, stranger, -1)); err != nil {
		t.Fatal(err)
	}
	if got := try(); !strings.Contains(got, "no Ringfence data") || strings.Count(got, "owner=\"nobody") != 1 {
		t.Errorf("a file of another user: %q; expected that it is used, and that its owner is named", got)
	}
	if got := try("--allow-shared"); strings.Contains(got, "nobody") {
		t.Errorf("a file of another user, which is allowed: %q", got)
	}
	if err := os.Chmod(path, 0o664); err != nil {
		t.Fatal(err)
	}
	if got := try(); !strings.Contains(got, "run chmod go-w "+path) {
		t.Errorf("a file of another user that its group can write: %q", got)
	}
}

// A log and a registry in one directory both look at what is above it.
func TestADirectoryAboveOfAnotherUserIsToldOnce(t *testing.T) {
	t.Parallel()
	stranger := testserver.Stranger(t)
	above := t.TempDir()
	data := filepath.Join(above, "data")
	if err := os.Chown(above, stranger, -1); err != nil {
		t.Fatal(err)
	}
	create := []string{"topic", "create", "t", "--data", data}
	if code, _, stderr := runLine(t, create...); code != 0 || strings.Count(stderr, "above="+above) != 1 || !strings.Contains(stderr, "chown 0 "+above) {
		t.Errorf("exit code %d and %q; expected one warning that names %s", code, stderr, above)
	}
	if code, _, stderr := runLine(t, append(create, "--allow-shared")...); code != 0 || stderr != "" {
		t.Errorf("exit code %d and %q; expected no word of what is allowed", code, stderr)
	}
}

func TestAConfigurationFileWithoutAnEndIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, limits.SettingsFileBytes+1)); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := runLine(t, "topic", "list", "--config", path); code != 2 || !strings.Contains(stderr, path+" is longer than") {
		t.Errorf("exit code %d and %q", code, stderr)
	}
}

func TestTheConfigurationFileOfTheGuideIsAccepted(t *testing.T) {
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
