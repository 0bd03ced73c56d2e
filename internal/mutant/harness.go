package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"
)

// mutant is one deliberate bug.
type mutant struct {
	name   string
	breaks string // what is wrong with it, for people
	file   string // below the module's directory
	find   string // occurs exactly once in file …
	put    string // … and is replaced by this
	pkg    string // with the test that catches it
	test   string // regular expression of the test's name
	server string // that the test needs; else none
}

// outcome is what came of a test run.
type outcome string

const (
	passed outcome = "passed"
	failed outcome = "failed"
	broken outcome = "did not compile"
	absent outcome = "does not exist"
)

type verdict struct {
	outcome outcome
	output  string
	took    time.Duration
	again   string // " the second time", when the first try came to something else
}

// harness runs tests with a changed file.
type harness struct {
	root string // of the module
	dir  string // for its own files
	env  []string
}

// mutate returns the content of the mutant's file with the bug in it.
func (h harness) mutate(m mutant) ([]byte, error) {
	src, err := os.ReadFile(filepath.Join(h.root, m.file))
	if err != nil {
		return nil, fmt.Errorf("mutant %q: %w", m.name, err)
	}
	if n := bytes.Count(src, []byte(m.find)); n != 1 {
		return nil, fmt.Errorf("mutant %q: %s contains %d times, not once, the text:\n%s\nadapt internal/mutant to the new code", m.name, m.file, n, m.find)
	}
	return bytes.Replace(src, []byte(m.find), []byte(m.put), 1), nil
}

// overlay writes the changed file and returns the compiler's overlay file for it.
func (h harness) overlay(m mutant) (string, error) {
	src, err := h.mutate(m)
	if err != nil {
		return "", err
	}
	original, err := filepath.Abs(filepath.Join(h.root, m.file))
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(h.dir, "overlay")
	if err != nil {
		return "", err
	}
	changed, list := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	doc, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	if err != nil {
		return "", err
	}
	return list, errors.Join(os.WriteFile(changed, src, 0o600), os.WriteFile(list, doc, 0o600))
}

// expect runs the mutant's test within the limit, once more when it does not come to what is expected: some tests
// look for a bug at places that they choose at random, and some depend on a server.
func (h harness) expect(ctx context.Context, m mutant, overlay string, limit time.Duration, want outcome) (verdict, error) {
	v, err := h.test(ctx, m, overlay, limit)
	if err != nil || v.outcome == want || v.outcome == broken || v.outcome == absent {
		return v, err
	}
	v, err = h.test(ctx, m, overlay, limit)
	v.again = " the second time"
	return v, err
}

// test runs the mutant's test, with the overlay if there is one. Vet has seen the code without the bug.
func (h harness) test(ctx context.Context, m mutant, overlay string, limit time.Duration) (verdict, error) {
	args := []string{"test", "-count=1", "-vet=off", "-run=" + m.test, "-timeout=" + limit.String()}
	if overlay != "" {
		args = append(args, "-overlay="+overlay)
	}
	dir, pkg := h.module(m.pkg)
	args = append(args, pkg)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), h.env...)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	v := verdict{output: tail(string(out)), took: time.Since(began)}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return v, ctx.Err()
	case err == nil && bytes.Contains(out, []byte("no tests to run")):
		v.outcome = absent
	case err == nil:
		v.outcome = passed
	case !errors.As(err, &exit):
		return v, fmt.Errorf("go test: %w", err)
	case bytes.Contains(out, []byte("[build failed]")), bytes.Contains(out, []byte("[setup failed]")):
		v.outcome = broken
	default:
		v.outcome = failed
	}
	return v, nil
}

// Without the bug nothing waits for ever: a test that starts servers on a busy machine is slow, and no more.
const soundLimit = 10 * time.Minute

// patience is the limit of a test with the bug, whose failure may be that it waits for ever: some times of
// what it took without the bug, on the machine as it is.
func patience(sound verdict) time.Duration {
	took := sound.took
	if ok := testTime.FindStringSubmatch(sound.output); ok != nil { // without what building took
		if d, err := time.ParseDuration(ok[1]); err == nil {
			took = d
		}
	}
	return (10*time.Second + 4*took).Round(time.Second)
}

// testTime finds in the output of go test how long a package's tests took.
var testTime = regexp.MustCompile(`(?m)^ok\s+\S+\s+([0-9.]+s)$`)

// module is the folder of the module that a package belongs to, and the package as seen from there.
func (h harness) module(pkg string) (dir, from string) {
	for dir = filepath.FromSlash(pkg); dir != "."; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(h.root, dir, "go.mod")); err == nil {
			break
		}
	}
	rel, err := filepath.Rel(dir, filepath.FromSlash(pkg))
	if err != nil {
		rel = pkg
	}
	return filepath.Join(h.root, dir), "./" + filepath.ToSlash(rel)
}

// tail is the end of a long output.
func tail(s string) string {
	const most = 2000
	if len(s) > most {
		return "…" + s[len(s)-most:]
	}
	return s
}
