package sqlregistry

import (
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/sqlstore"
)

// A transaction of the user's may take longer than the TTL of sessions: it has the sole right to
// write to the database, and nobody's session ends of it.
func TestAUsersTransactionEndsNoSession(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "registry.db")
	a, b := openStore(t, Config{File: path}), openStore(t, Config{File: path})
	const ttl = 5 * time.Second
	sessions := []driver.Session{hold(t, a, "a", ttl), hold(t, b, "b", ttl)}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.Exec("CREATE TABLE effects (n INTEGER)"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	var waiting sync.WaitGroup
	defer waiting.Wait()
	for _, s := range []*sqlstore.Store{a, b} {
		waiting.Go(func() { // a checkpoint, which has to wait: it is stored later, or given up
			_, _ = s.Apply(t.Context(), []driver.Txn{{Puts: []driver.Put{{Key: "checkpoint", Value: []byte("v")}}, Quiet: true}})
		})
	}
	for _, x := range sessions {
		await(t, func() bool { // renewed, and more than a TTL into the transaction
			select {
			case <-x.Done():
				t.Fatalf("session %s ended %s after a user's transaction began to write", x.ID(), time.Since(began))
			default:
			}
			return x.Deadline().Sub(began) > 2*ttl
		})
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	waiting.Wait()
	if snap, err := a.List(t.Context(), ""); err != nil || len(snap.Entries) < 2 {
		t.Errorf("after the transaction there are %d entries, %v; expected those of both sessions", len(snap.Entries), err)
	}
}

// Who has a file open that was removed or replaced writes to what nobody else sees.
func TestAFileThatWasReplacedIsWrittenToNoMore(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(path string) error{
		"removed":              os.Remove,
		"the sessions removed": func(path string) error { return os.Remove(path + "-sessions") },
		"replaced": func(path string) error {
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return errors.Join(os.WriteFile(path+".copy", raw, 0o644), os.Rename(path+".copy", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "registry.db")
			s := openStore(t, Config{File: path})
			x := hold(t, s, "bound", 2*time.Second)
			put := []driver.Txn{{Puts: []driver.Put{{Key: "k", Value: []byte("v")}}}}
			if _, err := s.Apply(t.Context(), put); err != nil {
				t.Fatal(err)
			}
			if err := harm(path); err != nil {
				t.Fatal(err)
			}
			if r, err := s.Apply(t.Context(), put); !errors.Is(err, fault.Closed) {
				t.Errorf("a write to it: %v, %v; expected ErrClosed", r, err)
			}
			if _, err := s.OpenSession(t.Context(), time.Minute); !errors.Is(err, fault.Closed) {
				t.Errorf("a session in it: %v; expected ErrClosed", err)
			}
			await(t, func() bool { // and who lives by it is told
				select {
				case <-x.Done():
					return true
				default:
					return false
				}
			})
		})
	}
}

// The file of the sessions may be lost, or the database be put back to what it was: entries whose
// session is in no file are nobody's, and go.
func TestEntriesOfSessionsThatAreInNoFileGo(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "registry.db")
	s := openStore(t, Config{File: path})
	hold(t, s, "bound", time.Minute)
	if _, err := s.Apply(t.Context(), []driver.Txn{{Puts: []driver.Put{{Key: "free", Value: []byte("v")}}}}); err != nil {
		t.Fatal(err)
	}
	s.Abandon()
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + "-sessions" + end); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	again := openStore(t, Config{File: path})
	snap, err := again.List(t.Context(), "")
	if err != nil || len(snap.Entries) != 1 || snap.Entries[0].Key != "free" {
		t.Errorf("entries %v, %v; expected the one that is bound to nothing", snap.Entries, err)
	}
}

// A process opened the file, removed the FIFO of one that died, and died too before it ended its sessions.
func TestAProcessThatDiedIsNoticedWithoutItsFIFO(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "registry.db")
	s := openStore(t, Config{File: path})
	hold(t, s, "member", time.Minute)
	left, err := filepath.Glob(path + "-live-*")
	if err != nil || len(left) != 1 {
		t.Fatal(left, err)
	}
	s.Abandon()
	if err := os.Remove(left[0]); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if found := keys(t, openStore(t, Config{File: path})); found != "" {
		t.Errorf("the entry %q of a dead process is there", found)
	}
}

func TestAFileIsTheSameByEveryName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(filepath.Join(dir, "r.db"), link); err != nil {
		t.Fatal(err)
	}
	x := bind(t, openURL(t, "sqlite://"+link), "bound", time.Minute)
	r := openURL(t, "sqlite://"+filepath.Join(dir, "r.db"))
	hereToo := bind(t, r, "other", time.Minute)
	select {
	case <-x.Done():
		t.Error("the session of a living process ended")
	case <-hereToo.Done():
		t.Error("the session of the second process ended")
	case <-time.After(time.Second):
	}
	if len(list(t, r, "bound")) != 1 {
		t.Error("the entry of a living process is gone")
	}
}
