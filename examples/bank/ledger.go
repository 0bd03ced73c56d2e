package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/ringfence/ringfence"
)

// ledger is the table of accounts, in the database that holds the registry too.
type ledger interface {
	// create makes the table anew, drop removes it.
	create(ctx context.Context, accounts int, balance int64) error
	drop(ctx context.Context) error
	// move moves money and commits the message's checkpoint, in one transaction.
	move(ctx context.Context, m *ringfence.Message, t transfer) error
	balances(ctx context.Context) ([]int64, error)
	close()
}

const dropTable = "DROP TABLE bank_accounts"

// openLedger opens the database of a registry's URL.
func openLedger(ctx context.Context, raw string) (ledger, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" {
		return nil, errors.New("the URL of the registry is malformed; expected one of postgres:, mysql: and sqlite:") // it may hold a password
	}
	switch u.Scheme {
	case "postgres", "postgresql":
		pool, err := pgxpool.New(ctx, raw)
		return &postgres{pool}, err
	case "mysql", "mariadb":
		c := mysql.NewConfig()
		c.Net, c.Addr, c.DBName = "tcp", u.Host, strings.TrimPrefix(u.Path, "/")
		c.User = u.User.Username()
		c.Passwd, _ = u.User.Password()
		db, err := sql.Open("mysql", c.FormatDSN())
		return &sqlLedger{db: db, key: "INT", isolation: sql.LevelReadCommitted}, err
	case "sqlite":
		db, err := sql.Open("sqlite", "file:"+u.Path+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
		return &sqlLedger{db: db, key: "INTEGER"}, err
	}
	return nil, fmt.Errorf("registry %s: expected postgres:, mysql: or sqlite:, which have transactions to share", u.Redacted())
}

// sqlLedger is a ledger in MariaDB, MySQL or SQLite.
type sqlLedger struct {
	db  *sql.DB
	key string // type of the primary key

	isolation sql.IsolationLevel // above READ COMMITTED, MariaDB's locks on gaps collide
}

func (l *sqlLedger) create(ctx context.Context, accounts int, balance int64) error {
	if _, err := l.db.ExecContext(ctx, "CREATE TABLE bank_accounts (id "+l.key+" PRIMARY KEY, balance BIGINT NOT NULL)"); err != nil {
		return err
	}
	for id := range accounts {
		if _, err := l.db.ExecContext(ctx, "INSERT INTO bank_accounts (id, balance) VALUES (?, ?)", id, balance); err != nil {
			return err
		}
	}
	return nil
}

func (l *sqlLedger) drop(ctx context.Context) error {
	_, err := l.db.ExecContext(ctx, dropTable)
	return err
}

func (l *sqlLedger) move(ctx context.Context, m *ringfence.Message, t transfer) error {
	tx, err := l.db.BeginTx(ctx, &sql.TxOptions{Isolation: l.isolation})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing after a commit
	for _, s := range t.steps() {
		if _, err := tx.ExecContext(ctx, "UPDATE bank_accounts SET balance = balance + ? WHERE id = ?", s.amount, s.account); err != nil {
			return err
		}
	}
	if err := m.CommitIn(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}

func (l *sqlLedger) balances(ctx context.Context) (all []int64, err error) {
	rows, err := l.db.QueryContext(ctx, "SELECT balance FROM bank_accounts ORDER BY id")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, rows.Err()
}

func (l *sqlLedger) close() { _ = l.db.Close() }

// postgres is a ledger in PostgreSQL.
type postgres struct{ pool *pgxpool.Pool }

func (l *postgres) create(ctx context.Context, accounts int, balance int64) error {
	_, err := l.pool.Exec(ctx, "CREATE TABLE bank_accounts (id int PRIMARY KEY, balance bigint NOT NULL)")
	if err == nil {
		_, err = l.pool.Exec(ctx, "INSERT INTO bank_accounts SELECT generate_series(0, $1::int - 1), $2::bigint", accounts, balance)
	}
	return err
}

func (l *postgres) drop(ctx context.Context) error {
	_, err := l.pool.Exec(ctx, dropTable)
	return err
}

func (l *postgres) move(ctx context.Context, m *ringfence.Message, t transfer) error {
	return pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		for _, s := range t.steps() {
			if _, err := tx.Exec(ctx, "UPDATE bank_accounts SET balance = balance + $1 WHERE id = $2", s.amount, s.account); err != nil {
				return err
			}
		}
		return m.CommitIn(ctx, tx)
	})
}

func (l *postgres) balances(ctx context.Context) ([]int64, error) {
	rows, err := l.pool.Query(ctx, "SELECT balance FROM bank_accounts ORDER BY id")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

func (l *postgres) close() { l.pool.Close() }
