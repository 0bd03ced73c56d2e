package sqlregistry

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strconv"
	"time"

	"modernc.org/sqlite"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/internal/sqlstore"
)

// files are the two files of a registry; SQLite has one lock for each. Sessions have a file of their own,
// because a transaction of the user blocks all other writers of its file for as long as it takes, and must
// not block renewals.
//
// A writer of both files locks the database first: BEGIN IMMEDIATE locks them in this order. So a renewal
// waits no longer than a transaction of the registry takes.
type files struct {
	writes, reads, live *sql.DB
	was                 []opened
}

// opened is a file at its opening.
type opened struct {
	path string
	info fs.FileInfo
}

const sessionsTable = `CREATE TABLE IF NOT EXISTS ringfence_sessions (
	id TEXT NOT NULL PRIMARY KEY, process TEXT NOT NULL, ttl INTEGER NOT NULL, expires INTEGER NOT NULL) WITHOUT ROWID`

func openFiles(ctx context.Context, path, synchronous string) (_ *files, err error) {
	live := path + "-sessions"
	if err := makePrivate(live); err != nil {
		return nil, err
	}
	f := &files{
		// One connection writes: the writers of a process queue here, and not at the file.
		writes: sql.OpenDB(connector{source(path, synchronous), live}),
		reads:  sql.OpenDB(connector{source(path, synchronous) + "&_pragma=query_only(1)", live}),
		// No session survives a power loss, so this file needs no sync.
		live: sql.OpenDB(connector{source: source(live, "normal")}),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	f.writes.SetMaxOpenConns(1)
	f.live.SetMaxOpenConns(1)
	f.reads.SetMaxOpenConns(2)
	f.reads.SetMaxIdleConns(2)
	if _, err := f.live.ExecContext(ctx, sessionsTable); err != nil {
		return nil, fmt.Errorf("sqlite registry: %s: %w: %w", live, fault.Unavailable, err)
	}
	if err := f.writes.PingContext(ctx); err != nil { // it makes the file
		return nil, fmt.Errorf("sqlite registry: %s: %w: %w", path, fault.Unavailable, err)
	}
	for _, p := range []string{path, live} {
		info, err := os.Stat(p)
		if err != nil {
			return nil, fmt.Errorf("sqlite registry: %w: %w", fault.Unavailable, err)
		}
		f.was = append(f.was, opened{p, info})
	}
	return f, nil
}

// intact fails if a file was removed or replaced: other processes then use another one.
func (f *files) intact() error {
	for _, o := range f.was {
		now, err := os.Stat(o.path)
		switch {
		case err == nil && os.SameFile(o.info, now):
			continue
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			continue // unknown: the file itself decides
		case err == nil:
			err = errors.New("it is another file now")
		}
		return fmt.Errorf("%s was removed or replaced while this process had it open (%w); nothing was written to what is there now; close this registry and open it again, or restart the process: %w",
			o.path, err, fault.Closed)
	}
	return nil
}

func (f *files) close() error { return errors.Join(f.writes.Close(), f.reads.Close(), f.live.Close()) }

// source is the data source name of a file.
func source(path, synchronous string) string {
	u := url.URL{Scheme: "file", Path: path}
	return u.String() + "?_pragma=busy_timeout(" + strconv.FormatInt(busy.Milliseconds(), 10) + ")&_pragma=journal_mode(wal)&_pragma=synchronous(" + synchronous + ")"
}

// connector opens connections, with the file of sessions attached if it is named.
type connector struct{ source, sessions string }

// Connect implements driver.Connector.
func (c connector) Connect(ctx context.Context) (sqldriver.Conn, error) {
	conn, err := c.open(ctx)
	if err != nil || c.sessions == "" {
		return conn, err
	}
	attach := conn.(sqldriver.ExecerContext).ExecContext //nolint:forcetypeassert // the client's connections are all of that
	if _, err := attach(ctx, "ATTACH DATABASE ? AS live", []sqldriver.NamedValue{{Ordinal: 1, Value: c.sessions}}); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// open opens the file. If two connections switch a new file to write-ahead logging at the same moment, SQLite
// refuses one of them at once as locked, whatever its time-out, to avoid a deadlock.
func (c connector) open(ctx context.Context) (sqldriver.Conn, error) {
	for began := time.Now(); ; {
		conn, err := c.Driver().Open(c.source)
		if err == nil || sqliteFate(err) != sqlstore.Again || time.Since(began) > busy {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-time.After(busyPause):
		}
	}
}

// Driver implements driver.Connector.
func (connector) Driver() sqldriver.Driver { return &sqlite.Driver{} }

// foreign warns of a second SQLite library in this process. The kernel drops all locks of a process on a file
// when any descriptor of it is closed, and each library knows only its own.
func foreign(log *slog.Logger) {
	if log != nil && slices.Contains(sql.Drivers(), "sqlite3") {
		log.Warn("this process has a second SQLite library (the driver \"sqlite3\"): never open the registry's file with it, or both lose their locks; use the driver \"sqlite\" (modernc.org/sqlite) there")
	}
}
