package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// starts says whether a file starts a goroutine: by itself, or through a wait group.
func starts(s *source) bool {
	found := false
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Go" && len(n.Args) == 1 {
				found = true
			}
		}
		return !found
	})
	return found
}

// checkLeaks names the packages with tests that start goroutines, in the tests or in the code, and
// never look whether one is left.
func checkLeaks(all []*source) []string {
	type traits struct{ tests, starts, looks bool }
	dirs := map[string]*traits{}
	for _, s := range all {
		dir := path.Dir(s.path)
		if dirs[dir] == nil {
			dirs[dir] = new(traits)
		}
		_, looks := s.imports("go.uber.org/goleak")
		dirs[dir].tests = dirs[dir].tests || s.test()
		dirs[dir].starts = dirs[dir].starts || starts(s)
		dirs[dir].looks = dirs[dir].looks || looks && s.test() && strings.Contains(string(s.text), "func TestMain(")
	}
	var bad []string
	for dir, d := range dirs {
		if d.tests && d.starts && !d.looks {
			bad = append(bad, dir+" starts goroutines, and its tests have no goleak.VerifyTestMain")
		}
	}
	slices.Sort(bad)
	return bad
}

func TestPackagesThatStartGoroutinesLookForLeaks(t *testing.T) {
	t.Parallel()
	report(t, checkLeaks(sources(t)))
}

func TestLeakCheckNoticesAPackageThatDoesNotLook(t *testing.T) {
	t.Parallel()
	watch := parse(t, "a/leak_test.go", []byte("package a\nimport \"go.uber.org/goleak\"\nfunc TestMain(m *testing.M) { goleak.VerifyTestMain(m) }"))
	for text, bad := range map[string]bool{
		"func f() { go g() }":             true,
		"func f() { var wg W; wg.Go(g) }": true,
		"func f() { g() }":                false,
	} {
		code := parse(t, "a/a.go", []byte("package a\n"+text))
		plain := parse(t, "a/a_test.go", []byte("package a"))
		if got := checkLeaks([]*source{code, plain}); (len(got) > 0) != bad {
			t.Errorf("%s: %v; want a violation: %t", text, got, bad)
		}
		if got := checkLeaks([]*source{code, plain, watch}); len(got) > 0 {
			t.Errorf("%s, watched: %v", text, got)
		}
	}
}
