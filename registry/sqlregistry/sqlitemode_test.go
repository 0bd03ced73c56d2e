package sqlregistry

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

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

// refusedFile opens a database that is refused with these words, unless it is allowed.
func refusedFile(t *testing.T, path string, says ...string) {
	t.Helper()
	s, err := open(t.Context(), Config{File: path})
	if err == nil {
		_ = s.Close()
	}
	for _, say := range says {
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: %v; expected it to be refused with %q", path, err, say)
		}
	}
	r, err := OpenURL(t.Context(), &url.URL{Scheme: "sqlite", Path: path, RawQuery: "allow-shared=true"}, driver.Options{})
	if err != nil {
		t.Fatalf("%s, which the URL allows: %v", path, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestSQLiteRefusesADatabaseOpenToOtherUsers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "registry.db")
	if err := errors.Join(openStore(t, Config{File: path}).Close(), os.Chmod(path, 0o604)); err != nil {
		t.Fatal(err)
	}
	refusedFile(t, path, path+" (mode 0604)", "chmod go=")
}

func TestSQLiteRefusesADatabaseOfAnotherUser(t *testing.T) {
	t.Parallel()
	stranger := testserver.Stranger(t)
	path := filepath.Join(t.TempDir(), "registry.db")
	if err := errors.Join(openStore(t, Config{File: path}).Close(), os.Chown(path, stranger, -1)); err != nil {
		t.Fatal(err)
	}
	refusedFile(t, path, path+" belongs to another user")
}

func TestSQLiteRefusesAFileThatIsNoDatabase(t *testing.T) {
	t.Parallel()
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("root:x:0:0\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t.Context(), Config{File: text}); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "is no database of SQLite") {
		t.Error(err)
	}
}
