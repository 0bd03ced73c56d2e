package limits

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inCode are the constants of this package, as the page writes them.
func inCode(t *testing.T) map[string]string {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "limits.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	pkg, err := new(types.Config).Check("limits", files, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, name := range pkg.Scope().Names() {
		if c, ok := pkg.Scope().Lookup(name).(*types.Const); ok {
			n, _ := constant.Int64Val(c.Val())
			out[name] = text(n, strings.HasSuffix(name, "Bytes"))
		}
	}
	return out
}

func text(n int64, bytes bool) string {
	switch {
	case bytes && n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprint(n>>20, " MiB")
	case bytes && n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprint(n>>10, " KiB")
	case bytes:
		return fmt.Sprint(n, " bytes")
	}
	return fmt.Sprint(n)
}

var row = regexp.MustCompile("(?m)^\\|[^|]*\\| ([^|]*) \\|[^|]*\\| `([A-Za-z]+)` \\|$")

func TestThePageHasTheLimitsOfTheCode(t *testing.T) {
	page, err := os.ReadFile("../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	code, docs := inCode(t), map[string]string{}
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		docs[m[2]] = m[1]
	}
	names := slices.Sorted(maps.Keys(code))
	for name := range docs {
		if _, ok := code[name]; !ok {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if code[name] != docs[name] {
			t.Errorf("%s is %q in the code and %q on the page", name, code[name], docs[name])
		}
	}
	if len(code) == 0 {
		t.Error("there are no limits")
	}
}
