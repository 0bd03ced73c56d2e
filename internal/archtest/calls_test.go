package archtest

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// sleepers are the test files that may sleep in real time, each with its reason. Inside of a
// synctest bubble sleeping costs nothing and is always allowed.
var sleepers = map[string]string{
	"commitlog/filelog/bench_test.go":       "a benchmark's set-up gives the background time to prepare segments, as a calm producer does",
	"commitlog/filelog/process_test.go":     "real processes are killed and stopped at random moments, and a random time is the fault",
	"internal/nemesis/fault_test.go":        "for how long a fault lasts, and the calm after it, are random times of real processes",
	"registry/etcdregistry/fault_test.go":   "a real server that is down is asked again now and then",
	"registry/fileregistry/play_test.go":    "the cost of two idle seconds is measured",
	"registry/fileregistry/process_test.go": "a real process is stopped for longer than its TTL",
	"registry/redisregistry/fault_test.go":  "a real network is gone for a while, and who must not be taken for dead gets the time to be",
	"registry/redisregistry/server_test.go": "a real server is away for a while; the cost of four idle seconds is measured",
}

// calls are the selectors of an imported package that a file uses.
func calls(s *source, path string, visit func(sel string, line int)) {
	name, ok := s.imports(path)
	if !ok {
		return
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == name && x.Obj == nil {
				visit(sel.Sel.Name, s.line(sel))
			}
		}
		return true
	})
}

func checkSleep(s *source) []string {
	if _, bubble := s.imports("testing/synctest"); bubble || !s.test() {
		return nil
	}
	var bad []string
	calls(s, "time", func(sel string, line int) {
		if sel == "Sleep" {
			bad = append(bad, fmt.Sprintf("%s:%d sleeps: wait for a condition, or use testing/synctest", s.path, line))
		}
	})
	return bad
}

func TestTestsDoNotSleep(t *testing.T) {
	t.Parallel()
	slept := map[string]bool{}
	for _, s := range sources(t) {
		found := checkSleep(s)
		slept[s.path] = len(found) > 0
		if sleepers[s.path] == "" {
			report(t, found)
		}
	}
	for path := range sleepers {
		if !slept[path] {
			t.Errorf("%s is excepted from the rule against sleeping and does not sleep: drop the exception", path)
		}
	}
}

// harmless are the parts of package os that do not touch files.
var harmless = regexp.MustCompile(`^(O_[A-Z]+|Err[A-Z]\w*|Mode[A-Z]\w*|FileMode|FileInfo|DirEntry|PathError|SyscallError|Getpid|Getpagesize|Hostname|Is(NotExist|Exist|Permission))$`)

// throughVFS are the packages that reach files through internal/vfs only, so that a crash of the
// machine is an ordinary test of theirs.
var throughVFS = []string{"commitlog/filelog/", "registry/fileregistry/", "internal/segment/"}

func checkFileAccess(s *source) []string {
	var bad []string
	calls(s, "os", func(sel string, line int) {
		if !harmless.MatchString(sel) {
			bad = append(bad, fmt.Sprintf("%s:%d uses os.%s: reach files through internal/vfs", s.path, line, sel))
		}
	})
	for _, path := range []string{"syscall", "golang.org/x/sys/unix"} {
		calls(s, path, func(sel string, line int) {
			switch sel {
			case "Open", "Openat", "Pwrite", "Pread", "Fsync", "Fdatasync", "Rename", "Unlink", "Ftruncate", "Fallocate", "Mmap", "Munmap":
				bad = append(bad, fmt.Sprintf("%s:%d uses %s.%s: reach files through internal/vfs", s.path, line, path, sel))
			}
		})
	}
	return bad
}

func TestStoresReachFilesThroughVFS(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		for _, dir := range throughVFS {
			if strings.HasPrefix(s.path, dir) && !s.test() {
				report(t, checkFileAccess(s))
			}
		}
	}
}

// skips are what may stand in a file that skips tests: the variable that turns the skip into a
// failure, or the one that asks for the long form.
var skips = regexp.MustCompile(`RINGFENCE_(REQUIRE|SOAK|SIM)`)

func checkSkip(s *source) []string {
	if !s.test() || skips.Match(s.text) {
		return nil
	}
	var bad []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && (sel.Sel.Name == "Skip" || sel.Sel.Name == "Skipf" || sel.Sel.Name == "SkipNow") {
			if x, ok := sel.X.(*ast.Ident); ok && (x.Name == "t" || x.Name == "b" || x.Name == "tb") {
				bad = append(bad, fmt.Sprintf("%s:%d skips: only a missing server may, and RINGFENCE_REQUIRE must make that a failure", s.path, s.line(sel)))
			}
		}
		return true
	})
	return bad
}

func TestNoSilentSkips(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		report(t, checkSkip(s))
	}
}

func TestCallChecksNoticeWhatIsForbidden(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		check func(*source) []string
		text  string
		bad   bool
	}{
		{checkSleep, `import "time"; func f() { time.Sleep(1) }`, true},
		{checkSleep, `import ("time"; "testing/synctest"); func f() { time.Sleep(1); synctest.Wait() }`, false},
		{checkSleep, `import "time"; func f() { time.Now() }`, false},
		{checkFileAccess, `import "os"; func f() { os.Remove("a") }`, true},
		{checkFileAccess, `import fs "os"; func f() { fs.Remove("a") }`, true},
		{checkFileAccess, `import "os"; func f() int { return os.Getpid() | os.O_RDWR }`, false},
		{checkFileAccess, `import "golang.org/x/sys/unix"; func f() { unix.Fdatasync(1) }`, true},
		{checkFileAccess, `import "golang.org/x/sys/unix"; func f() { unix.Syscall6(1) }`, false},
		{checkSkip, `func f() { t.Skip("later") }`, true},
		{checkSkip, `func f() { if os.Getenv("RINGFENCE_REQUIRE") == "" { t.Skip("no server") } }`, false},
	} {
		if got := c.check(parse(t, "p_test.go", []byte("package p\n"+c.text))); (len(got) > 0) != c.bad {
			t.Errorf("%s: got %v; want a violation: %t", c.text, got, c.bad)
		}
	}
}
