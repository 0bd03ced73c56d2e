package archtest

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

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

func TestCallChecksNoticeWhatIsForbidden(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		check func(*source) []string
		text  string
		bad   bool
	}{
		{checkFileAccess, `import "os"; func f() { os.Remove("a") }`, true},
		{checkFileAccess, `import fs "os"; func f() { fs.Remove("a") }`, true},
		{checkFileAccess, `import "os"; func f() int { return os.Getpid() | os.O_RDWR }`, false},
		{checkFileAccess, `import "golang.org/x/sys/unix"; func f() { unix.Fdatasync(1) }`, true},
		{checkFileAccess, `import "golang.org/x/sys/unix"; func f() { unix.Syscall6(1) }`, false},
	} {
		if got := c.check(parse(t, "p_test.go", []byte("package p\n"+c.text))); (len(got) > 0) != c.bad {
			t.Errorf("%s: got %v; want a violation: %t", c.text, got, c.bad)
		}
	}
}
