package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recorded is what go test -json printed once, of packages that were made for it.
func recorded(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// tries is a go test that plays streams, one a call.
type tries struct {
	streams [][]byte
	args    [][]string
}

func (p *tries) test(_ context.Context, args []string, w io.Writer) (bool, error) {
	b := p.streams[len(p.args)]
	p.args = append(p.args, args)
	_, err := w.Write(b)
	return !bytes.Contains(b, []byte(`"fail"`)), err
}

// play runs tries and gives the verdict, what was shown and the list of second tries.
func (p *tries) play(t *testing.T) (ok bool, shown, list string) {
	t.Helper()
	dir := t.TempDir()
	var out strings.Builder
	ok, err := run(t.Context(), []string{"-tags", "x", "-timeout", "10m", "--", "./..."}, p.test, dir, &out)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "list"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return ok, out.String(), string(b)
}

func TestAServerThatStalledGetsASecondTryAndIsListed(t *testing.T) {
	t.Parallel()
	p := &tries{streams: [][]byte{recorded(t, "stall"), recorded(t, "passed")}}
	ok, shown, list := p.play(t)
	if !ok || len(p.args) != 2 {
		t.Fatalf("ok %t after %d tries:\n%s", ok, len(p.args), shown)
	}
	if want := []string{"-tags", "x", "-timeout", "10m", "-count=1", module + "/registry/pgregistry"}; !slices.Equal(p.args[1], want) {
		t.Errorf("the second try is go test %v; want %v", p.args[1], want)
	}
	if !strings.Contains(list, "registry/pgregistry TestAServerThatStalls: failed (") || strings.Count(list, "\n") != 1 {
		t.Errorf("the list: %q", list)
	}
	for _, want := range []string{"no signal within 5s\n", "FAIL\t" + module + "/registry/pgregistry", "ok  \t" + module + "/registry/pgregistry"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q was not shown:\n%s", want, shown)
		}
	}
	if strings.Contains(shown, "nothing was lost") {
		t.Errorf("what a test that passed has logged is shown:\n%s", shown)
	}
	for _, place := range strings.FieldsFunc(list, func(r rune) bool { return r == '(' || r == ')' }) {
		if strings.HasPrefix(place, os.TempDir()) {
			if b, err := os.ReadFile(place); err != nil || !bytes.Contains(b, []byte("pgregistry")) {
				t.Errorf("the output in %s: %q, %v", place, b, err)
			}
		}
	}
}

func TestWhatNoStallExplainsGetsNoSecondTry(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ stream, why string }{
		{"loss", `TestAppends says "acknowledged"`},
		{"promise", `TestStorm says "broken promise"`},
		{"race", `TestRaces says "DATA RACE"`},
		{"panic", `TestPanics says "panic"`},
		{"hang", "internal/cli ended while TestHangs ran"},
		{"value", "TestValue does not say that it waited in vain"},
		{"crash", "commitlog/filelog/crashtest is not in the list"},
		{"leak", "registry/redisregistry failed though none of its tests did"},
		{"main", "examples/bank failed though none of its tests did"},
		{"exit", "internal/freeze ended while TestExits ran"},
		{"build", "internal/demo does not build"},
	} {
		t.Run(c.stream, func(t *testing.T) {
			t.Parallel()
			p := &tries{streams: [][]byte{recorded(t, c.stream)}}
			ok, shown, list := p.play(t)
			if ok || len(p.args) != 1 || list != "" || !strings.Contains(shown, c.why) {
				t.Errorf("ok %t after %d tries, list %q; want one failed try, because %s:\n%s", ok, len(p.args), list, c.why, shown)
			}
		})
	}
}

func TestASecondTryMustShowThatTheTestPasses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, second, why string }{
		{"it fails again", "stall", "TestAServerThatStalls did not pass"},
		{"there are no tests to run", "none", "TestAServerThatStalls was not run"},
		{"another package ran", "crash", "pgregistry did not pass"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := &tries{streams: [][]byte{recorded(t, "stall"), recorded(t, c.second)}}
			ok, shown, list := p.play(t)
			if ok || len(p.args) != 2 || list != "" || !strings.Contains(shown, c.why) {
				t.Errorf("ok %t after %d tries, list %q; want two failed tries, because %s:\n%s", ok, len(p.args), list, c.why, shown)
			}
		})
	}
}

// What of the second try went well is not enough: go test, the package and the test have to say so.
func TestASecondTryCountsOnlyWhenAllOfItWentWell(t *testing.T) {
	t.Parallel()
	const pkg = module + "/registry/pgregistry"
	for name, c := range map[string]struct {
		ok          bool
		test, whole string
		counts      bool
	}{
		"all passed":             {true, "pass", "pass", true},
		"go test failed":         {false, "pass", "pass", false},
		"the package failed":     {true, "pass", "fail", false},
		"the package never ends": {true, "pass", "", false},
		"the test failed":        {true, "fail", "pass", false},
		"the test was skipped":   {true, "skip", "pass", false},
		"the test never ends":    {true, "", "pass", false},
	} {
		s := newStream(io.Discard)
		s.unit(pkg, "TestOne").result, s.unit(pkg, "").result = c.test, c.whole
		if why := s.confirms(c.ok, []failure{{pkg, "TestOne"}}); (len(why) == 0) != c.counts {
			t.Errorf("%s: does not count because of %q", name, why)
		}
	}
}

// Words that stand beside the tests belong to no test that could be tried again.
func TestWhatIsPrintedBesideTheTestsIsNoStall(t *testing.T) {
	t.Parallel()
	said, err := json.Marshal(event{Action: "output", Package: module + "/registry/pgregistry", Output: "something is left over\n"})
	if err != nil {
		t.Fatal(err)
	}
	for name, line := range map[string]string{"by the package": string(said) + "\n", "by go test": "panic: in a goroutine of nobody\n"} {
		p := &tries{streams: [][]byte{append([]byte(line), stalled(1)...), stalled(0)}}
		if ok, shown, list := p.play(t); ok || len(p.args) != 1 || list != "" {
			t.Errorf("printed %s: ok %t after %d tries; want one failed try:\n%s", name, ok, len(p.args), shown)
		}
	}
}

func TestAListNamesPackagesAndWholeTrees(t *testing.T) {
	t.Parallel()
	for pkg, want := range map[string]bool{"a/b": true, "a/b/c": true, "a/b/c/d": true, "a/bc": false, "a": false, "x": true, "x/y": false, "xy": false} {
		if got := listed([]string{"a/b/...", "x"}, pkg); got != want {
			t.Errorf("%s is in the list: %t", pkg, got)
		}
	}
}

func TestTheFailuresOfAllPackagesHaveToBeExplained(t *testing.T) {
	t.Parallel()
	p := &tries{streams: [][]byte{slices.Concat(recorded(t, "stall"), recorded(t, "loss"))}}
	if ok, shown, _ := p.play(t); ok || len(p.args) != 1 {
		t.Errorf("ok %t after %d tries; want one:\n%s", ok, len(p.args), shown)
	}
}

// stalled is a stream of tests of one package that waited in vain.
func stalled(n int) []byte {
	var b bytes.Buffer
	line := func(action, test, output string) {
		e, _ := json.Marshal(event{Action: action, Package: module + "/registry/pgregistry", Test: test, Output: output})
		fmt.Fprintf(&b, "%s\n", e)
	}
	for i := range n {
		line("output", fmt.Sprintf("Test%d", i), "    x_test.go:1: waited 5s in vain\n")
		line("fail", fmt.Sprintf("Test%d", i), "")
	}
	line("fail", "", "")
	return b.Bytes()
}

func TestManyFailuresAreNoStall(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{most: 2, most + 1: 1} {
		p := &tries{streams: [][]byte{stalled(n), stalled(n)}}
		if ok, shown, _ := p.play(t); ok || len(p.args) != want {
			t.Errorf("%d failed tests: %d tries, ok %t; want %d:\n%s", n, len(p.args), ok, want, shown)
		}
	}
}

func TestAGoTestThatSaysNothingFails(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "no Go files in /src\n"} {
		p := &tries{streams: [][]byte{[]byte(text)}}
		if ok, shown, _ := p.play(t); ok || !strings.Contains(shown, text) {
			t.Errorf("ok %t, shown %q", ok, shown)
		}
	}
}

func TestArgumentsWithoutPackagesAreRefused(t *testing.T) {
	t.Parallel()
	if ok, err := run(t.Context(), []string{"-race", "./..."}, new(tries).test, "", io.Discard); ok || err == nil {
		t.Errorf("ok %t, %v; want an error", ok, err)
	}
}

func TestWhatHoldsAPromiseByItselfIsNotInTheList(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"commitlog", "commitlog/logtest", "commitlog/filelog", "commitlog/filelog/crashtest", "commitlog/memlog", "registry",
		"registry/fileregistry", "registry/memregistry", "registry/registrytest", "group", "group/core", "dispatch", "group/sim",
		"topic", "mirror", "ring", "assign", "internal/history", "internal/segment", "internal/vfs", "internal/archtest", "internal/mutant",
	} {
		if _, err := os.Stat(filepath.Join("../..", name)); err != nil {
			t.Errorf("the list of those that are never tried again names %s: %v", name, err)
		}
		if listed(stalling, module+"/"+name) {
			t.Errorf("%s may be tried again", name)
		}
	}
	for _, entry := range stalling {
		dir := strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(entry, module), "/..."), "/")
		if _, err := os.Stat(filepath.Join("../..", dir)); err != nil {
			t.Errorf("the list names %s: %v", entry, err)
		}
	}
}

func TestGraveWordsAreThoseOfTheJudgesAndTests(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"acknowledged record 17 is lost", "3 acknowledged records of 0/1 were never finished, the first is 4", "5 was acked at partition 0 offset 3; found at 4",
		"key k is out of order", "records 3 and 4 are reordered", "a is doubled", "it was applied twice", "offset 7 was skipped", "a read skips offset 3",
		"the checkpoint went back", "in 0/1 from 5 back to 3", "2 broken promises, the first: no record is skipped", "error fenced", "a stale check: <nil>",
		"in 0/1 the finished record 5 was forgotten", "version \"3\" was given out twice", "partition 1 has 14 records; want 15", "3 messages came, of 5",
		"WARNING: DATA RACE", "panic: runtime error", "found unexpected goroutines", "the segment is corrupt", "the record is missing",
		"nobody sent that, and a value overwrote another", "a position means one value for ever: was seen with another value",
		"record 2 overtakes record 1", "records of key k overlap",
	} {
		if !grave.MatchString(text) {
			t.Errorf("%q passes for a stall", text)
		}
	}
	for _, text := range []string{
		"no signal within 5s", "waited 20s in vain until all was processed", "context deadline exceeded", "dial tcp: connection refused",
		"a call took 3.2s; the time-out is 2s", "the server did not start: unavailable",
	} {
		if grave.MatchString(text) || !late.MatchString(text) {
			t.Errorf("%q does not pass for a stall: grave %t, late %t", text, grave.MatchString(text), late.MatchString(text))
		}
	}
}
