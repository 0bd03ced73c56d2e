package sqlregistry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
	"github.com/ringfence/ringfence/registry/internal/sqlstore"
)

// busy is how long a process waits for another one that writes.
const busy = 10 * time.Second

// busyPause is the pause before a connection that was refused at once is tried again.
const busyPause = 2 * time.Millisecond

func openSQLite(ctx context.Context, cfg Config) (*sqlstore.Store, error) {
	path, err := filepath.Abs(cfg.File)
	if err != nil {
		return nil, fmt.Errorf("sqlite registry: %w: %w", fault.Invalid, err)
	}
	boot, err := checkDisk(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	ahead, err := vfs.ClockAhead(unix.CLOCK_BOOTTIME)
	if err != nil {
		return nil, fmt.Errorf("sqlite registry: can't read the clock that all processes of this host share: %w: %w", fault.Unavailable, err)
	}
	synchronous := "full"
	if cfg.NoSync {
		synchronous = "normal"
	}
	if path, err = follow(path); err != nil {
		return nil, err
	}
	if !cfg.AllowShared {
		if err := checkPrivate(path); err != nil {
			return nil, err
		}
	}
	if err := makePrivate(path); err != nil {
		return nil, err
	}
	if err := checkFile(ctx, path); err != nil {
		return nil, err
	}
	// All processes have to use the same files beside it, by whatever name they open the database.
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, fmt.Errorf("sqlite registry: %w: %w", fault.Unavailable, err)
	}
	files, err := openFiles(ctx, path, synchronous)
	if err != nil {
		return nil, err
	}
	foreign(cfg.Logger)
	handle := boot + "-" + newHandle()
	signals, err := openKernel(path, handle, boot)
	if err != nil {
		return nil, errors.Join(err, files.close())
	}
	s, err := sqlstore.Open(ctx, sqlstore.Config{
		Dialect: sqliteDialect(ahead), DB: files.writes, Reads: files.reads, Live: files.live, Intact: files.intact,
		Handle: handle, Logger: cfg.Logger, Signals: signals,
	})
	if err == nil {
		signals.clean()
	}
	return s, err
}

// checkDisk refuses a file system without reliable locks. It returns the ID of this boot of the machine.
func checkDisk(dir string) (boot string, err error) {
	disk, err := vfs.OpenOS(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("sqlite registry: directory %s of the database: %w; make it first, or name another", dir, fault.NotFound)
	}
	if err != nil {
		return "", fmt.Errorf("sqlite registry: directory of the database: %w: %w", fault.Unavailable, err)
	}
	defer func() { _ = disk.Close() }()
	kind, err := disk.Kind(".")
	switch {
	case err != nil:
		return "", fmt.Errorf("sqlite registry: %w: %w", fault.Unavailable, err)
	case kind.Network:
		return "", fmt.Errorf("sqlite registry: %s is on a network file system (%s), where the locks of SQLite do not hold between hosts; use a local disk, or another registry: %w", dir, kind.Type, fault.Invalid)
	case kind.ReadOnly:
		return "", fmt.Errorf("sqlite registry: %s is on a read-only file system: %w", dir, fault.Invalid)
	}
	id := strings.ReplaceAll(disk.BootID(), "-", "")
	return id[:min(len(id), 12)], nil
}

// checkFile makes the file, or refuses one that is no database, before SQLite makes others beside it. Only
// SQLite may open it: if anything else in this process closes the file, all locks on it are lost.
func checkFile(ctx context.Context, path string) error {
	db, err := sql.Open("sqlite", source(path, "full"))
	if err != nil {
		return fmt.Errorf("sqlite registry: %w: %w", fault.Invalid, err)
	}
	defer func() { _ = db.Close() }()
	var version int
	err = db.QueryRowContext(ctx, "PRAGMA schema_version").Scan(&version)
	if sqliteCode(err)&0xff == codeNotADB {
		return fmt.Errorf("sqlite registry: %s is no database of SQLite; name another file: %w", path, fault.Invalid)
	}
	return nil // the schema reports anything else
}

const orphaned = "session_id IS NOT NULL AND session_id NOT IN (SELECT id FROM ringfence_sessions)"

func sqliteDialect(ahead time.Duration) *sqlstore.Dialect {
	return &sqlstore.Dialect{
		Name: "SQLite",
		Schema: []string{
			`CREATE TABLE IF NOT EXISTS ringfence_entries (
				k BLOB NOT NULL PRIMARY KEY, version TEXT NOT NULL, session_id TEXT, content BLOB) WITHOUT ROWID`,
			`CREATE INDEX IF NOT EXISTS ringfence_bound ON ringfence_entries (session_id) WHERE session_id IS NOT NULL`,
			`CREATE TABLE IF NOT EXISTS ringfence_changes (revision INTEGER NOT NULL PRIMARY KEY, change_keys BLOB)`,
			`CREATE TABLE IF NOT EXISTS ringfence_revision (id INTEGER NOT NULL PRIMARY KEY, revision INTEGER NOT NULL)`,
			`CREATE TABLE IF NOT EXISTS ringfence_schema (id INTEGER NOT NULL PRIMARY KEY, version INTEGER NOT NULL)`,
		},
		Orphaned: "SELECT COUNT(*) FROM ringfence_entries WHERE " + orphaned,
		Orphans:  "INSERT OR IGNORE INTO ringfence_sessions (id, process, ttl, expires) SELECT DISTINCT session_id, '', 0, 0 FROM ringfence_entries WHERE " + orphaned,
		Ignore:   func(err error) bool { return sqliteCode(err)&0xff == codeConstraint },
		Begin:    "BEGIN IMMEDIATE", Commit: "COMMIT", Rollback: "ROLLBACK",
		Bind:    sqlstore.Question,
		Now:     func() string { return strconv.FormatInt(sinceBoot(ahead).Microseconds(), 10) },
		Day:     func() string { return strconv.FormatInt(time.Now().UnixMilli(), 10) },
		LockAll: "UPDATE ringfence_revision SET revision = revision WHERE id = 1",
		Upsert: func(rows int) string {
			return "INSERT INTO ringfence_entries (k, version, session_id, content) VALUES " + strings.Repeat("(?,?,?,?),", rows-1) +
				"(?,?,?,?) ON CONFLICT (k) DO UPDATE SET version = excluded.version, session_id = excluded.session_id, content = excluded.content"
		},
		Fate: sqliteFate,
	}
}

// sinceBoot is a clock that all processes of a host share, also those in containers, and that can't be set.
// It goes on while the machine is suspended. ahead is the offset of this process's own time namespace.
func sinceBoot(ahead time.Duration) time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) // Linux has had it for as long as Go runs there
	return time.Duration(t.Nano()) - ahead
}

// Primary result codes of SQLite.
const (
	codeBusy       = 5
	codeLocked     = 6
	codeCorrupt    = 11
	codeConstraint = 19
	codeNotADB     = 26
)

func sqliteCode(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

func sqliteFate(err error) sqlstore.Fate {
	switch sqliteCode(err) & 0xff {
	case codeBusy, codeLocked:
		return sqlstore.Again
	case codeCorrupt, codeNotADB:
		return sqlstore.Damaged
	}
	return sqlstore.Failed
}
