package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// event is one line of `go test -json`; see `go doc test2json` and `go help buildjson`.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of what is built
	Test        string
	Output      string
	FailedBuild string
}

// unit is a test, with its subtests apart, or with the empty name what belongs to a whole package.
type unit struct {
	pkg    string
	test   string
	result string // pass, fail or skip; empty while it runs, and for ever when its process died
	broken bool   // the package did not build
	output strings.Builder
}

// stream reads events and shows what go test would have shown without -json: for each package its
// line, and before it what was printed by tests that failed and by the package itself.
type stream struct {
	out   io.Writer
	part  []byte           // of a line
	units map[string]*unit // by package and test
	order []*unit
	build map[string]*strings.Builder
	all   bytes.Buffer    // everything that was shown
	alien strings.Builder // lines that are no events
}

func newStream(out io.Writer) *stream {
	return &stream{out: out, units: map[string]*unit{}, build: map[string]*strings.Builder{}}
}

func (s *stream) Write(p []byte) (int, error) {
	s.part = append(s.part, p...)
	for {
		end := bytes.IndexByte(s.part, '\n')
		if end < 0 {
			return len(p), nil
		}
		s.line(s.part[:end])
		s.part = s.part[end+1:]
	}
}

func (s *stream) line(b []byte) {
	var e event
	if err := json.Unmarshal(b, &e); err != nil || e.Action == "" {
		s.alien.WriteString(string(b) + "\n")
		s.show(string(b) + "\n")
		return
	}
	if e.Package == "" {
		s.builds(e)
		return
	}
	u := s.unit(e.Package, e.Test)
	switch e.Action {
	case "output":
		u.output.WriteString(e.Output)
	case "pass", "fail", "skip":
		u.result, u.broken = e.Action, e.FailedBuild != ""
		if u.test == "" {
			s.finish(u, e.FailedBuild)
		}
	}
}

func (s *stream) builds(e event) {
	if e.Action != "build-output" {
		return
	}
	b := s.build[e.ImportPath]
	if b == nil {
		b = new(strings.Builder)
		s.build[e.ImportPath] = b
	}
	b.WriteString(e.Output)
}

func (s *stream) unit(pkg, test string) *unit {
	key := pkg + " " + test
	u := s.units[key]
	if u == nil {
		u = &unit{pkg: pkg, test: test}
		s.units[key] = u
		s.order = append(s.order, u)
	}
	return u
}

// finish shows a package that has ended.
func (s *stream) finish(whole *unit, build string) {
	if b := s.build[build]; b != nil {
		s.show(b.String())
	}
	if whole.result == "fail" {
		for _, u := range s.tests(whole.pkg) {
			if u.result != "pass" && u.result != "skip" {
				s.show(announced.ReplaceAllString(u.output.String(), ""))
			}
		}
	}
	for line := range strings.Lines(whole.output.String()) {
		if line != "PASS\n" {
			s.show(line)
		}
	}
}

// announced are lines that go test prints with -v only.
var announced = regexp.MustCompile(`(?m)^\s*=== (RUN|PAUSE|CONT|NAME) .*\n`)

// tests are those of a package, subtests too, in the order in which they began.
func (s *stream) tests(pkg string) []*unit {
	return slices.DeleteFunc(slices.Clone(s.order), func(u *unit) bool { return u.pkg != pkg || u.test == "" })
}

// packages are those that go test spoke of.
func (s *stream) packages() []*unit {
	return slices.DeleteFunc(slices.Clone(s.order), func(u *unit) bool { return u.test != "" })
}

func (s *stream) show(text string) {
	s.all.WriteString(text)
	fmt.Fprint(s.out, text)
}

// top is the name of a test without those of its subtests.
func top(test string) string {
	name, _, _ := strings.Cut(test, "/")
	return name
}
