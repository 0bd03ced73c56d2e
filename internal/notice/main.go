// Command notice writes the file NOTICE: the modules of others that are linked into our programs, and
// their licences. `make notice` runs it; a test fails when the file is not what it writes.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// programs are what we link, by the folder of the module and the package in it. Oracle's is a library.
var programs = [][2]string{
	{".", "./cmd/ringfence"}, {"commitlog/pulsarlog", "./cmd/ringfence-pulsar"}, {"registry/sqlregistry/oracle", "."},
}

// unkept are modules that nobody mends any more, and why they are linked all the same.
var unkept = map[string]string{
	"github.com/gogo/protobuf":   "deprecated since 2022. etcd's client (go.etcd.io/etcd/api) is generated with it; etcd itself moves away from it.",
	"github.com/golang/protobuf": "deprecated in favour of google.golang.org/protobuf, of which it is a thin layer. etcd's client still imports it.",
	"github.com/pkg/errors":      "archived since 2021. Pulsar's client imports it, for ringfence-pulsar alone.",
	"github.com/google/gofuzz":   "archived. The Kubernetes client below Pulsar's client imports it, for ringfence-pulsar alone.",
	"gopkg.in/yaml.v3":           "archived since 2025. Athenz below Pulsar's client imports it, for ringfence-pulsar alone; our own files are read by its successor, go.yaml.in/yaml.",
}

type module struct {
	Path, Version, Dir string
	Main               bool
	Replace            *module
}

func main() {
	text, err := notice(".")
	if err == nil {
		err = os.WriteFile("NOTICE", text, 0o644) //nolint:gosec // for everybody
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "notice:", err)
		os.Exit(1)
	}
}

// linked are the modules of others in a program, by path and version.
func linked(root string, p [2]string) (map[string]module, error) {
	cmd := exec.Command("go", "list", "-deps", "-tags", "grpcnotrace", "-json=Module", p[1])
	cmd.Dir = filepath.Join(root, p[0])
	// On every machine the same list, with what needs cgo.
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=1", "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w: %s", p[0], err, &stderr)
	}
	all := make(map[string]module)
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var x struct{ Module *module }
		if err := d.Decode(&x); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		m := x.Module
		switch {
		case m == nil, m.Main, m.Replace != nil && m.Replace.Version == "": // the standard library, or ours
			continue
		case m.Replace != nil:
			m = m.Replace
		}
		all[m.Path+" "+m.Version] = *m
	}
}

// notice is the text of the file.
func notice(root string) ([]byte, error) {
	type entry struct{ kind, program string }
	entries := make(map[string]entry)         // by module
	texts := make(map[string][]string)        // the modules that have a text
	for i := len(programs) - 1; i >= 0; i-- { // the first one counts
		modules, err := linked(root, programs[i])
		if err != nil {
			return nil, err
		}
		for name, m := range modules {
			kind, found, err := licences(m.Dir)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if _, ok := entries[name]; !ok {
				for _, text := range found {
					texts[text] = append(texts[text], name)
				}
			}
			entries[name] = entry{kind, programs[i][0]}
		}
	}
	var b bytes.Buffer
	b.WriteString("Ringfence is licensed under the Apache License, Version 2.0, see LICENSE. Its programs contain the\n" +
		"following modules of others. Made by `make notice`; don't edit.\n")
	for _, p := range programs {
		fmt.Fprintf(&b, "\n%s %s", p[0], p[1])
		if p[0] != "." {
			b.WriteString(", besides those above")
		}
		b.WriteString("\n\n")
		if p[0] == "." {
			fmt.Fprintf(&b, "    %s (BSD-3-Clause)\n", goItself)
		}
		for _, name := range slices.Sorted(maps.Keys(entries)) {
			if e := entries[name]; e.program == p[0] {
				fmt.Fprintf(&b, "    %s (%s)\n", name, e.kind)
			}
		}
	}
	b.WriteString("\nNobody keeps these any more; they are here because others need them\n\n")
	for _, path := range slices.Sorted(maps.Keys(unkept)) {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(entries)), func(name string) bool { return strings.HasPrefix(name, path+" ") }) {
			return nil, fmt.Errorf("%s is not linked any more: take it out of the list of those that nobody keeps", path)
		}
		fmt.Fprintf(&b, "    %s: %s\n", path, unkept[path])
	}
	for text, names := range texts {
		if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "golang.org/x/sys ") }) {
			names = append(names, goItself) // the same authors, the same text
		}
		slices.Sort(names)
		texts[text] = names
	}
	for _, text := range slices.SortedFunc(maps.Keys(texts), func(x, y string) int { return strings.Compare(texts[x][0]+x, texts[y][0]+y) }) {
		b.WriteString("\n" + strings.Repeat("=", 100) + "\n")
		for _, name := range texts[text] {
			b.WriteString(name + "\n")
		}
		b.WriteString(strings.Repeat("-", 100) + "\n" + text)
	}
	return b.Bytes(), nil
}

const goItself = "Go's runtime and standard library"

// licences are the texts at the top of a module (licence, notice, patents), and what kind the licence is.
// One that is not known is an error: somebody has to read it.
func licences(dir string) (kind string, texts []string, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return "", nil, err
	}
	var kinds []string
	for _, f := range files {
		name := strings.ToUpper(f.Name())
		isLicence := strings.HasPrefix(name, "LICEN") || strings.HasPrefix(name, "COPYING")
		if f.IsDir() || strings.HasSuffix(name, ".GO") || strings.HasSuffix(name, ".TOML") || strings.HasSuffix(name, "-LOGO") || !isLicence && !strings.HasPrefix(name, "NOTICE") && !strings.HasPrefix(name, "PATENTS") {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return "", nil, err
		}
		text := strings.Trim(strings.ReplaceAll(string(raw), "\r\n", "\n"), "\n") + "\n"
		texts = append(texts, text)
		if !isLicence {
			continue
		}
		k := kindOf(text)
		if k == "" {
			return "", nil, fmt.Errorf("%s: a licence that is not known here", f.Name())
		}
		if !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	if len(kinds) == 0 {
		return "", nil, errors.New("no licence")
	}
	return strings.Join(kinds, ", "), texts, nil
}

// kindOf knows the licences that go together with ours by what only they say; "": another one.
func kindOf(text string) string {
	flat := strings.ToLower(strings.Join(strings.Fields(text), " "))
	for _, k := range [][2]string{
		{"mozilla public license version 2.0", "MPL-2.0"}, // it names the next ones
		{"general public license", ""},
		{"apache license version 2.0", "Apache-2.0"},
		{"permission is hereby granted, free of charge", "MIT"},
		{"neither the name", "BSD-3-Clause"},
		{"names of its contributors may be used to endorse", "BSD-3-Clause"},
		{"redistributions of source code must retain", "BSD-2-Clause"},
		{"permission to use, copy, modify, and", "ISC"},
	} {
		if strings.Contains(flat, k[0]) {
			return k[1]
		}
	}
	return ""
}
