package testserver

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// WithEnviron are the processes that have a variable in their environment.
func WithEnviron(t testing.TB, kv string) (pids []string) {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		if environ, err := os.ReadFile(path); err == nil && bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+kv+"\x00")) {
			pids = append(pids, filepath.Base(filepath.Dir(path)))
		}
	}
	return pids
}
