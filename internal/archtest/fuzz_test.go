package archtest

import (
	"go/ast"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// fuzzTargets are the fuzz targets of a file, as scripts/fuzz names them.
func fuzzTargets(s *source) []string {
	var all []string
	for _, d := range s.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && s.test() && strings.HasPrefix(f.Name.Name, "Fuzz") {
			all = append(all, path.Dir(s.path)+" "+f.Name.Name)
		}
	}
	return all
}

func TestEveryFuzzTargetIsRun(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "scripts/fuzz", "list")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("scripts/fuzz list: %v", err)
	}
	run := strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, s := range sources(t) {
		for _, target := range fuzzTargets(s) {
			if !slices.Contains(run, target) {
				t.Errorf("scripts/fuzz does not run %s", target)
			}
		}
	}
}

func TestFuzzTargetsAreFound(t *testing.T) {
	t.Parallel()
	s := parse(t, "a/b_test.go", []byte("package b\nfunc FuzzOne(f *testing.F) {}\nfunc helper() {}\nfunc (x y) FuzzTwo() {}"))
	if got := fuzzTargets(s); !slices.Equal(got, []string{"a FuzzOne"}) {
		t.Errorf("got %q", got)
	}
}
