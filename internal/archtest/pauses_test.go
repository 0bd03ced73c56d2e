package archtest

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"testing"
)

// exceptions are calls that a rule allows, each with its reason. A call is named by its file, its function
// and its text: any other call in that function is none of them, and neither is the same one twice.
type exceptions struct {
	reasons map[string]string
	used    map[string]bool
}

func except(reasons map[string]string) exceptions {
	return exceptions{reasons, map[string]bool{}}
}

func (x exceptions) allow(s *source, call ast.Node) bool {
	text := s.text[s.fset.Position(call.Pos()).Offset:s.fset.Position(call.End()).Offset]
	name := fmt.Sprintf("%s %s: %s", s.path, within(s, s.line(call)), text)
	if x.reasons[name] == "" || x.used[name] {
		return false
	}
	x.used[name] = true
	return true
}

// unused gives a line for each exception that nothing needs.
func (x exceptions) unused() []string {
	var bad []string
	for name := range x.reasons {
		if !x.used[name] {
			bad = append(bad, name+" is excepted and is not there: drop the exception")
		}
	}
	return bad
}

// sleepers are the calls in tests that may sleep in real time. Inside of a synctest bubble sleeping costs
// nothing and is always allowed.
func sleepers() exceptions {
	return except(map[string]string{
		"commitlog/filelog/process_test.go TestAStoppedProcessDoesNotStopTheOthers: time.Sleep(time.Duration(5+rand.IntN(20)) * time.Millisecond)":     "for how long a process runs before it is stopped is random: that is the fault",
		"commitlog/filelog/process_test.go TestKilledProcessesLoseNothingThatWasAcked: time.Sleep(time.Duration(20+rng.IntN(100)) * time.Millisecond)": "for how long a process runs before it is killed is random: that is the fault",
		"test/nemesis/fault_test.go hurt: time.Sleep(hold)":                                                                    "for how long a fault lasts is a random time of real processes",
		"test/nemesis/fault_test.go hurt: time.Sleep(s.Calm)":                                                                  "for how long it is calm after a fault is a random time of real processes",
		"registry/sqlregistry/stranger_test.go hostileAnswers: time.Sleep(10 * time.Millisecond)":                              "a server that says something now and then",
		"test/e2e/subscribebreaker_test.go TestAnOutageCostsNoRecordItsAttempts: time.Sleep(1500 * time.Millisecond)":          "for how long an outage lasts",
		"test/e2e/subscribebreaker_test.go TestAnOutageCostsNoRecordItsAttempts: time.Sleep(500 * time.Millisecond)":           "for how long an outage lasts",
		"test/e2e/subscribebreaker_test.go TestWhatIsParkedLosesNoAttemptInAnOutage: time.Sleep(100 * time.Millisecond)":       "what was under way when an outage was noticed gets the time to end",
		"test/e2e/subscribepause_test.go TestAMemberThatStartsWhileItIsPausedDeliversNothing: time.Sleep(time.Second)":         "who must deliver nothing gets the time to do it",
		"registry/etcdregistry/fault_test.go eventually: time.Sleep(20 * time.Millisecond)":                                    "a real server that is down is asked again now and then",
		"registry/fileregistry/play_test.go playIdle: time.Sleep(2 * time.Second)":                                             "the cost of two idle seconds is measured",
		"registry/fileregistry/process_test.go TestAStoppedProcessAloneRefusesItsOwnWriteAfterTheTTL: time.Sleep(time.Second)": "the TTL has to pass for a process that does not run",
		"registry/fileregistry/process_test.go TestThreeProcessesCountEveryIncrement: time.Sleep(3 * time.Millisecond)":        "for how long a process is stopped",
		"registry/redisregistry/fault_test.go TestALostConnectionIsNotTakenForADeath: time.Sleep(2 * confirm)":                 "who must not be taken for dead gets the time to be",
		"registry/redisregistry/fault_test.go TestAWatchHearsAgainAfterItsNetworkWasGone: time.Sleep(4 * quickly)":             "a real network is gone for a while",
		"registry/redisregistry/fault_test.go eventually: time.Sleep(20 * time.Millisecond)":                                   "a real server that is away is asked again now and then",
		"registry/redisregistry/server_test.go hangingServer: time.Sleep(grace + 10*confirm)":                                  "who must not be taken for dead gets the time to be",
		"registry/redisregistry/server_test.go idle: time.Sleep(span)":                                                         "the cost of idle seconds is measured",
		"registry/redisregistry/server_test.go idle: time.Sleep(time.Second)":                                                  "what members do when they begin is not counted as idle",
		"registry/redisregistry/server_test.go killedServer: time.Sleep(grace + sweepPause + 10*confirm)":                      "who must not be taken for dead gets the time to be",
		"registry/redisregistry/server_test.go returns: time.Sleep(grace / 3)":                                                 "a real server is away for a while",
	})
}

// checkSleep gives a line for each sleep that is not excepted.
func checkSleep(s *source, allowed exceptions) []string {
	name, ok := s.imports("time")
	if _, bubble := s.imports("testing/synctest"); bubble || !ok || !s.test() {
		return nil
	}
	sleep := func(e ast.Expr) bool {
		sel, ok := e.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "Sleep" {
			return false
		}
		x, ok := sel.X.(*ast.Ident)
		return ok && x.Name == name && x.Obj == nil
	}
	var bad []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && sleep(call.Fun) && allowed.allow(s, call) {
			return false
		}
		if e, ok := n.(ast.Expr); ok && sleep(e) {
			bad = append(bad, fmt.Sprintf("%s:%d sleeps: wait for a condition, or use testing/synctest", s.path, s.line(n)))
		}
		return true
	})
	return bad
}

func TestTestsDoNotSleep(t *testing.T) {
	t.Parallel()
	allowed := sleepers()
	for _, s := range sources(t) {
		report(t, checkSleep(s, allowed))
	}
	report(t, allowed.unused())
}

// skippers are the calls that may skip a test: what is missing on this host is not tested here, and
// RINGFENCE_REQUIRE makes that a failure.
func skippers() exceptions {
	return except(map[string]string{
		`bench/peer/peer_test.go require: t.Skipf("%s was not found", p.Server)`:  "a peer's server is not installed",
		`internal/testdisk/testdisk.go missing: t.Skipf("no disk: %s", why)`:      "there are no loop devices, or no right to use them",
		`internal/testserver/private.go missing: t.Skipf("no %s: %s", name, why)`: "a store's server is not installed",
	})
}

// excuse is what must stand in a function that skips tests: the variable that turns the skip into a failure.
var excuse = regexp.MustCompile(`os\.Getenv\("RINGFENCE_REQUIRE"\)|\brequired\(`)

// checkSkip looks at helpers for tests too, and so at every file that knows of tests.
func checkSkip(s *source, allowed exceptions) []string {
	if _, ok := s.imports("testing"); !ok {
		return nil
	}
	skip := func(e ast.Expr) (sel *ast.SelectorExpr, ok bool) {
		if sel, ok = e.(*ast.SelectorExpr); ok {
			ok = sel.Sel.Name == "Skip" || sel.Sel.Name == "Skipf" || sel.Sel.Name == "SkipNow"
		}
		return sel, ok
	}
	var bad []string
	refuse := func(n ast.Node) {
		bad = append(bad, fmt.Sprintf("%s:%d skips: only a missing server or disk may, through internal/testserver and internal/testdisk, and RINGFENCE_REQUIRE must make that a failure, in the same function", s.path, s.line(n)))
	}
	for _, d := range s.file.Decls {
		excused := excuse.Match(s.text[s.fset.Position(d.Pos()).Offset:s.fset.Position(d.End()).Offset])
		ast.Inspect(d, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if _, ok := skip(call.Fun); ok {
					if !excused || !allowed.allow(s, call) {
						refuse(n)
					}
					return false
				}
			}
			if e, ok := n.(ast.Expr); ok { // not called: only the names that tests have are known to be theirs
				if sel, ok := skip(e); ok {
					if x, ok := sel.X.(*ast.Ident); ok && slices.Contains([]string{"t", "b", "f", "tb"}, x.Name) {
						refuse(n)
					}
				}
			}
			return true
		})
	}
	return bad
}

func TestNoSilentSkips(t *testing.T) {
	t.Parallel()
	allowed := skippers()
	for _, s := range sources(t) {
		report(t, checkSkip(s, allowed))
	}
	report(t, allowed.unused())
}

func TestAnExceptionIsForOneCall(t *testing.T) {
	t.Parallel()
	sleeps := func(s *source) []string {
		allowed := except(map[string]string{"p_test.go idle: time.Sleep(1)": "it may"})
		return append(checkSleep(s, allowed), allowed.unused()...)
	}
	skips := func(s *source) []string {
		allowed := except(map[string]string{`p_test.go require: t.Skip("no server")`: "it may"})
		return append(checkSkip(s, allowed), allowed.unused()...)
	}
	const (
		timed, tested = `import "time"; `, `import ("os"; "testing"); `
		idle          = "func idle() { time.Sleep(1) }\n"
		require       = "func require() { if os.Getenv(\"RINGFENCE_REQUIRE\") == \"\" { t.Skip(\"no server\") } }\n"
	)
	for _, c := range []struct {
		check func(*source) []string
		text  string
		bad   int
	}{
		{sleeps, timed + idle, 0},
		{sleeps, timed + "func idle() { time.Sleep(1); time.Sleep(2) }", 1},
		{sleeps, timed + "func idle() { time.Sleep(1); time.Sleep(1) }", 1},
		{sleeps, timed + "func idle() { time.Sleep(1); f := time.Sleep; f(2) }", 1},
		{sleeps, timed + "func idle() { time.Sleep(2) }", 2},                          // it, and the exception that nothing needs
		{sleeps, timed + "func idle() { time.Now() }\nfunc f() { time.Sleep(1) }", 2}, // as before
		{sleeps, timed + idle + "func f() { time.Sleep(1) }", 1},
		{sleeps, timed + idle + "func f() { time.Now() }", 0},
		{sleeps, `import wait "time"; ` + "func f() { wait.Sleep(1) }", 2},
		{sleeps, `import ("time"; "testing/synctest"); func f() { time.Sleep(1); synctest.Wait() }`, 1}, // the exception
		{skips, tested + require, 0},
		{skips, tested + require + `func f() { t.Skip("later") }`, 1},
		{skips, tested + require + `func f() { e.T.SkipNow() }`, 1},
		{skips, tested + require + `var skip = t.Skip`, 1},
		{skips, tested + `func require() { if os.Getenv("RINGFENCE_REQUIRE") == "" { t.Skip("no server") }; t.Skip("later") }`, 1},
		{skips, tested + `func require() { t.Skip("no server") }`, 2},
	} {
		if got := c.check(parse(t, "p_test.go", []byte("package p\n"+c.text))); len(got) != c.bad {
			t.Errorf("%s: got %q; want %d violations", c.text, got, c.bad)
		}
	}
}
