// Command mutants puts known bugs into the code, one at a time, and shows that a named test catches each.
// A bug that no test notices means that the promise it breaks is not tested.
//
//	go run ./test/mutants               all of them
//	go run ./test/mutants -run fence    those whose name matches
//
// The cases stand in cases/*.txtar, at most eighty, one for each promise and mechanism:
//
//	-- commit-without-the-fence --
//	breaks: a replaced owner overwrites the checkpoint of its successor
//	file:   group/protocol/protocol.go
//	after:  func (g *Group) CommitTxn(
//	find:   Key: g.OwnerKey(grant.Unit), Version: grant.Version
//	put:    Key: put.Key, Version: after
//	test:   group/core TestCommitOfAReplacedOwnerIsRefused
//
// find is text of one line; put replaces the first one behind the text of after, or, without after, the
// only one. The compiler reads the changed file through an overlay: the source tree is never touched.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	pattern := flag.String("run", "", "only the cases whose name matches this regular expression")
	parallel := flag.Int("parallel", 2*runtime.GOMAXPROCS(0), "how many cases run at once: many tests wait more than they compute")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, ".", *pattern, *parallel)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root, pattern string, parallel int) (err error) {
	match, err := regexp.Compile(pattern)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	all, err := readCases(filepath.Join(root, "test", "mutants", "cases"))
	if err != nil {
		return err
	}
	var chosen []mutant
	tests := map[string][]string{} // by package
	for _, m := range all {
		if match.MatchString(m.name) {
			chosen = append(chosen, m)
			if !slices.Contains(tests[m.pkg], m.test) {
				tests[m.pkg] = append(tests[m.pkg], m.test)
			}
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no case has a name that matches %q", pattern)
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	// Without a bug the tests pass; each package is built and run once.
	var jobs []func() string
	for pkg, names := range tests {
		jobs = append(jobs, func() string { return sound(ctx, root, pkg, names) })
	}
	if wrong := do(jobs, parallel); len(wrong) > 0 {
		return fmt.Errorf("without a bug:\n%s", strings.Join(wrong, "\n"))
	}
	jobs = nil
	for _, m := range chosen {
		jobs = append(jobs, func() string { return m.try(ctx, root, dir) })
	}
	if wrong := do(jobs, parallel); len(wrong) > 0 {
		return fmt.Errorf("%d of %d bugs were not caught:\n%s", len(wrong), len(chosen), strings.Join(wrong, "\n"))
	}
	fmt.Printf("%d bugs were caught\n", len(chosen))
	return nil
}

// do runs jobs, so many at once, and returns what is wrong by them.
func do(jobs []func() string, parallel int) (wrong []string) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	free := make(chan struct{}, parallel)
	for _, job := range jobs {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			if s := job(); s != "" {
				mu.Lock()
				defer mu.Unlock()
				wrong = append(wrong, s)
			}
		})
	}
	wg.Wait()
	return wrong
}

// sound runs tests of a package as it is; "" means that they are there and pass.
func sound(ctx context.Context, root, pkg string, names []string) string {
	out, err := goTest(ctx, root, pkg, "^("+strings.Join(names, "|")+")$", "-v", "-timeout=5m")
	if err != nil {
		return fmt.Sprintf("%s: %v\n%s", pkg, err, tail(out))
	}
	for _, name := range names {
		top, _, _ := strings.Cut(name, "$/") // of a subtest: Test$/^sub
		if !regexp.MustCompile(`(?m)^--- PASS: (` + top + `) `).Match(out) {
			return fmt.Sprintf("%s has no %s, or skips it", pkg, name)
		}
	}
	return ""
}

// try runs a case; "" means that its bug was caught.
func (m mutant) try(ctx context.Context, root, dir string) string {
	source, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return fmt.Sprintf("%s: %v", m.name, err)
	}
	changed, err := m.apply(string(source))
	if err != nil {
		return err.Error()
	}
	original, err := filepath.Abs(filepath.Join(root, m.file))
	if err != nil {
		return fmt.Sprintf("%s: %v", m.name, err)
	}
	mutated, overlay := filepath.Join(dir, m.name+".go"), filepath.Join(dir, m.name+".json")
	list := fmt.Sprintf(`{"Replace":{%q:%q}}`, original, mutated)
	for path, text := range map[string]string{mutated: changed, overlay: list} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return fmt.Sprintf("%s: %v", m.name, err)
		}
	}
	began := time.Now()
	out, err := goTest(ctx, root, m.pkg, "^"+m.test+"$", "-overlay="+overlay, "-timeout=1m")
	switch {
	case bytes.Contains(out, []byte("[build failed]")):
		return fmt.Sprintf("%s does not compile:\n%s", m.name, tail(out))
	case err == nil:
		return fmt.Sprintf("%s SURVIVED %s of %s: %s", m.name, m.test, m.pkg, m.breaks)
	case !bytes.Contains(out, []byte("FAIL")):
		return fmt.Sprintf("%s: %v\n%s", m.name, err, tail(out))
	}
	fmt.Printf("%-40s caught in %.1f s: %s\n", m.name, time.Since(began).Seconds(), m.breaks)
	return ""
}

// histories is how many a simulation runs: so many show each of the bugs.
const histories = "500"

func goTest(ctx context.Context, root, pkg, test string, flags ...string) ([]byte, error) {
	args := append([]string{"test", "-count=1", "-vet=off", "-tags=grpcnotrace", "-run=" + test}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+pkg)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "RINGFENCE_SIM="+histories)
	cmd.WaitDelay = time.Minute
	return cmd.CombinedOutput()
}

// tail is the end of a long output.
func tail(out []byte) string {
	return string(out[max(0, len(out)-2000):])
}
