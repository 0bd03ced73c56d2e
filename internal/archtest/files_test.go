package archtest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	lookTwice  = 400 // lines from which on a file is named in the test's log
	maxLines   = 700
	typicalMax = 250 // the median file
)

// long are the files that may have more than maxLines lines, each with its reason.
var long = map[string]string{}

// checkLength gives a line for each file that is too long, and for each needless exception.
func checkLength(files map[string]int, except map[string]string) []string {
	var bad []string
	for path, n := range files {
		if n > maxLines && except[path] == "" {
			bad = append(bad, fmt.Sprintf("%s has %d lines; at most %d: split it by what changes together", path, n, maxLines))
		}
	}
	for path := range except {
		if files[path] <= maxLines {
			bad = append(bad, fmt.Sprintf("%s is excepted from the length limit and has %d lines: drop the exception", path, files[path]))
		}
	}
	return bad
}

func TestFilesStayShort(t *testing.T) {
	t.Parallel()
	files := map[string]int{}
	var lengths []int
	for _, s := range sources(t) {
		files[s.path] = s.lines
		if s.lines > lookTwice {
			t.Logf("look twice: %s has %d lines", s.path, s.lines)
		}
		if !s.test() {
			lengths = append(lengths, s.lines)
		}
	}
	report(t, checkLength(files, long))
	slices.Sort(lengths)
	if median := lengths[len(lengths)/2]; median > typicalMax {
		t.Errorf("the median file has %d lines; a typical file has 200 or fewer", median)
	}
}

func TestLengthCheckNoticesLongFilesAndNeedlessExceptions(t *testing.T) {
	t.Parallel()
	files := map[string]int{"a.go": maxLines, "b.go": maxLines + 1, "c.go": maxLines + 1, "d.go": 3}
	got := checkLength(files, map[string]string{"c.go": "a table", "d.go": "was long once", "gone.go": "was removed"})
	slices.Sort(got)
	if len(got) != 3 || !strings.HasPrefix(got[0], "b.go") || !strings.HasPrefix(got[1], "d.go") || !strings.HasPrefix(got[2], "gone.go") {
		t.Errorf("got %q; want b.go, d.go and gone.go", got)
	}
}

// leftOpen are words for work that was put off: it is done, or it is an issue.
var leftOpen = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)

func TestNothingIsLeftOpen(t *testing.T) {
	t.Parallel()
	texts := []string{".go", ".md", ".txt", ".sh", ".yml", ".yaml", "Makefile", "/run"}
	walk(t, func(path string, read func() []byte) {
		if !slices.ContainsFunc(texts, func(end string) bool { return strings.HasSuffix(path, end) }) {
			return
		}
		for i, line := range strings.Split(string(read()), "\n") {
			if m := leftOpen.FindString(line); m != "" {
				t.Errorf("%s:%d says %s: do it or file it", path, i+1, m)
			}
		}
	})
}

func TestLeftOpenMatchesTheWordsOnly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"// TO" + "DO: later": true, "FIX" + "ME": true, "mastodons": false, "TO" + "DOS": false} {
		if got := leftOpen.MatchString(text); got != want {
			t.Errorf("%q: got %t; want %t", text, got, want)
		}
	}
}
