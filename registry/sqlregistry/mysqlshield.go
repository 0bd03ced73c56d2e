package sqlregistry

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
)

// shielded is a connection of the client library's that lets no panic through, whoever asks: the pool
// closes rows and rolls back in goroutines of its own, where nobody could recover. What goes on without
// a context, which is to end an answer or a connection, is given so much time and no more.
type shielded struct {
	library
	wire   *wire
	broken atomic.Bool
}

// library is what the pool uses of a connection. It prepares no statements: their parameters are put in
// here, and what is as large as that this fails would be refused by the server.
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

// endings is for how long a server may go on with an answer that nobody wants any more.
const endings = 2 * time.Second

// guarded makes c one whose connections can be looked at.
func guarded(c *mysql.Config) error {
	switch c.TLSConfig {
	case "", "false", "true", "skip-verify", "preferred":
	default:
		return fmt.Errorf("TLS by the name %q; expected the configuration itself, as TLS", c.TLSConfig)
	}
	if err := c.Apply(mysql.EnableCompression(false)); err != nil {
		return err
	}
	if c.TLS == nil && c.TLSConfig != "" && c.TLSConfig != "false" {
		named, err := mysql.ParseDSN("tcp(" + c.Addr + ")/?tls=" + c.TLSConfig) // which knows what they mean
		if err != nil {
			return err
		}
		c.TLS, c.AllowFallbackToPlaintext = named.TLS, c.AllowFallbackToPlaintext || named.AllowFallbackToPlaintext
	}
	_, err := mysql.NewConnector(c)
	return err
}

// shield connects.
func shield(ctx context.Context, c *mysql.Config) (_ *shielded, err error) {
	once, w, err := meet(ctx, c)
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(once)
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	s := &shielded{wire: w}
	var conn sqldriver.Conn
	if err := s.call(func() (err error) { conn, err = connector.Connect(ctx); return err }); err != nil {
		w.Close()
		return nil, err
	}
	s.library = conn.(library) //nolint:forcetypeassert // of that library it is
	return s, nil
}

// call turns a panic into an error, and names what was refused.
func (s *shielded) call(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.broken.Store(true)
			s.wire.Close()
			err = refused("%v", p)
		}
		err = s.wire.refusal(err)
	}()
	return f()
}

// soon is call with a bound on its time.
func (s *shielded) soon(f func() error) error {
	_ = s.wire.SetDeadline(time.Now().Add(endings)) // it is closed already, or this holds
	defer func() { _ = s.wire.SetDeadline(time.Time{}) }()
	return s.call(f)
}

// Prepare implements driver.Conn.
func (s *shielded) Prepare(string) (sqldriver.Stmt, error) {
	return nil, errors.New("a statement that is too large for a packet, or has another number of parameters")
}

// Close implements driver.Conn.
func (s *shielded) Close() error { return s.soon(s.library.Close) }

// ExecContext implements driver.ExecerContext.
func (s *shielded) ExecContext(ctx context.Context, q string, args []sqldriver.NamedValue) (r sqldriver.Result, err error) {
	err = s.call(func() (err error) { r, err = s.library.ExecContext(ctx, q, args); return err })
	return r, err
}

// QueryContext implements driver.QueryerContext.
func (s *shielded) QueryContext(ctx context.Context, q string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	var rows sqldriver.Rows
	if err := s.call(func() (err error) { rows, err = s.library.QueryContext(ctx, q, args); return err }); err != nil {
		return nil, err
	}
	return &shieldedRows{rows, s}, nil
}

// BeginTx implements driver.ConnBeginTx.
func (s *shielded) BeginTx(ctx context.Context, o sqldriver.TxOptions) (sqldriver.Tx, error) {
	var tx sqldriver.Tx
	if err := s.call(func() (err error) { tx, err = s.library.BeginTx(ctx, o); return err }); err != nil {
		return nil, err
	}
	return &shieldedTx{tx, s}, nil
}

// Ping implements driver.Pinger.
func (s *shielded) Ping(ctx context.Context) error {
	return s.call(func() error { return s.library.Ping(ctx) })
}

// IsValid implements driver.Validator.
func (s *shielded) IsValid() bool { return !s.broken.Load() && s.library.IsValid() }

type shieldedRows struct {
	sqldriver.Rows
	s *shielded
}

// Next implements driver.Rows.
func (r *shieldedRows) Next(dest []sqldriver.Value) error {
	err := r.s.call(func() error { return r.Rows.Next(dest) })
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return err
}

// Close implements driver.Rows. The library reads on to the end of the answer.
func (r *shieldedRows) Close() error { return r.s.soon(r.Rows.Close) }

type shieldedTx struct {
	sqldriver.Tx
	s *shielded
}

// Commit implements driver.Tx.
func (t *shieldedTx) Commit() error { return t.s.call(t.Tx.Commit) }

// Rollback implements driver.Tx.
func (t *shieldedTx) Rollback() error { return t.s.soon(t.Tx.Rollback) }
