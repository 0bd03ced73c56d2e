package archtest

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// sleepers are the functions of tests that may sleep in real time, each with its reason. Inside of
// a synctest bubble sleeping costs nothing and is always allowed.
var sleepers = map[string]string{
	"commitlog/filelog/bench_test.go warm":                                                        "gives the background time to prepare segments, as a calm producer does",
	"commitlog/filelog/process_test.go TestAStoppedProcessDoesNotStopTheOthers":                   "for how long a process runs before it is stopped is random: that is the fault",
	"commitlog/filelog/process_test.go TestKilledProcessesLoseNothingThatWasAcked":                "for how long a process runs before it is killed is random: that is the fault",
	"internal/nemesis/fault_test.go hurt":                                                         "for how long a fault lasts, and the calm after it, are random times of real processes",
	"registry/etcdregistry/fault_test.go eventually":                                              "a real server that is down is asked again now and then",
	"registry/fileregistry/play_test.go playIdle":                                                 "the cost of two idle seconds is measured",
	"registry/fileregistry/process_test.go TestAStoppedProcessAloneRefusesItsOwnWriteAfterTheTTL": "the TTL has to pass for a process that does not run",
	"registry/fileregistry/process_test.go TestThreeProcessesCountEveryIncrement":                 "for how long a process is stopped",
	"registry/redisregistry/fault_test.go TestALostConnectionIsNotTakenForADeath":                 "who must not be taken for dead gets the time to be",
	"registry/redisregistry/fault_test.go TestAWatchHearsAgainAfterItsNetworkWasGone":             "a real network is gone for a while",
	"registry/redisregistry/fault_test.go eventually":                                             "a real server that is away is asked again now and then",
	"registry/redisregistry/server_test.go hangingServer":                                         "a real server hangs for a while",
	"registry/redisregistry/server_test.go idle":                                                  "the cost of idle seconds is measured",
	"registry/redisregistry/server_test.go killedServer":                                          "who must not be taken for dead gets the time to be",
	"registry/redisregistry/server_test.go returns":                                               "a real server is away for a while",
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

// within is the name of the function that a line of a file is in; "" when it is in none.
func within(s *source, line int) string {
	for _, d := range s.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && s.line(f) <= line && line <= s.fset.Position(f.End()).Line {
			return f.Name.Name
		}
	}
	return ""
}

// checkSleep gives a line for each sleep in a function that is not excepted, and notes in slept
// those that are.
func checkSleep(s *source, except map[string]string, slept map[string]bool) []string {
	if _, bubble := s.imports("testing/synctest"); bubble || !s.test() {
		return nil
	}
	var bad []string
	calls(s, "time", func(sel string, line int) {
		name := s.path + " " + within(s, line)
		switch {
		case sel != "Sleep":
		case except[name] != "":
			slept[name] = true
		default:
			bad = append(bad, fmt.Sprintf("%s:%d sleeps: wait for a condition, or use testing/synctest", s.path, line))
		}
	})
	return bad
}

func TestTestsDoNotSleep(t *testing.T) {
	t.Parallel()
	slept := map[string]bool{}
	for _, s := range sources(t) {
		report(t, checkSleep(s, sleepers, slept))
	}
	for name := range sleepers {
		if !slept[name] {
			t.Errorf("%s is excepted from the rule against sleeping and does not sleep: drop the exception", name)
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

// excuses are what must stand in a function that skips tests: the variable that turns the skip into
// a failure, or the one that asks for the long form.
var excuses = regexp.MustCompile(`RINGFENCE_(REQUIRE|SOAK|SIM)`)

// checkSkip looks at helpers for tests too, and so at every file.
func checkSkip(s *source) []string {
	var bad []string
	for _, d := range s.file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || excuses.Match(s.text[s.fset.Position(f.Pos()).Offset:s.fset.Position(f.End()).Offset]) {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && (sel.Sel.Name == "Skip" || sel.Sel.Name == "Skipf" || sel.Sel.Name == "SkipNow") {
				if x, ok := sel.X.(*ast.Ident); ok && (x.Name == "t" || x.Name == "b" || x.Name == "f" || x.Name == "tb") {
					bad = append(bad, fmt.Sprintf("%s:%d skips: only a missing server may, and RINGFENCE_REQUIRE must make that a failure, in the same function", s.path, s.line(sel)))
				}
			}
			return true
		})
	}
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
	sleeps := func(s *source) []string {
		return checkSleep(s, map[string]string{"p_test.go idle": "it may"}, map[string]bool{})
	}
	for _, c := range []struct {
		check func(*source) []string
		text  string
		bad   bool
	}{
		{sleeps, `import "time"; func f() { time.Sleep(1) }`, true},
		{sleeps, "import \"time\"; func idle() { time.Now() }\nfunc f() { time.Sleep(1) }", true},
		{sleeps, `import "time"; func idle() { time.Sleep(1) }`, false},
		{sleeps, `import ("time"; "testing/synctest"); func f() { time.Sleep(1); synctest.Wait() }`, false},
		{sleeps, `import "time"; func f() { time.Now() }`, false},
		{checkFileAccess, `import "os"; func f() { os.Remove("a") }`, true},
		{checkFileAccess, `import fs "os"; func f() { fs.Remove("a") }`, true},
		{checkFileAccess, `import "os"; func f() int { return os.Getpid() | os.O_RDWR }`, false},
		{checkFileAccess, `import "golang.org/x/sys/unix"; func f() { unix.Fdatasync(1) }`, true},
		{checkFileAccess, `import "golang.org/x/sys/unix"; func f() { unix.Syscall6(1) }`, false},
		{checkSkip, `func f() { t.Skip("later") }`, true},
		{checkSkip, "func g() { os.Getenv(\"RINGFENCE_REQUIRE\") }\nfunc f() { t.Skip(\"later\") }", true},
		{checkSkip, `func f() { if os.Getenv("RINGFENCE_REQUIRE") == "" { t.Skip("no server") } }`, false},
	} {
		if got := c.check(parse(t, "p_test.go", []byte("package p\n"+c.text))); (len(got) > 0) != c.bad {
			t.Errorf("%s: got %v; want a violation: %t", c.text, got, c.bad)
		}
	}
}
