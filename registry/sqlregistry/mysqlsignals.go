package sqlregistry

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ringfence/ringfence/registry/internal/sqlstore"
)

const (
	lockPrefix = "ringfence:" // names of locks are the server's: handles make them unique
	lockWait   = 20 * time.Second
	listenWait = 4 * time.Second
	slack      = 5 * time.Second // for an answer, beyond what a statement waits by itself
	// A connection that was lost is not a death yet: its process may be about to come back.
	grace = 25 * time.Millisecond
	// After a start of the server all processes have to come back first.
	settled = 10 * time.Second
)

// mysqlSignals are locks by name and interrupted statements.
type mysqlSignals struct {
	db       *sql.DB // for statements that wait
	calls    *sql.DB // for those that do not
	handle   string
	database string

	bell   *sql.Conn // of the listener alone
	bellID int64     // the server's name of it
}

// Announce implements sqlstore.Signals.
func (m *mysqlSignals) Announce(ctx context.Context) (sqlstore.Presence, error) {
	h := &holder{m: m}
	if err := h.Keep(ctx); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// holder holds this process's lock, on a connection of its own.
type holder struct {
	m    *mysqlSignals
	mu   sync.Mutex // held over I/O: there is one connection
	conn *sql.Conn
}

// Keep makes sure that the lock is held, with a new connection if need be.
func (h *holder) Keep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, slack)
	defer cancel()
	h.mu.Lock()
	defer h.mu.Unlock()
	name := lockPrefix + h.m.handle
	if h.conn != nil {
		var held sql.NullBool
		err := h.conn.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?) = CONNECTION_ID()", name).Scan(&held)
		if err == nil && held.Bool {
			return nil
		}
		discard(h.conn)
		h.conn = nil
	}
	conn, err := h.m.db.Conn(ctx)
	if err != nil {
		return err
	}
	var got sql.NullBool
	err = conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 2)", name).Scan(&got)
	if err == nil && !got.Bool {
		err = fmt.Errorf("the lock %s of this process is held by another connection; its old one may not have ended yet", name)
	}
	if err != nil {
		discard(conn)
		return err
	}
	h.conn = conn
	return nil
}

func (h *holder) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conn != nil {
		discard(h.conn)
		h.conn = nil
	}
	return nil
}

// discard closes a connection, and with it the locks that it holds.
func discard(c *sql.Conn) {
	_ = c.Raw(func(any) error { return driver.ErrBadConn })
	_ = c.Close()
}

// Await implements sqlstore.Signals. It waits for the process's lock, on a connection of its own.
func (m *mysqlSignals) Await(ctx context.Context, handle string) error {
	conn, err := m.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer discard(conn)
	lived := false // since this connection exists: the server was not started anew
	for wait := time.Duration(0); ; wait = lockWait {
		var got sql.NullBool
		waiting, cancel := context.WithTimeout(ctx, wait+slack)
		err := conn.QueryRowContext(waiting, "SELECT GET_LOCK(?, ?)", lockPrefix+handle, wait.Seconds()).Scan(&got)
		cancel()
		if err != nil {
			return err
		}
		if !got.Bool {
			lived = true
			continue
		}
		if _, err := conn.ExecContext(ctx, "DO RELEASE_LOCK(?)", lockPrefix+handle); err != nil {
			return err
		}
		dead, err := m.dead(ctx, conn, handle, lived)
		if err != nil {
			return err
		}
		if dead {
			return nil
		}
		select { // it came back, or the server did
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(grace):
		}
	}
}

// Gone implements sqlstore.Signals.
func (m *mysqlSignals) Gone(ctx context.Context, handle string) (bool, error) {
	conn, err := m.calls.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	var free bool
	if err := conn.QueryRowContext(ctx, "SELECT IS_FREE_LOCK(?)", lockPrefix+handle).Scan(&free); err != nil || !free {
		return false, err
	}
	return m.dead(ctx, conn, handle, false)
}

// dead says whether a lock that is free stays so for a moment. Unless the process is known to have
// held it since the server started, that has to be long ago: every living process has its lock
// again by then.
func (m *mysqlSignals) dead(ctx context.Context, conn *sql.Conn, handle string, lived bool) (bool, error) {
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-time.After(grace):
	}
	var free bool
	if err := conn.QueryRowContext(ctx, "SELECT IS_FREE_LOCK(?)", lockPrefix+handle).Scan(&free); err != nil || !free {
		return false, err
	}
	if lived {
		return true, nil
	}
	var name string
	var uptime int64
	if err := conn.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Uptime'").Scan(&name, &uptime); err != nil {
		return false, err
	}
	if uptime < int64(settled.Seconds()) {
		return false, sqlstore.ErrNoPresence
	}
	return true, nil
}

// bellMark begins the statement in which a listener sleeps, and by which the ringer finds it. It has
// to be a SELECT: InnoDB locks what any other statement reads, and would keep writers out.
const bellMark = "SELECT /*ringfence bell*/"

// Listen implements sqlstore.Signals. The statement looks at the revision first, so that a ring
// before it is not lost, and sleeps until it is interrupted.
func (m *mysqlSignals) Listen(ctx context.Context, last int64) error {
	ctx, cancel := context.WithTimeout(ctx, listenWait+slack)
	defer cancel()
	if m.bell == nil {
		conn, err := m.db.Conn(ctx)
		if err != nil {
			return err
		}
		if err := conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&m.bellID); err != nil {
			discard(conn)
			return err
		}
		m.bell = conn
	}
	var interrupted int
	err := m.bell.QueryRowContext(ctx, bellMark+" IF((SELECT revision FROM ringfence_revision WHERE id = 1) > ?, 0, SLEEP(?))", last, listenWait.Seconds()).Scan(&interrupted)
	if err == nil || number(err) == errInterrupted {
		return nil
	}
	if ctx.Err() != nil {
		m.wakeUp() // the server would sleep on, and keep its hold on the table's definition
	}
	discard(m.bell)
	m.bell = nil
	return err
}

func (m *mysqlSignals) wakeUp() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = m.calls.ExecContext(ctx, fmt.Sprintf("KILL QUERY %d", m.bellID))
}

// Ring implements sqlstore.Signals. It interrupts the statements of sleeping listeners, which a
// user may do to its own. One that runs just then reads the new revision by itself.
func (m *mysqlSignals) Ring(ctx context.Context) error {
	ids, err := sqlstore.Column[int64](ctx, m.calls, "SELECT id FROM information_schema.processlist WHERE db = ? AND info LIKE '"+bellMark+"%'", m.database)
	if err != nil {
		return err
	}
	var failed error
	for _, id := range ids {
		if _, err := m.calls.ExecContext(ctx, fmt.Sprintf("KILL QUERY %d", id)); err != nil && number(err) != errNoSuchThread {
			failed = err
		}
	}
	return failed
}

// Close implements sqlstore.Signals.
func (m *mysqlSignals) Close() error {
	if m.bell != nil {
		discard(m.bell)
	}
	return m.db.Close()
}
