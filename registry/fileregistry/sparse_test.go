package fileregistry

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/limits"
	"github.com/ringfence/ringfence/registry"
)

// A hole of terabytes costs nobody anything to make. To look behind the last frame for damage would take
// an hour, and to make the other file as large would fill the disk.
func TestAJournalOfTerabytesOfNothingIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"journal-0", "journal-1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			r, err := Open(t.Context(), Config{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "a", Value: []byte("1")}}}); err != nil {
				t.Fatal(err)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "registry", name)
			if err := os.Truncate(path, 1<<42); err != nil {
				t.Fatal("expected a file system that has such files: ", err)
			}
			late := time.AfterFunc(20*time.Second, func() {
				t.Error("it was still being read after 20 s")
				_ = os.Truncate(path, 0) // ends that
			})
			err = useAll(t, dir)
			late.Stop()
			if current := name == "journal-1"; current && !errors.Is(err, fault.Corrupt) || !current && err != nil && !errors.Is(err, fault.Corrupt) {
				t.Errorf("error %v; expected damage", err)
			}
			for _, n := range []string{"journal-0", "journal-1"} {
				if st, err := os.Stat(filepath.Join(dir, "registry", n)); err != nil || n != name && st.Size() > limits.JournalBytes {
					t.Errorf("%s: %v, %v", n, st, err)
				}
			}
		})
	}
}

// useAll opens the registry and has it begin a generation, in either file.
func useAll(t *testing.T, dir string) error {
	t.Helper()
	r, err := Open(t.Context(), Config{Dir: dir})
	if err != nil {
		return err
	}
	_, err = r.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "a", Value: []byte("2")}}})
	return errors.Join(err, r.Close())
}
