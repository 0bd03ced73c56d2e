package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// checkTestLogs names the tests that log into a variable of theirs: what they test may still log, on another
// goroutine, while they read it.
func checkTestLogs(s *source) []string {
	slog, ok := s.imports("log/slog")
	if !ok || !s.test() {
		return nil
	}
	var bad []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !strings.HasSuffix(f.Sel.Name, "Handler") {
			return true
		}
		if x, ok := f.X.(*ast.Ident); !ok || x.Name != slog {
			return true
		}
		if to, ok := call.Args[0].(*ast.UnaryExpr); ok && to.Op == token.AND {
			bad = append(bad, fmt.Sprintf("%s:%d logs into a variable: use a testlog.Buffer, which several goroutines may write while it is read", s.path, s.line(n)))
		}
		return true
	})
	return bad
}

func TestWhatIsLoggedIsReadFromABufferForThat(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		report(t, checkTestLogs(s))
	}
}

func TestLogCheckNoticesAVariable(t *testing.T) {
	t.Parallel()
	for text, bad := range map[string]bool{
		`import "log/slog"; var l = slog.New(slog.NewTextHandler(&b, nil))`:   true,
		`import x "log/slog"; var l = x.New(x.NewJSONHandler(&b, nil))`:       true,
		`import "log/slog"; var l = slog.New(slog.NewTextHandler(said, nil))`: false,
		`import "log/slog"; var l = buffer.Logger()`:                          false,
	} {
		if got := checkTestLogs(parse(t, "p_test.go", []byte("package p\n"+text))); (len(got) > 0) != bad {
			t.Errorf("%s: got %v; want a violation: %t", text, got, bad)
		}
	}
}
