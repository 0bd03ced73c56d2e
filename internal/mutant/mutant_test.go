package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestEveryMutantFitsTheCode(t *testing.T) {
	t.Parallel()
	h := harness{root: "../.."}
	names := map[string]bool{}
	for _, m := range mutants() {
		if _, err := h.mutate(m); err != nil {
			t.Error(err)
		}
		if names[m.name] {
			t.Errorf("two mutants are called %q", m.name)
		}
		names[m.name] = true
		if !testExists(t, m) {
			t.Errorf("mutant %q: %s has no test %q", m.name, m.pkg, m.test)
		}
	}
	if len(names) < 12 {
		t.Errorf("%d mutants; at least 12 are promised", len(names))
	}
}

func testExists(t *testing.T, m mutant) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", m.pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(strings.TrimSuffix(m.test, "$"), "/")
	for _, f := range files {
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(src, []byte("func "+strings.TrimSuffix(strings.TrimPrefix(name, "^"), "$")+"(t *testing.T)")) {
			return true
		}
	}
	return false
}

func TestATestWithABugGetsTimeByItsSoundRun(t *testing.T) {
	t.Parallel()
	if got, want := patience(verdict{took: 2500 * time.Millisecond}), 20*time.Second; got != want {
		t.Errorf("%v; expected %v", got, want)
	}
}

const sums = `package sum

import (
	"os"
	"testing"
)

func TestSum(t *testing.T) {
	if b, err := os.ReadFile("data"); err != nil || string(b) != "3" || Sum(1, 2) != 3 {
		t.Fail()
	}
}

func TestZero(t *testing.T) {
	if Sum(0, 0) != 0 {
		t.Fail()
	}
}

func TestWrong(t *testing.T) { t.Fail() }
`

func TestABugIsCaughtOrNamed(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":        "module example.org/sums\n\ngo 1.24\n",
		"sum/sum.go":    "package sum\n\nfunc Sum(a, b int) int { return a + b }\n",
		"sum/data":      "3",
		"sum/s_test.go": sums,
		"bad/bad.go":    "package bad\n\nfunc F() int { return \"\" }\n",
		"bad/b_test.go": "package bad\n",
		"none/none.go":  "package none\n",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700), os.WriteFile(filepath.Join(root, name), []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	minus := mutant{name: "minus", breaks: "sums", file: "sum/sum.go", find: "a + b", put: "a - b", pkg: "sum", test: "TestSum$"}
	with := func(change func(*mutant)) mutant {
		m := minus
		change(&m)
		return m
	}
	for _, c := range []struct {
		m    mutant
		want string
	}{
		{minus, "caught by TestSum$"},
		{with(func(m *mutant) { m.test = "TestZero$" }), "SURVIVED: TestZero$ of sum passed"},
		{with(func(m *mutant) { m.put = "nothing" }), "SURVIVED: TestSum$ of sum did not compile"},
		{with(func(m *mutant) { m.test = "TestWrong$" }), "NO BASELINE TestWrong$ failed"},
		{with(func(m *mutant) { m.test = "TestNone$" }), "NO BASELINE TestNone$ does not exist"},
		{with(func(m *mutant) { m.pkg = "bad" }), "NO BASELINE TestSum$ failed without the bug"},
		{with(func(m *mutant) { m.pkg = "none" }), "NO BASELINE TestSum$ does not exist"},
	} {
		var out bytes.Buffer
		err := judge(t.Context(), root, []mutant{c.m}, 1, &out)
		if !strings.Contains(out.String(), c.want) || (err == nil) != strings.HasPrefix(c.want, "caught") {
			t.Errorf("%v\n%s\nexpected %q", err, &out, c.want)
		}
	}
}

func TestAnUnknownMutantIsAnError(t *testing.T) {
	t.Parallel()
	if err := run(context.Background(), []string{"-run", "nothing-like-it"}, new(bytes.Buffer)); err == nil {
		t.Error("expected an error")
	}
}

func TestANameOutsideOfRunIsAMistakeAndNotAllOfThem(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(context.Background(), []string{"-list", "fsync"}, &out); err == nil || out.Len() > 0 {
		t.Errorf("%v, %d bytes; expected an error that says how a name is given", err, out.Len())
	}
}

func TestMutantsCanBeListed(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(context.Background(), []string{"-list"}, &out); err != nil || strings.Count(out.String(), "\n") != len(mutants()) {
		t.Errorf("%v:\n%s", err, &out)
	}
}

func TestAMutantWhoseServerIsNotThereIsLeftOutAndNamed(t *testing.T) {
	t.Parallel()
	h := harness{root: t.TempDir()} // without scripts/services
	env, missing := h.servers(t.Context(), []mutant{{name: "a"}, {name: "b", server: "nosuch"}})
	if len(env) != 0 || len(missing) != 1 || missing["nosuch"] == nil {
		t.Errorf("environment %v, missing %v; expected only nosuch to be missing", env, missing)
	}
}

func TestThePartsAreAllTogether(t *testing.T) {
	t.Parallel()
	all := mutants()
	for n := 1; n <= 3; n++ {
		seen := map[string]int{}
		for k := 1; k <= n; k++ {
			chosen, err := part(fmt.Sprintf("%d/%d", k, n), all)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range chosen {
				seen[m.name]++
			}
		}
		for _, m := range all {
			if seen[m.name] != 1 {
				t.Errorf("%s is in %d of %d parts", m.name, seen[m.name], n)
			}
		}
	}
	for _, wrong := range []string{"", "1", "0/2", "3/2", "1/0", "-1/2", "1/2/3", "a/b"} {
		if _, err := part(wrong, all); err == nil || !strings.Contains(err.Error(), "such as 1/2") {
			t.Errorf("part %q: %v", wrong, err)
		}
	}
}
