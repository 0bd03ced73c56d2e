package archtest

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	quoted   = regexp.MustCompile("`([^`]+)`")
	goSource = regexp.MustCompile(`^[A-Za-z0-9_*/.-]+\.(go|sql|lua)$`)
)

// checkTable holds the table of packages in ARCHITECTURE.md against the folders that have Go files: each
// has a row, or is named in that of a folder above it, and a file that a row says to read first is there.
func checkTable(text string, files []string) []string {
	folders, known := map[string]bool{}, map[string]bool{}
	for _, f := range files {
		known[f] = true
		if strings.HasSuffix(f, ".go") && !strings.HasSuffix(f, "_test.go") {
			folders[path.Dir(f)] = true
		}
	}
	rows := map[string][]string{} // what stands in backticks behind a folder
	var wrong []string
	_, table, _ := strings.Cut(text, "| package | what it is | read first |\n")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			break
		}
		var names []string
		for _, m := range quoted.FindAllStringSubmatch(line, -1) {
			names = append(names, m[1])
		}
		if len(names) == 0 {
			continue
		}
		folder := names[0]
		rows[folder] = names[1:]
		has := slices.ContainsFunc(files, func(f string) bool { return strings.HasPrefix(path.Dir(f)+"/", folder+"/") })
		if !has && folder != "." {
			wrong = append(wrong, fmt.Sprintf("ARCHITECTURE.md: %s has a row, and is no folder with Go files", folder))
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[3], -1) {
			if goSource.MatchString(m[1]) && !known[path.Join(folder, m[1])] {
				wrong = append(wrong, fmt.Sprintf("ARCHITECTURE.md: %s has no %s to read first", folder, m[1]))
			}
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		if !inTable(rows, folder) {
			wrong = append(wrong, fmt.Sprintf("ARCHITECTURE.md: the table of packages has no %s; give it a row, or name it in that of a folder above it", folder))
		}
	}
	return wrong
}

func inTable(rows map[string][]string, folder string) bool {
	if _, ok := rows[folder]; ok {
		return true
	}
	for above := path.Dir(folder); above != "."; above = path.Dir(above) {
		if rest := strings.TrimPrefix(folder, above+"/"); slices.Contains(rows[above], rest) {
			return true
		}
	}
	return false
}

// checkNamedFiles tells the Go files that a page names and that are not there. A page may leave out the folder.
func checkNamedFiles(page, text string, files []string) []string {
	var wrong []string
	for _, m := range quoted.FindAllStringSubmatch(text, -1) {
		there := func(f string) bool { return f == m[1] || strings.HasSuffix(f, "/"+m[1]) }
		if strings.HasSuffix(m[1], ".go") && goSource.MatchString(m[1]) && !strings.Contains(m[1], "*") && !slices.ContainsFunc(files, there) {
			wrong = append(wrong, fmt.Sprintf("%s: there is no %s", page, m[1]))
		}
	}
	return wrong
}

// The changelog tells what was, all other pages what is.
func TestPagesNameFilesThatAreThere(t *testing.T) {
	t.Parallel()
	var files []string
	pages := map[string]string{}
	walk(t, func(p string, read func() []byte) {
		files = append(files, p)
		if strings.HasSuffix(p, ".md") && p != "CHANGELOG.md" && !strings.HasPrefix(p, "changelog/") {
			pages[p] = string(read())
		}
	})
	for p, text := range pages {
		report(t, checkNamedFiles(p, text, files))
	}
	if got := checkNamedFiles("p", "`a/b.go`, `b.go`, `*_test.go`, `c.go`", []string{"x/a/b.go"}); len(got) != 1 || !strings.Contains(got[0], "c.go") {
		t.Errorf("%q: expected c.go alone", got)
	}
}

func TestTheTableOfPackagesIsWhole(t *testing.T) {
	t.Parallel()
	var files []string
	var text string
	walk(t, func(p string, read func() []byte) {
		files = append(files, p)
		if p == "ARCHITECTURE.md" {
			text = string(read())
		}
	})
	report(t, checkTable(text, files))
}

func TestTableCheckNoticesWhatIsMissing(t *testing.T) {
	t.Parallel()
	text := "| package | what it is | read first |\n|---|---|---|\n| `a` | with `in` | `a.go`, then `b/b.go` |\n| `gone` | | `x.go` |\n\nText with `c`.\n"
	got := checkTable(text, []string{"a/a.go", "a/in/x.go", "a/b/y.go", "c/c.go", "d/d_test.go"})
	for _, want := range []string{"a has no b/b.go", "gone has a row", "gone has no x.go", "no a/b;", "no c;"} {
		if !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	if len(got) != 5 {
		t.Errorf("%q: expected five", got)
	}
}
