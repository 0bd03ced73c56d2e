package archtest

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the folder of the main module.
const root = "../.."

// files reads the text files of the repository: Go code and pages, by path.
func files(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, full)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{".git", "bin", "ringfence-data"}, rel) || d.Name() == ".services" {
				return filepath.SkipDir
			}
			return nil
		}
		if ext := filepath.Ext(rel); ext == ".go" || ext == ".md" {
			text, err := os.ReadFile(full)
			if err != nil {
				return err
			}
			all[filepath.ToSlash(rel)] = string(text)
		}
		return nil
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("%d files: %v", len(all), err)
	}
	return all
}

// starts matches code that starts a goroutine: by itself, or through a wait group.
var starts = regexp.MustCompile(`(?m)^\s*go (func\(|[\w.]+\()|\.Go\((func|\w+\))`)

// A goroutine that outlives its test is found by goleak, in the TestMain of the package.
func TestPackagesThatStartGoroutinesLookForLeaks(t *testing.T) {
	t.Parallel()
	tested, starting, looking := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for file, text := range files(t) {
		dir, test := path.Dir(file), strings.HasSuffix(file, "_test.go")
		tested[dir] = tested[dir] || test
		starting[dir] = starting[dir] || strings.HasSuffix(file, ".go") && starts.MatchString(text)
		looking[dir] = looking[dir] || test && strings.Contains(text, "goleak.Verify")
	}
	for dir := range starting {
		if starting[dir] && tested[dir] && !looking[dir] {
			t.Errorf("%s starts goroutines: its tests need goleak.VerifyTestMain in a TestMain", dir)
		}
	}
}

// A test waits for a condition, or for the clock of a synctest bubble. Few have to let real time pass;
// the line that does so says why, in a comment at its end.
func TestTestsSleepInBubblesOnly(t *testing.T) {
	t.Parallel()
	for file, text := range files(t) {
		if !strings.HasSuffix(file, "_test.go") || strings.Contains(text, `"testing/synctest"`) || strings.HasPrefix(file, "internal/archtest/") {
			continue
		}
		n := 0
		for line := range strings.Lines(text) {
			n++
			if strings.Contains(line, "time.Sleep") && !strings.Contains(line, "// ") {
				t.Errorf("%s:%d sleeps: wait for a condition, use testing/synctest, or say why in a comment on that line", file, n)
			}
		}
	}
}

var namedFile = regexp.MustCompile("`([A-Za-z0-9_./-]+\\.go)`")

// A page may leave out the folder of a file. Changelogs tell what was.
func TestPagesNameFilesThatAreThere(t *testing.T) {
	t.Parallel()
	all := files(t)
	for page, text := range all {
		if !strings.HasSuffix(page, ".md") || strings.HasPrefix(strings.ToLower(page), "changelog") {
			continue
		}
		for _, m := range namedFile.FindAllStringSubmatch(text, -1) {
			there := false
			for file := range all {
				there = there || file == m[1] || strings.HasSuffix(file, "/"+m[1])
			}
			if !there {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
	}
}
