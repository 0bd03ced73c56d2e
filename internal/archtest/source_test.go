package archtest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// source is one Go file of the repository, of any of its modules.
type source struct {
	path  string // slash-separated, from the root of the repository
	text  []byte
	lines int
	fset  *token.FileSet
	file  *ast.File
}

func (s *source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s *source) line(n ast.Node) int { return s.fset.Position(n.Pos()).Line }

// imports says whether the file imports path, and under which name.
func (s *source) imports(path string) (name string, ok bool) {
	for _, i := range s.file.Imports {
		if strings.Trim(i.Path.Value, `"`) != path {
			continue
		}
		if i.Name != nil {
			return i.Name.Name, true
		}
		return path[strings.LastIndex(path, "/")+1:], true
	}
	return "", false
}

func parse(t *testing.T, path string, text []byte) *source {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, text, parser.ParseComments)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	return &source{path: path, text: text, lines: bytes.Count(text, []byte("\n")), fset: fset, file: f}
}

// root is the folder of the main module's go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(filepath.Dir(dir))
}

// walk calls visit for every file of the repository that people write.
func walk(t *testing.T, visit func(path string, read func() []byte)) {
	t.Helper()
	top := root(t)
	err := filepath.WalkDir(top, func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, full)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel == ".git" || rel == "bin" || rel == "seeds" || rel == "ringfence-data" || d.Name() == "node_modules" || d.Name() == ".services" {
				return filepath.SkipDir
			}
			return nil
		}
		visit(rel, func() []byte {
			text, err := os.ReadFile(full)
			if err != nil {
				t.Fatal(err)
			}
			return text
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sources parses every Go file of the repository.
func sources(t *testing.T) []*source {
	t.Helper()
	var all []*source
	walk(t, func(path string, read func() []byte) {
		if strings.HasSuffix(path, ".go") {
			all = append(all, parse(t, path, read()))
		}
	})
	if len(all) == 0 {
		t.Fatal("found no Go files; is the root of the repository elsewhere?")
	}
	return all
}

// report fails the test with one line for each violation.
func report(t *testing.T, violations []string) {
	t.Helper()
	for _, v := range violations {
		t.Error(v)
	}
}
