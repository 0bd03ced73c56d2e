package sqlregistry

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/registry/internal/sqlstore"
)

// The server has no notifications, so named locks take their place: the server releases a lock with the
// connection that held it. A process holds a lock of its own name. A watcher waits for that lock and gets it
// when the process has died, or has only lost its connection, so the watcher looks again after a moment (dead).
// A listener hangs in a statement that waits for a lock which the process itself holds on another connection,
// and the writer of a change interrupts the statement (Ring). Signals only tell when to look: the revision
// in the tables is the truth.

const (
	lockPrefix = "ringfence:" // names of locks are the server's: handles make them unique
	bellPrefix = "ringfence bell:"
	holdPrefix = "ringfence hold:"
	forget     = time.Minute // a listener without a connection
	lockWait   = 20 * time.Second
	listenWait = 2 * time.Second
	slack      = 5 * time.Second // for an answer, beyond what a statement waits by itself
	// A lost connection is no death yet: the process may reconnect within grace.
	grace     = 25 * time.Millisecond
	lateGrace = 500 * time.Millisecond // the longest pause between two looks
	// settled is the time that processes have to reconnect after a start of the server, or after it hung.
	settled = 10 * time.Second
	hung    = time.Second // an answer of the listener that comes so late
)

// mysqlSignals are locks by name and interrupted statements.
type mysqlSignals struct {
	db       *sql.DB // for statements that wait
	calls    *sql.DB // for those that do not
	handle   string
	database string

	bell   *sql.Conn // of the listener alone, as hold, which holds the lock that bell waits for
	hold   *sql.Conn
	bellID int64 // its connection ID

	// stalled is when the server last gave no answer in time, in Unix nanoseconds. Other processes may have given
	// up their connections then, and their locks with them, without being dead.
	stalled atomic.Int64
}

func (m *mysqlSignals) noteStall() { m.stalled.Store(time.Now().UnixNano()) }

// Announce implements sqlstore.Signals.
func (m *mysqlSignals) Announce(ctx context.Context) (sqlstore.Presence, error) {
	h := &holder{m: m}
	if err := h.Keep(ctx, func() {}); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// holder holds the lock of this process, on a connection of its own.
type holder struct {
	m    *mysqlSignals
	mu   sync.Mutex // held over I/O: there is one connection
	conn *sql.Conn
}

// Keep checks that the lock is held, and takes it on a new connection if it is not.
func (h *holder) Keep(ctx context.Context, lost func()) error {
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
		if ctx.Err() != nil {
			h.m.noteStall()
		}
	}
	lost()
	conn, err := h.m.db.Conn(ctx)
	if err != nil {
		return err
	}
	if err := seize(ctx, conn, name); err != nil {
		discard(conn)
		return err
	}
	h.conn = conn
	return nil
}

// seize takes a lock that only this process may hold. If another connection holds it, this side has given that
// one up, and the server does not know yet, perhaps for hours: kill it.
func seize(ctx context.Context, conn *sql.Conn, name string) error {
	for range 3 {
		var got sql.NullBool
		if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 1)", name).Scan(&got); err != nil || got.Bool {
			return err
		}
		var stale sql.NullInt64
		if err := conn.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?)", name).Scan(&stale); err != nil {
			return err
		}
		if !stale.Valid {
			continue
		}
		if _, err := conn.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", stale.Int64)); err != nil && number(err) != errNoSuchThread {
			return err
		}
	}
	return fmt.Errorf("the lock %s of this process is held by a connection that does not end", name)
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

// discard closes a connection, which releases its locks.
func discard(c *sql.Conn) {
	_ = c.Raw(func(any) error { return driver.ErrBadConn })
	_ = c.Close()
}

// Await implements sqlstore.Signals. It waits for the lock of the process, on a connection of its own.
func (m *mysqlSignals) Await(ctx context.Context, handle string) error {
	conn, err := m.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer discard(conn)
	lived := false // since this connection exists: the server was not started anew
	again := grace
	for wait := time.Duration(0); ; wait = lockWait {
		var got sql.NullBool
		waiting, cancel := context.WithTimeout(ctx, wait+slack)
		err := conn.QueryRowContext(waiting, "SELECT GET_LOCK(?, ?)", lockPrefix+handle, wait.Seconds()).Scan(&got)
		cancel()
		if err != nil {
			return err
		}
		if !got.Bool {
			lived, again = true, grace
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
		select { // it came back, or is about to, or the server did
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(again):
		}
		again = min(2*again, lateGrace)
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

// dead reports whether a free lock stays free for a moment, and the process holds no other lock either: a
// process that lost one connection and listens on others lives. After a stall of the server no death is certain for a
// while. Unless the process has held the lock since
// the server started (lived), that start must be long ago, so that each living process has its lock again.
func (m *mysqlSignals) dead(ctx context.Context, conn *sql.Conn, handle string, lived bool) (bool, error) {
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-time.After(grace):
	}
	var free bool
	if err := conn.QueryRowContext(ctx, "SELECT IS_FREE_LOCK(?) AND IS_FREE_LOCK(?) AND IS_FREE_LOCK(?)",
		lockPrefix+handle, bellPrefix+handle, holdPrefix+handle).Scan(&free); err != nil || !free {
		return false, err
	}
	if time.Since(time.Unix(0, m.stalled.Load())) < settled {
		return false, sqlstore.ErrNoPresence
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

// Listen implements sqlstore.Signals. The statement first reads the revision, so that no earlier ring is lost,
// and then waits for a lock that this process itself holds, until it is interrupted. It has to be a SELECT:
// InnoDB locks the rows that any other statement reads, which would block writers. It can't be SLEEP: MariaDB
// sometimes takes two seconds to interrupt that.
func (m *mysqlSignals) Listen(ctx context.Context, last int64) error {
	if m.bell == nil {
		if err := m.hang(ctx); err != nil {
			return err
		}
	}
	var err error
	for waited := (sql.NullInt64{Valid: true}); err == nil && waited.Valid && waited.Int64 == 0; { // its whole time, uninterrupted: the next look finds what came
		asked := time.Now()
		look, cancel := context.WithTimeout(ctx, listenWait+slack)
		err = m.bell.QueryRowContext(look, "SELECT IF((SELECT revision FROM ringfence_revision WHERE id = 1) <> ?, 2, GET_LOCK(?, ?))",
			last, holdPrefix+m.handle, listenWait.Seconds()).Scan(&waited)
		cancel()
		if time.Since(asked) > listenWait+hung {
			m.noteStall()
		}
		if number(err) == errInterrupted {
			return nil
		}
		if err == nil && waited.Int64 == 1 {
			err = errors.New("the connection that keeps the listener waiting was lost")
		}
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		m.unhang() // the server would sleep on, and keep its hold on the table's definition
	}
	m.dropBell()
	return err
}

func (m *mysqlSignals) dropBell() {
	discard(m.bell)
	discard(m.hold)
	m.bell, m.hold = nil, nil
}

// unhang ends the statement of the listener. After a failure it ends with its time.
func (m *mysqlSignals) unhang() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = m.interrupt(ctx, m.bellID)
	_, _ = m.calls.ExecContext(ctx, "DELETE FROM ringfence_listeners WHERE process = ?", m.handle)
}

// hang gives the listener a connection, and announces it by a row and a lock: the row names a process to wake,
// and the lock its present connection. The server's list of connections would need no row, but under load it
// is incomplete.
func (m *mysqlSignals) hang(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, slack)
	defer cancel()
	hold, err := m.db.Conn(ctx)
	if err != nil {
		return err
	}
	if err := seize(ctx, hold, holdPrefix+m.handle); err != nil {
		discard(hold)
		return err
	}
	conn, err := m.db.Conn(ctx)
	if err != nil {
		discard(hold)
		return err
	}
	err = seize(ctx, conn, bellPrefix+m.handle)
	if err == nil {
		err = conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&m.bellID)
	}
	if err == nil {
		_, err = conn.ExecContext(ctx, "REPLACE INTO ringfence_listeners (process, since) VALUES (?, UNIX_TIMESTAMP())", m.handle)
	}
	if err != nil {
		discard(conn)
		discard(hold)
		return err
	}
	m.bell, m.hold = conn, hold
	return nil
}

// Ring implements sqlstore.Signals. It interrupts the statements of sleeping listeners, which a user may do to
// its own. A listener that does not sleep at that moment reads the new revision itself.
func (m *mysqlSignals) Ring(ctx context.Context) error {
	ids, dead, err := m.listeners(ctx)
	for _, id := range ids {
		err = errors.Join(err, m.interrupt(ctx, id))
	}
	for _, process := range dead {
		err = errors.Join(err, m.strike(ctx, process))
	}
	return err
}

// longAgo is true of a row that is old enough to be removed, and of one of the future, from before the server's
// clock was set back.
const longAgo = "since NOT BETWEEN UNIX_TIMESTAMP() - ? AND UNIX_TIMESTAMP() + ?"

// strike removes the row of a listener that was gone, unless it has just come back.
func (m *mysqlSignals) strike(ctx context.Context, process string) error {
	_, err := m.calls.ExecContext(ctx, "DELETE FROM ringfence_listeners WHERE process = ? AND "+longAgo, process, forget.Seconds(), forget.Seconds())
	return err
}

// listeners are the IDs of the connections of other listeners, and the processes that are gone.
func (m *mysqlSignals) listeners(ctx context.Context) (ids []int64, dead []string, err error) {
	rows, err := m.calls.QueryContext(ctx, "SELECT process, IS_USED_LOCK(CONCAT(?, process)), "+longAgo+" FROM ringfence_listeners WHERE process <> ?", bellPrefix, forget.Seconds(), forget.Seconds(), m.handle)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var process string
		var id sql.NullInt64
		var old bool
		if err := rows.Scan(&process, &id, &old); err != nil {
			return ids, dead, err
		}
		if id.Valid {
			ids = append(ids, id.Int64)
		} else if old {
			dead = append(dead, process)
		}
	}
	return ids, dead, rows.Err()
}

// interrupt ends the statement of a listener, if it is still there, over a connection for calls: a new one
// would take longer than the statement.
func (m *mysqlSignals) interrupt(ctx context.Context, id int64) error {
	_, err := m.calls.ExecContext(ctx, fmt.Sprintf("KILL QUERY %d", id))
	if number(err) == errNoSuchThread {
		return nil
	}
	return err
}

// Close implements sqlstore.Signals.
func (m *mysqlSignals) Close() error {
	if m.bell != nil {
		m.unhang()
		m.dropBell()
	}
	return m.db.Close()
}
