package sqlregistry

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/storeurl"
	"github.com/ringfence/ringfence/registry/internal/sqlstore"
)

// mysqlSetup runs on each connection. READ COMMITTED locks only the selected rows; slots lock keys that
// must stay absent. In UTC no hour comes twice.
func mysqlSetup() []string {
	return []string{
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
		"SET SESSION innodb_lock_wait_timeout = 1, time_zone = '+00:00'",
		// Defaults of a server that would break our statements.
		"SET SESSION sql_select_limit = 18446744073709551615, sql_safe_updates = 0, autocommit = 1",
		"SET SESSION max_statement_time = 0",
	}
}

// setupWaiting is for connections that wait, so the server must not close them.
func setupWaiting() []string {
	return append(mysqlSetup(), "SET SESSION wait_timeout = 86400")
}

// setupCalls is for connections with transactions. The server has to end the transaction of a process that
// is stopped or cut off, or its locks keep others out. MySQL has no time-out for an idle transaction, so
// there the one of the connection has to do.
func setupCalls() []string {
	return append(mysqlSetup(), "SET SESSION wait_timeout = 30", "SET SESSION idle_transaction_timeout = 5")
}

// setupNoWait is for connections that wait for no lock. MySQL still waits a second.
func setupNoWait() []string {
	return append(setupCalls(), "SET SESSION innodb_lock_wait_timeout = 0")
}

// idleCalls is when this side closes an idle connection, long before the server would.
const idleCalls = 10 * time.Second

// keepAlive detects within about 11 s that a server is cut off.
func keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}
}

const (
	maxConns   = 8 // for transactions and reads; the waiting ones come on top
	maxNoWaits = 2 // for transactions that pass by locks
)

func openMySQL(ctx context.Context, cfg Config) (*sqlstore.Store, error) {
	c := cfg.MySQL.Clone()
	if c.DBName == "" {
		return nil, fmt.Errorf("sql registry: expected the name of a database, as in mysql://user@host:3306/database: %w", fault.Invalid)
	}
	if c.Passwd != "" && (c.TLS == nil && (c.TLSConfig == "" || c.TLSConfig == "false" || c.TLSConfig == "preferred") || c.AllowFallbackToPlaintext) && c.Net != "unix" {
		if err := storeurl.Plaintext("sql registry", []string{c.Addr}, cfg.StrictTLS, cfg.Logger); err != nil {
			return nil, err
		}
	}
	c.InterpolateParams = true // one round trip a statement
	c.ClientFoundRows = true
	c.ParseTime = false
	c.MultiStatements = false
	c.ReadTimeout, c.WriteTimeout = 0, 0 // the contexts bound each call, and waiting takes long
	c.Logger = quiet{cfg.Logger}
	if c.DialFunc == nil && strings.HasPrefix(c.Net, "tcp") {
		dialer := &net.Dialer{KeepAliveConfig: keepAlive()} // the client bounds the time
		c.DialFunc = dialer.DialContext
	}
	if _, err := mysql.NewConnector(c); err != nil {
		return nil, fmt.Errorf("sql registry: %w: %w", fault.Invalid, err)
	}
	pool := func(setup []string) *sql.DB {
		return sql.OpenDB(&mysqlConnector{c, max(greeting, c.Timeout), setup})
	}
	db, waiting, noWait := pool(setupCalls()), pool(setupWaiting()), pool(setupNoWait())
	for p, most := range map[*sql.DB]int{db: maxConns, noWait: maxNoWaits} {
		p.SetMaxOpenConns(most)
		p.SetMaxIdleConns(most)
		p.SetConnMaxIdleTime(idleCalls)
	}
	most, err := packet(ctx, db)
	if err != nil {
		return nil, errors.Join(err, db.Close(), waiting.Close(), noWait.Close())
	}
	waiting.SetMaxIdleConns(maxConns)
	waiting.SetConnMaxIdleTime(10 * time.Second)
	handle := newHandle()
	return sqlstore.Open(ctx, sqlstore.Config{
		Dialect: mysqlDialect(), DB: db, Reads: db, NoWait: noWait, MaxBytes: most, Handle: handle, Logger: cfg.Logger,
		Signals: &mysqlSignals{db: waiting, calls: db, handle: handle, database: c.DBName},
	})
}

// minPacket is the least max_allowed_packet: a value of the largest size, each byte escaped, and the rest
// of its statement.
const minPacket = 4 << 20

// packet is how many bytes of values one statement may have, by the server's max_allowed_packet. 0: no
// bound, or the server can't be reached, which the next statement reports.
func packet(ctx context.Context, db *sql.DB) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, idleCalls)
	defer cancel()
	var n int64
	if err := db.QueryRowContext(ctx, "SELECT @@max_allowed_packet").Scan(&n); errors.Is(err, errNoGreeting) {
		return 0, fmt.Errorf("sql registry: %w: %w", fault.Unavailable, err)
	} else if err != nil {
		return 0, nil // the next statement reports it
	}
	if n < minPacket {
		return 0, fmt.Errorf("sql registry: the server has max_allowed_packet = %d; expected %d or more, as documents have up to a megabyte; raise it: %w", n, minPacket, fault.Invalid)
	}
	return int(min(n/2-(1<<20)-(64<<10), 3<<20)), nil
}

// greeting bounds the time of a login. The client itself has no bound where a server hangs, or where the port
// is that of another service.
const greeting = 8 * time.Second

// errNoGreeting is the error of a login that took too long.
var errNoGreeting = errors.New("expected a MariaDB or MySQL there; it hangs, or another service listens on this port")

// mysqlConnector prepares each new connection.
type mysqlConnector struct {
	config   *mysql.Config
	patience time.Duration // greeting, or what the URL has for connecting if that is more
	setup    []string
}

// Driver implements driver.Connector.
func (c *mysqlConnector) Driver() sqldriver.Driver { return mysql.MySQLDriver{} }

// Connect implements driver.Connector.
func (c *mysqlConnector) Connect(ctx context.Context) (sqldriver.Conn, error) {
	bounded, cancel := context.WithTimeoutCause(ctx, c.patience, errNoGreeting)
	defer cancel()
	conn, err := connectMySQL(bounded, c.config)
	if err != nil && context.Cause(bounded) == errNoGreeting { //nolint:errorlint // this very one
		return nil, fmt.Errorf("%s: waited for %s: %w", c.config.Addr, c.patience, errNoGreeting)
	}
	if err != nil {
		return nil, err
	}
	for _, q := range c.setup {
		if _, err := conn.ExecContext(ctx, q, nil); err != nil && number(err) != errUnknownVariable {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}

// quiet takes what the client would write to standard error about lost connections. Callers get these as
// errors.
type quiet struct{ log *slog.Logger }

func (q quiet) Print(v ...any) {
	if q.log != nil {
		q.log.Debug("MariaDB client", "message", strings.TrimSpace(fmt.Sprint(v...)))
	}
}

func mysqlDialect() *sqlstore.Dialect {
	const options = " ENGINE=InnoDB ROW_FORMAT=DYNAMIC"
	return &sqlstore.Dialect{
		Name: "MariaDB",
		Schema: []string{
			`CREATE TABLE IF NOT EXISTS ringfence_entries (
				k VARBINARY(700) NOT NULL PRIMARY KEY,
				version VARCHAR(40) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
				session_id VARCHAR(40) CHARACTER SET latin1 COLLATE latin1_bin NULL,
				content LONGBLOB NULL,
				KEY ringfence_bound (session_id))` + options,
			`CREATE TABLE IF NOT EXISTS ringfence_sessions (
				id VARCHAR(40) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL PRIMARY KEY,
				process VARCHAR(40) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
				ttl BIGINT NOT NULL,
				expires BIGINT NOT NULL)` + options,
			`CREATE TABLE IF NOT EXISTS ringfence_changes (revision BIGINT NOT NULL PRIMARY KEY, change_keys LONGBLOB NULL)` + options,
			`CREATE TABLE IF NOT EXISTS ringfence_revision (id INT NOT NULL PRIMARY KEY, revision BIGINT NOT NULL)` + options,
			`CREATE TABLE IF NOT EXISTS ringfence_listeners (
				process VARCHAR(40) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL PRIMARY KEY, since BIGINT NOT NULL)` + options,
			`CREATE TABLE IF NOT EXISTS ringfence_slots (id INT NOT NULL PRIMARY KEY, used INT NOT NULL)` + options,
			`CREATE TABLE IF NOT EXISTS ringfence_schema (id INT NOT NULL PRIMARY KEY, version INT NOT NULL)` + options,
		},
		Ignore: func(err error) bool { return number(err) == errDuplicate },
		Tables: checkMySQLTables,
		Begin:  "START TRANSACTION", Commit: "COMMIT", Rollback: "ROLLBACK",
		Bind:      sqlstore.Question,
		Now:       func() string { return "CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)" },
		Day:       func() string { return "CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000 AS SIGNED)" },
		Orphaned:  "SELECT COUNT(*) FROM ringfence_entries WHERE " + orphaned,
		Orphans:   "INSERT IGNORE INTO ringfence_sessions (id, process, ttl, expires) SELECT DISTINCT session_id, '', 0, 0 FROM ringfence_entries WHERE " + orphaned,
		Hint:      " FORCE INDEX (PRIMARY)",
		ForUpdate: " FOR UPDATE",
		ForShare:  " LOCK IN SHARE MODE",
		Slots:     true,
		Upsert: func(rows int) string {
			return "INSERT INTO ringfence_entries (k, version, session_id, content) VALUES " + strings.Repeat("(?,?,?,?),", rows-1) +
				"(?,?,?,?) ON DUPLICATE KEY UPDATE version = VALUES(version), session_id = VALUES(session_id), content = VALUES(content)"
		},
		Fate: mysqlFate,
	}
}

// Numbers of the server's errors.
const (
	errDuplicate       = 1062
	errUnknownVariable = 1193
	errLockWait        = 1205
	errDeadlock        = 1213
	errInterrupted     = 1317
	errChangedSince    = 1020 // MariaDB with innodb_snapshot_isolation
	errTableCorrupt    = 1194
	errTableCrashed    = 1195
	errIndexCorrupt    = 1712
	errNoSuchThread    = 1094
)

// number is that of the server's error; 0: the error is another one.
func number(err error) uint16 {
	var answer *mysql.MySQLError
	if errors.As(err, &answer) {
		return answer.Number
	}
	return 0
}

func mysqlFate(err error) sqlstore.Fate {
	switch number(err) {
	case errDeadlock, errChangedSince:
		return sqlstore.Again
	case errLockWait:
		return sqlstore.Held
	case errTableCorrupt, errTableCrashed, errIndexCorrupt:
		return sqlstore.Damaged
	}
	return sqlstore.Failed
}

// checkMySQLTables is fault.Corrupt if a table has another engine than InnoDB. A server without InnoDB makes
// tables of its default engine instead, with a warning only, and without transactions the fence is lost.
func checkMySQLTables(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, `SELECT LOWER(TABLE_NAME), COALESCE(ENGINE, '') FROM information_schema.TABLES
		WHERE TABLE_SCHEMA = DATABASE() AND LEFT(TABLE_NAME, 10) = 'ringfence_'`)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err reports a failure
	for rows.Next() {
		var table, engine string
		if err := rows.Scan(&table, &engine); err != nil {
			return err
		}
		if !strings.EqualFold(engine, "InnoDB") {
			return fmt.Errorf("table %s has the engine %q; expected InnoDB: name another database, or, while no process uses it, run ALTER TABLE … ENGINE=InnoDB: %w",
				table, engine, fault.Corrupt)
		}
	}
	return rows.Err()
}
