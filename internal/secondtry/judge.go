package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// most is how many tests may get a second try in one run: when more fail, no stall is to blame.
const most = 3

// failure is a test that may be tried again.
type failure struct{ pkg, test string }

func packagesOf(failed []failure) []string {
	set := map[string]bool{}
	for _, f := range failed {
		set[f.pkg] = true
	}
	return slices.Sorted(maps.Keys(set))
}

func names(failed []failure) string {
	var all []string
	for _, f := range failed {
		all = append(all, f.test)
	}
	return strings.Join(all, ", ")
}

// judge gives the tests that failed, and the reasons why there is no second try. Both are empty
// when all went well.
func (s *stream) judge(ok bool) (failed []failure, why []string) {
	for _, p := range s.packages() {
		if p.result == "pass" || p.result == "skip" {
			continue
		}
		f, w := s.judgePackage(p)
		failed, why = append(failed, f...), append(why, w...)
	}
	if word := grave.FindString(s.alien.String()); word != "" && !ok {
		why = append(why, fmt.Sprintf("go test printed %q", word))
	}
	switch {
	case !ok && len(failed) == 0 && len(why) == 0:
		why = append(why, "go test failed, and no package did")
	case ok && len(s.packages()) == 0:
		why = append(why, "go test spoke of no package")
	case len(failed) > most:
		why = append(why, fmt.Sprintf("%d tests failed, more than %d", len(failed), most))
	}
	return failed, why
}

func (s *stream) judgePackage(p *unit) (failed []failure, why []string) {
	refuse := func(format string, args ...any) {
		why = append(why, p.pkg+" "+fmt.Sprintf(format, args...))
	}
	printed := map[string]*strings.Builder{} // by the failed tests, with their failed subtests
	for _, u := range s.tests(p.pkg) {
		switch u.result {
		case "":
			refuse("ended while %s ran", u.test)
		case "fail":
			name := top(u.test)
			if printed[name] == nil {
				printed[name] = new(strings.Builder)
				failed = append(failed, failure{p.pkg, name})
			}
			printed[name].WriteString(said(u))
		}
	}
	switch {
	case p.broken:
		refuse("does not build")
	case p.result == "":
		refuse("did not end")
	case len(failed) == 0:
		refuse("failed though none of its tests did")
	case !listed(stalling, p.pkg):
		refuse("is not in the list of those that talk to servers or start processes")
	}
	if text := strings.TrimSpace(said(p)); text != "" {
		refuse("printed something outside of its tests: %.100q", text)
	}
	for _, f := range failed {
		text := printed[f.test].String()
		if word := grave.FindString(text); word != "" {
			refuse("%s says %q, which no stall explains", f.test, word)
		} else if !late.MatchString(text) {
			refuse("%s does not say that it waited in vain", f.test)
		}
	}
	return failed, why
}

// confirms gives the reasons why a second try does not excuse what failed in the first.
func (s *stream) confirms(ok bool, failed []failure) (why []string) {
	if !ok {
		why = append(why, "go test failed")
	}
	for _, f := range failed {
		if u := s.units[f.pkg+" "+f.test]; u == nil {
			why = append(why, f.test+" was not run")
		} else if u.result != "pass" {
			why = append(why, f.test+" did not pass")
		}
		if p := s.units[f.pkg+" "]; p == nil || p.result != "pass" {
			why = append(why, f.pkg+" did not pass")
		}
	}
	return why
}

// framing are lines of go test itself. They name tests and durations, which say nothing.
var framing = regexp.MustCompile(`(?m)^\s*(=== |--- |(ok|FAIL|PASS)\b|exit status).*$`)

func said(u *unit) string { return framing.ReplaceAllString(u.output.String(), "") }

// listed says whether a list names a package: itself, or a tree written as "path/...".
func listed(list []string, pkg string) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		tree, whole := strings.CutSuffix(entry, "/...")
		return pkg == entry || whole && (pkg == tree || strings.HasPrefix(pkg, tree+"/"))
	})
}
