package main

import (
	"bytes"
	"context"
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
	for _, c := range []struct {
		sound verdict
		want  time.Duration
	}{
		{verdict{took: 30 * time.Second, output: "ok  \texample.org/a/b\t2.500s\n"}, 20 * time.Second},
		{verdict{took: 30 * time.Second, output: "nothing of the kind"}, 130 * time.Second},
	} {
		if got := patience(c.sound); got != c.want {
			t.Errorf("%+v: %v; expected %v", c.sound, got, c.want)
		}
	}
}

func TestAnUnknownMutantIsAnError(t *testing.T) {
	t.Parallel()
	if err := run(context.Background(), []string{"-run", "nothing-like-it"}, new(bytes.Buffer)); err == nil {
		t.Error("expected an error")
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
