package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// checkInit gives a line for each init function: nothing happens because of an import.
func checkInit(s *source) []string {
	var bad []string
	for _, d := range s.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			bad = append(bad, fmt.Sprintf("%s:%d has an init function: let the caller say what is wanted", s.path, s.line(f)))
		}
	}
	return bad
}

// packageVars are the names of a file's package-level variables.
func packageVars(s *source) map[string]*ast.ValueSpec {
	vars := map[string]*ast.ValueSpec{}
	for _, d := range s.file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, spec := range g.Specs {
			v, ok := spec.(*ast.ValueSpec)
			if !ok || embedded(g, v) {
				continue
			}
			for _, n := range v.Names {
				if n.Name != "_" {
					vars[n.Name] = v
				}
			}
		}
	}
	return vars
}

func embedded(g *ast.GenDecl, v *ast.ValueSpec) bool {
	for _, doc := range []*ast.CommentGroup{g.Doc, v.Doc} {
		if doc == nil {
			continue
		}
		for _, c := range doc.List {
			if strings.HasPrefix(c.Text, "//go:embed ") {
				return true
			}
		}
	}
	return false
}

// constant says whether an expression makes a value that only an assignment could change: an
// error, a pattern, a table, a literal. Not so for pointers, channels, and made maps or slices.
func constant(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit, *ast.Ident, *ast.SelectorExpr, *ast.FuncLit, *ast.CompositeLit, *ast.BinaryExpr, *ast.IndexExpr:
		return true
	case *ast.ParenExpr:
		return constant(e.X)
	case *ast.UnaryExpr:
		return e.Op != token.AND && e.Op != token.ARROW
	case *ast.CallExpr:
		f, ok := e.Fun.(*ast.SelectorExpr)
		if !ok {
			// A conversion, as []byte("…") or name("…"); never a call of new or make.
			id, isName := e.Fun.(*ast.Ident)
			return !isName || (id.Name != "new" && id.Name != "make")
		}
		x, ok := f.X.(*ast.Ident)
		return ok && slices.Contains([]string{"errors.New", "fmt.Errorf", "regexp.MustCompile", "crc32.MakeTable", "strings.NewReplacer"}, x.Name+"."+f.Sel.Name)
	}
	return false
}

// checkGlobals gives a line for each package-level variable of a package that can change: one
// made empty, or made to be filled, or assigned to somewhere. files are all of one folder.
func checkGlobals(files []*source) []string {
	var bad []string
	vars := map[string]*ast.ValueSpec{}
	for _, s := range files {
		for name, v := range packageVars(s) {
			vars[name] = v
			if len(v.Values) == 0 && zeros(files, v.Type) {
				continue
			}
			if len(v.Values) == 0 || !slices.ContainsFunc(v.Values, constant) {
				bad = append(bad, fmt.Sprintf("%s:%d: package variable %s can change: give it to whoever needs it", s.path, s.line(v), name))
			}
		}
	}
	for _, s := range files {
		for _, id := range assigned(s.file) {
			if _, global := vars[id.Name]; global && (id.Obj == nil || id.Obj.Decl == vars[id.Name]) {
				bad = append(bad, fmt.Sprintf("%s:%d: assigns to package variable %s: tables and errors stay as they were declared", s.path, s.line(id), id.Name))
			}
		}
	}
	return bad
}

// zeros says whether a type is an array, by itself or by name: a variable of it is a block of zeros.
func zeros(files []*source, e ast.Expr) bool {
	if id, ok := e.(*ast.Ident); ok {
		for _, s := range files {
			if o := s.file.Scope.Lookup(id.Name); o != nil {
				if spec, ok := o.Decl.(*ast.TypeSpec); ok {
					e = spec.Type
				}
			}
		}
	}
	a, ok := e.(*ast.ArrayType)
	return ok && a.Len != nil
}

// assigned are the names that stand at the root of what a file's functions assign to.
func assigned(f *ast.File) []*ast.Ident {
	var ids []*ast.Ident
	add := func(e ast.Expr) {
		for {
			switch x := e.(type) {
			case *ast.Ident:
				ids = append(ids, x)
				return
			case *ast.IndexExpr:
				e = x.X
			case *ast.SelectorExpr:
				e = x.X
			case *ast.ParenExpr:
				e = x.X
			default:
				return
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, e := range n.Lhs {
					add(e)
				}
			}
		case *ast.IncDecStmt:
			add(n.X)
		}
		return true
	})
	return ids
}

func TestNoInitFunctions(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		report(t, checkInit(s))
	}
}

func TestPackageVariablesNeverChange(t *testing.T) {
	t.Parallel()
	folders := map[string][]*source{}
	for _, s := range sources(t) {
		if !s.test() {
			folders[path.Dir(s.path)] = append(folders[path.Dir(s.path)], s)
		}
	}
	for _, files := range folders {
		report(t, checkGlobals(files))
	}
}

func TestCodeChecksNoticeInitAndGlobals(t *testing.T) {
	t.Parallel()
	const head = "package p\n"
	for text, want := range map[string]int{
		`var ErrA = errors.New("a"); var _ I = T{}; var re = regexp.MustCompile("a")`:  0,
		`var table = map[string]int{"a": 1}; func f() int { return table["a"] }`:       0,
		`var table = map[string]int{"a": 1}; func f() { table["a"] = 2 }`:              1,
		`var table = []int{1}; func f() { table := []int{}; table[0] = 2; _ = table }`: 0,
		`var n = 1; func f() { n++ }`:         1,
		`var zeros [4096]byte`:                0,
		`type block [8]byte; var zeros block`: 0,
		`var list []byte`:                     1,
		`var n int`:                           1,
		`var m = make(map[string]int)`:        1,
		`var p = &T{}`:                        1,
		`var q = new(T)`:                      1,
		`var magic = []byte("abc")`:           0,
	} {
		if got := checkGlobals([]*source{parse(t, "p.go", []byte(head+text))}); len(got) != want {
			t.Errorf("%s: got %v; want %d violations", text, got, want)
		}
	}
	if got := checkInit(parse(t, "p.go", []byte(head+"func init() {}\nfunc (t T) init() {}"))); len(got) != 1 {
		t.Errorf("init: got %v; want one violation", got)
	}
}
