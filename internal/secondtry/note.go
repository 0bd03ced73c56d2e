package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// note puts a second try that counts on the list, and keeps what both tries printed.
func note(dir string, failed []failure, first, second *stream, out io.Writer) error {
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "second-tries"); err != nil {
			return err
		}
	}
	one, err := keep(dir, "first-*.txt", first)
	if err != nil {
		return err
	}
	two, err := keep(dir, "second-*.txt", second)
	if err != nil {
		return err
	}
	list, err := os.OpenFile(filepath.Join(dir, "list"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	for _, f := range failed {
		line := fmt.Sprintf("%s %s: failed (%s), then passed (%s)\n", f.pkg, f.test, one, two)
		fmt.Fprint(out, "second try: ", line)
		if _, err := list.WriteString(line); err != nil {
			_ = list.Close()
			return err
		}
	}
	return list.Close()
}

func keep(dir, pattern string, s *stream) (string, error) {
	f, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return "", err
	}
	if _, err := f.Write(s.all.Bytes()); err != nil {
		_ = f.Close()
		return "", err
	}
	return f.Name(), f.Close()
}
