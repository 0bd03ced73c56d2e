package archtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/ringfence/ringfence"

// A layer is a package, or with a trailing /... a tree of packages, and what of ours it may import
// outside of its tests. Every package has to stand here: where a new one belongs is a decision.
type layer struct {
	name string
	may  []string
}

// leaf packages know nothing of the product and may be imported from anywhere.
var leaf = []string{"api", "internal/access", "internal/fault", "internal/hook", "internal/limits", "internal/spell", "internal/storeurl"}

var layers = []layer{
	// Leaves.
	{"api", nil},
	{"internal/access", nil},
	{"internal/fault", nil},
	{"internal/hook", nil},
	{"internal/limits", nil},
	{"internal/memtest", nil},
	{"internal/prefetch", nil},
	{"internal/rest", nil},
	{"internal/script", nil},
	{"internal/spell", nil},
	{"internal/storeurl", nil},
	{"internal/visible", nil},
	{"internal/freeze", nil},
	{"internal/testdisk", nil},
	{"internal/testlog", nil},
	{"internal/testserver", nil},
	{"internal/vfs/...", nil},
	{"internal/archtest", nil},
	{"test/e2e", nil},
	{"test/mutants", nil},

	// The log seam and its backends.
	{"commitlog/driver", nil},
	{"commitlog", []string{"commitlog/driver"}},
	{"commitlog/logtest", []string{"commitlog", "commitlog/driver"}},
	{"commitlog/memlog", []string{"commitlog", "commitlog/driver"}},
	{"internal/segment", []string{"commitlog/driver"}},
	{"commitlog/filelog/internal/page", []string{"internal/segment", "internal/vfs"}},
	{"commitlog/filelog", []string{"commitlog", "commitlog/driver", "commitlog/filelog/internal/page", "internal/prefetch", "internal/segment", "internal/vfs"}},
	{"test/crash", []string{"commitlog", "commitlog/driver", "commitlog/filelog", "internal/segment", "internal/vfs"}},
	{"commitlog/kafkalog", []string{"commitlog", "commitlog/driver"}},

	// The registry seam and its backends.
	{"registry/driver", nil},
	{"registry", []string{"registry/driver"}},
	{"registry/internal/...", []string{"registry/driver"}},
	{"registry/registrytest", []string{"registry", "registry/driver"}},
	{"registry/*registry", []string{"registry", "registry/driver", "registry/internal/...", "internal/vfs"}},

	// What is clever, once, above the seams.
	{"assign", nil},
	{"group/protocol", []string{"registry", "registry/driver"}},
	{"group/protocol/protocoltest", []string{"group/protocol", "registry", "registry/driver", "registry/registrytest"}},
	{"topic", []string{"commitlog", "group/protocol", "registry"}},
	{"mirror", []string{"commitlog", "group/protocol", "registry", "subscription", "topic"}},
	{"internal/history", []string{"group/protocol", "registry"}},
	{"group/core", []string{"assign", "group/protocol", "registry", "registry/driver"}},
	{"dispatch", []string{"commitlog", "group/protocol", "registry"}},
	{"subscription/core", nil},
	{"subscription/filter", []string{"commitlog"}},
	{"subscription/sim", []string{"subscription/core"}},
	{"subscription/shard", []string{"commitlog", "dispatch", "group/protocol", "registry", "subscription/core"}},
	{"group", []string{"assign", "group/core", "group/protocol", "registry", "registry/driver"}},
	{"group/sim", []string{"assign", "group/core", "group/protocol", "internal/history", "registry", "registry/driver"}},

	{"ring", []string{"assign", "group", "group/protocol", "registry", "registry/driver"}},
	{"consumer", []string{"assign", "commitlog", "dispatch", "group", "group/protocol", "registry", "topic"}},
	{"subscription", []string{"commitlog", "consumer", "dispatch", "group", "group/protocol", "registry", "subscription/core", "subscription/filter", "subscription/shard", "topic"}},

	{"admin", []string{"consumer", "registry", "ring", "subscription", "subscription/core", "topic"}},

	{"remote/core", nil},
	{"remote/sim", []string{"remote/core"}},
	{"remote", []string{"commitlog", "consumer", "dispatch", "group", "group/protocol", "registry", "remote/core", "subscription", "subscription/shard"}},

	{"backup", []string{"commitlog/filelog", "internal/vfs", "registry/fileregistry"}},

	// The front door knows the embedded backends by itself; clients of servers come in from outside.
	{"internal/embedded", []string{"commitlog", "commitlog/driver", "commitlog/filelog", "commitlog/memlog", "registry", "registry/driver", "registry/fileregistry", "registry/memregistry"}},
	{"internal/stores", []string{"commitlog", "commitlog/driver", "internal/embedded", "registry", "registry/driver"}},
	{"", []string{
		"admin", "commitlog", "commitlog/driver", "consumer", "dispatch", "group", "group/protocol", "internal/stores", "registry", "registry/driver", "remote",
		"ring", "subscription", "subscription/shard", "topic",
	}},

	{"backends", []string{"", "commitlog/*log", "registry/*registry"}},

	{"push", []string{"", "admin", "subscription", "subscription/shard"}},

	// The door for programs of any language, and its client.
	{"client", nil},
	{"internal/auth", []string{"commitlog", "topic"}},
	{"internal/daemon", []string{"", "admin", "client", "commitlog", "internal/auth", "remote", "topic"}},

	// Programs, and what they share.
	{"internal/apply", []string{"admin", "subscription"}},
	{"internal/command", []string{""}},
	{"internal/pipe", []string{"", "commitlog"}},
	{"internal/guard", nil},
	{"internal/measure", []string{"...", "!cmd/..."}},
	{"internal/growtest", []string{"", "admin"}},
	{"internal/delivertest", []string{"", "internal/verify", "push"}},
	{"internal/harness", []string{"", "commitlog", "commitlog/driver", "group/protocol", "internal/freeze", "internal/history", "registry", "registry/driver"}},
	{"internal/verify", []string{"", "admin", "commitlog", "internal/harness", "internal/history", "internal/script"}},
	{"test/nemesis", nil},
	{"test/back", nil},
	{"internal/doctest", []string{"internal/testserver"}},
	{"internal/cli", []string{"...", "!cmd/..."}},
	{"cmd/...", []string{"..."}},
	{"examples/...", []string{"...", "!cmd/...", "!internal/cli"}},
}

// matches says whether a package lies in a pattern: a name of path.Match, or a tree written as "dir/...".
func matches(pattern, name string) bool {
	if tree, ok := strings.CutSuffix(pattern, "..."); ok {
		tree = strings.TrimSuffix(tree, "/")
		return tree == "" || name == tree || strings.HasPrefix(name, tree+"/")
	}
	ok, _ := path.Match(pattern, name) // the table has no malformed pattern
	return ok
}

func allowed(may []string, name string) bool {
	ok := slices.Contains(leaf, name)
	for _, p := range may {
		if not, found := strings.CutPrefix(p, "!"); found {
			ok = ok && !matches(not, name)
		} else {
			ok = ok || matches(p, name)
		}
	}
	return ok
}

// layerOf finds the row of a package; the longest pattern wins.
func layerOf(table []layer, name string) (layer, bool) {
	best, found := layer{}, false
	for _, l := range table {
		if matches(l.name, name) && (!found || len(l.name) > len(best.name)) {
			best, found = l, true
		}
	}
	return best, found
}

// checkImports gives a line for each import of ours that the table does not allow.
func checkImports(table []layer, name string, imports []string) []string {
	own, ok := layerOf(table, name)
	if !ok {
		return []string{fmt.Sprintf("package %q stands in no layer: add a row to layers in internal/archtest that says what it may import", name)}
	}
	var bad []string
	for _, i := range imports {
		if i != module && !strings.HasPrefix(i, module+"/") {
			continue
		}
		target := strings.TrimPrefix(strings.TrimPrefix(i, module), "/")
		if same, ok := layerOf(table, target); ok && same.name == own.name && strings.HasSuffix(own.name, "...") {
			continue // within one tree
		}
		if !allowed(own.may, target) {
			bad = append(bad, fmt.Sprintf("package %q imports %q: imports point down; allowed are %v and the leaves %v", name, target, own.may, leaf))
		}
	}
	return bad
}

// pkg is what `go list -json` says of one package.
type pkg struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Module     *struct{ Path string }
}

func list(t *testing.T, args ...string) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-tags", "grpcnotrace", "-json=ImportPath,Standard,Imports,Module"}, args...)...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestImportsPointDown(t *testing.T) {
	t.Parallel()
	for _, p := range list(t, "./...") {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		report(t, checkImports(layers, name, p.Imports))
	}
}

func TestImportCheckNoticesUpwardAndUnlistedPackages(t *testing.T) {
	t.Parallel()
	table := []layer{{"low", nil}, {"high", []string{"low"}}, {"tree/...", []string{"...", "!high"}}}
	for _, c := range []struct {
		name    string
		imports []string
		bad     bool
	}{
		{"high", []string{module + "/low", "fmt"}, false},
		{"high", []string{module + "/internal/fault"}, false},
		{"low", []string{module + "/high"}, true},
		{"low", []string{module}, true},
		{"low", []string{module + "x/high"}, false},
		{"tree/a", []string{module + "/tree/b", module + "/low"}, false},
		{"tree/a", []string{module + "/high"}, true},
		{"new", nil, true},
	} {
		if got := checkImports(table, c.name, c.imports); (len(got) > 0) != c.bad {
			t.Errorf("%s importing %v: got %v; want a violation: %t", c.name, c.imports, got, c.bad)
		}
	}
}

// core packages are what a program links that uses the library; the modules they pull in are all
// named here. A backend's client never is.
var (
	core        = []string{".", "./commitlog", "./registry", "./assign", "./group", "./topic", "./subscription", "./ring"}
	coreModules = []string{
		"golang.org/x/sys",             // fdatasync, flock, futex, inotify
		"github.com/cespare/xxhash/v2", // the router's hash
		"github.com/expr-lang/expr",    // filters of subscriptions; it pulls in nothing
	}
)

// checkModules gives a line for each package from a module that is not allowed.
func checkModules(deps []pkg, allow []string) []string {
	var bad []string
	seen := map[string]bool{}
	for _, p := range deps {
		if p.Standard || p.Module == nil || p.Module.Path == module || slices.Contains(allow, p.Module.Path) || seen[p.Module.Path] {
			continue
		}
		seen[p.Module.Path] = true
		bad = append(bad, fmt.Sprintf("the core pulls in %s (by %s): it may depend on %v only", p.Module.Path, p.ImportPath, allow))
	}
	return bad
}

func TestCoreDependsOnNamedModulesOnly(t *testing.T) {
	t.Parallel()
	var present []string
	for _, p := range list(t, "./...") {
		name := "./" + strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if name == "./" {
			name = "."
		}
		if slices.Contains(core, name) {
			present = append(present, name)
		}
	}
	report(t, checkModules(list(t, append([]string{"-deps"}, present...)...), coreModules))
}

// report fails the test with one line for each violation.
func report(t *testing.T, violations []string) {
	t.Helper()
	for _, v := range violations {
		t.Error(v)
	}
}
