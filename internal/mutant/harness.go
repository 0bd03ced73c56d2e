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
	"strings"
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

// expect runs a test, and once more when it does not come to what is expected: some tests look for a bug at places
// that they choose at random, and some depend on a server.
func expect(want outcome, test func() (verdict, error)) (verdict, error) {
	v, err := test()
	if err != nil || v.outcome == want || v.outcome == broken || v.outcome == absent {
		return v, err
	}
	v, err = test()
	v.again = " the second time"
	return v, err
}

// buggy builds and runs the mutant's test with its overlay. Vet has seen the code without the bug.
func (h harness) buggy(ctx context.Context, m mutant, overlay string, limit time.Duration) (verdict, error) {
	dir, pkg := h.module(m.pkg)
	return h.run(ctx, dir, "go", "test", "-count=1", "-vet=off", "-run="+m.test, "-timeout="+limit.String(), "-overlay="+overlay, pkg)
}

// build makes the test binary of a package as it is; empty: it does not compile, or has no tests.
func (h harness) build(ctx context.Context, pkg string) (binary string, _ verdict, err error) {
	dir, from := h.module(pkg)
	binary, err = filepath.Abs(filepath.Join(h.dir, strings.ReplaceAll(pkg, "/", "-")+".test"))
	if err != nil {
		return "", verdict{}, err
	}
	v, err := h.run(ctx, dir, "go", "test", "-c", "-vet=off", "-o", binary, from)
	if err != nil {
		return "", v, err
	}
	if _, err := os.Stat(binary); err != nil {
		binary = ""
		if v.outcome == passed {
			v.outcome = absent
		}
	}
	return binary, v, nil
}

// sound runs the mutant's test in the test binary of its package, as go test does.
func (h harness) sound(ctx context.Context, m mutant, binary string) (verdict, error) {
	return h.run(ctx, filepath.Join(h.root, filepath.FromSlash(m.pkg)), binary, "-test.paniconexit0", "-test.run="+m.test, "-test.timeout="+soundLimit.String())
}

// run is what came of a command.
func (h harness) run(ctx context.Context, dir, name string, args ...string) (verdict, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), h.env...)
	cmd.WaitDelay = time.Minute // as go test waits for what a test has started and left
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
	case !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay):
		return v, fmt.Errorf("%s: %w", filepath.Base(name), err)
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
	return (10*time.Second + 4*sound.took).Round(time.Second)
}

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
