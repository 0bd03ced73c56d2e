package sqlregistry

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/registry/driver"
)

// A stranger who can read a file of the registry reads it, and stops it with one lock.
func TestFilesOfSQLiteAreForTheirOwnerAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "registry.db")
	s := openStore(t, Config{File: path})
	if _, err := s.Apply(t.Context(), []driver.Txn{{Puts: []driver.Put{{Key: "k", Value: []byte("v")}}}}); err != nil {
		t.Fatal(err)
	}
	var found []string
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		found = append(found, e.Name())
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if open := info.Mode().Perm() & 0o077; open != 0 && info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("%s is %s; expected that nobody else can open it", e.Name(), info.Mode())
		}
	}
	for _, name := range []string{"registry.db", "registry.db-wal", "registry.db-shm", "registry.db-sessions", "registry.db-sessions-wal"} {
		if !slices.Contains(found, name) {
			t.Errorf("%s is not among %s", name, strings.Join(found, ", "))
		}
	}
	for _, name := range found {
		if strings.Contains(name, "-new-") {
			t.Errorf("%s was left", name)
		}
	}
}
