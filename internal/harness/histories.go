package harness

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/ringfence/ringfence/internal/history"
)

// Read calls each for the events in a file since a moment, in the order of their time. The file
// may still grow. One that is not there yet holds none.
func Read(path string, since int64, each func(history.Event)) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	for r := history.NewReader(f); ; {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if e.At >= since {
			each(e)
		}
	}
}

// Judge gives the histories in files to the checker. complete says that everything was consumed.
func Judge(cfg history.Config, complete bool, paths ...string) (*history.Report, error) {
	var readers []io.Reader
	var files []*os.File
	defer func() {
		for _, f := range files {
			_ = f.Close() // only read
		}
	}()
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("history: %w", err)
		}
		files, readers = append(files, f), append(readers, f)
	}
	return history.Check(cfg, complete, readers...)
}
