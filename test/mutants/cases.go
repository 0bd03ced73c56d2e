package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutant is one deliberate bug.
type mutant struct {
	name      string
	breaks    string // the promise, for people
	file      string // in which the bug is
	after     string
	find, put string
	pkg, test string // that catch it
}

// readCases reads the archives of a folder.
func readCases(dir string) ([]mutant, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil {
		return nil, err
	}
	var all []mutant
	known := map[string]bool{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		cases, err := parseCases(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, m := range cases {
			if known[m.name] {
				return nil, fmt.Errorf("%s: a case named %s is there already: name each one differently", path, m.name)
			}
			known[m.name] = true
		}
		all = append(all, cases...)
	}
	return all, nil
}

// parseCases reads an archive: each file of it is a case.
func parseCases(text string) ([]mutant, error) {
	var all []mutant
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "-- "); ok {
			all = append(all, mutant{name: strings.TrimSuffix(name, " --")})
			continue
		}
		if len(all) == 0 || line == "" {
			continue
		}
		m := &all[len(all)-1]
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimLeft(value, " ")
		switch key {
		case "breaks":
			m.breaks = value
		case "file":
			m.file = value
		case "after":
			m.after = value
		case "find":
			m.find = value
		case "put":
			m.put = value
		case "test":
			m.pkg, m.test, _ = strings.Cut(value, " ")
		default:
			return nil, fmt.Errorf("%s: unknown line %q: expected breaks, file, after, find, put and test", m.name, line)
		}
	}
	for _, m := range all {
		if m.breaks == "" || m.file == "" || m.find == "" || m.pkg == "" || m.test == "" {
			return nil, fmt.Errorf("%s lacks a line: expected breaks, file, find and test", m.name)
		}
	}
	return all, nil
}

// apply puts the bug into the text of its file.
func (m mutant) apply(source string) (string, error) {
	from := strings.Index(source, m.after)
	if from < 0 {
		return "", fmt.Errorf("%s: %s does not contain %q any more: adapt the case in test/mutants/cases, or drop it", m.name, m.file, m.after)
	}
	n := strings.Count(source[from:], m.find)
	if n == 0 || n > 1 && m.after == "" {
		return "", fmt.Errorf("%s: %s contains %d times, not once, %q: adapt the case in test/mutants/cases, or drop it", m.name, m.file, n, m.find)
	}
	return source[:from] + strings.Replace(source[from:], m.find, m.put, 1), nil
}
