package sqlregistry

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"net"
	"time"

	"github.com/go-sql-driver/mysql"
)

// mysqlConn is a connection of the client library with bounds on what it does without a context: closing,
// rolling back, and reading an answer to its end. The pool does these in goroutines of its own, where a
// server that hangs would keep them for ever.
type mysqlConn struct {
	library
	raw net.Conn
}

// library is what the pool uses of a connection.
type library interface {
	sqldriver.Conn
	sqldriver.ExecerContext
	sqldriver.QueryerContext
	sqldriver.ConnBeginTx
	sqldriver.Pinger
	sqldriver.SessionResetter
	sqldriver.Validator
	sqldriver.NamedValueChecker
}

// endings bounds what is done without a context.
const endings = 2 * time.Second

// connectMySQL connects as c says.
func connectMySQL(ctx context.Context, c *mysql.Config) (*mysqlConn, error) {
	x := new(mysqlConn)
	once := c.Clone()
	dial := once.DialFunc
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	once.DialFunc = func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		x.raw, err = dial(ctx, network, address)
		return x.raw, err
	}
	connector, err := mysql.NewConnector(once)
	if err != nil {
		return nil, err
	}
	conn, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	x.library = conn.(library) //nolint:forcetypeassert // the library's connections are all of that
	return x, nil
}

// soon bounds the time of f.
func (x *mysqlConn) soon(f func() error) error {
	_ = x.raw.SetDeadline(time.Now().Add(endings)) // fails only on a closed connection
	defer func() { _ = x.raw.SetDeadline(time.Time{}) }()
	return f()
}

// Prepare implements driver.Conn. The client puts parameters into the statement; the pool asks for a
// prepared one only where that fails.
func (x *mysqlConn) Prepare(string) (sqldriver.Stmt, error) {
	return nil, errors.New("the statement is too large for a packet, or has another number of parameters")
}

// Close implements driver.Conn.
func (x *mysqlConn) Close() error { return x.soon(x.library.Close) }

// QueryContext implements driver.QueryerContext.
func (x *mysqlConn) QueryContext(ctx context.Context, q string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	rows, err := x.library.QueryContext(ctx, q, args)
	if err != nil {
		return nil, err
	}
	return &mysqlRows{rows, x}, nil
}

// BeginTx implements driver.ConnBeginTx.
func (x *mysqlConn) BeginTx(ctx context.Context, o sqldriver.TxOptions) (sqldriver.Tx, error) {
	tx, err := x.library.BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	return &mysqlTx{tx, x}, nil
}

type mysqlRows struct {
	sqldriver.Rows
	conn *mysqlConn
}

// Close implements driver.Rows. The library reads on to the end of the answer.
func (r *mysqlRows) Close() error { return r.conn.soon(r.Rows.Close) }

type mysqlTx struct {
	sqldriver.Tx
	conn *mysqlConn
}

// Rollback implements driver.Tx.
func (t *mysqlTx) Rollback() error { return t.conn.soon(t.Tx.Rollback) }
