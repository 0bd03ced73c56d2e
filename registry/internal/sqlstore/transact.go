package sqlstore

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
)

// transact runs f in a transaction, and again after a deadlock. f returns whether there is anything to commit;
// each of its calls must begin anew. The error is fault.Unknown only if the answer to a commit was lost.
func (s *Store) transact(ctx context.Context, what string, f func(context.Context, Querier) (bool, error)) error {
	return s.transactWhile(ctx, s.cfg.DB, what, s.d.again, f)
}

// transactWhile is transact on one of the handles, repeated while again agrees to the error.
func (s *Store) transactWhile(ctx context.Context, db *sql.DB, what string, again func(error) bool, f func(context.Context, Querier) (bool, error)) error {
	for try := 0; ; try++ {
		err := s.once1(ctx, db, what, f)
		if err == nil || errors.Is(err, fault.Unknown) {
			return err
		}
		if !again(err) {
			return s.wrap(ctx, what, err)
		}
		if wait := pause(ctx, backoff(try)); wait != nil {
			return s.wrap(ctx, what, fmt.Errorf("%w (%d tries, then %w)", err, try+1, wait))
		}
	}
}

// backoff is the pause before the next try, with jitter, so that the parties to a deadlock do not meet again.
func backoff(try int) time.Duration {
	d := time.Millisecond << min(try, 6)
	return d/2 + time.Duration(rand.Int64N(int64(d)))
}

func (s *Store) once1(ctx context.Context, db *sql.DB, what string, f func(context.Context, Querier) (bool, error)) error {
	t, err := s.begin(ctx, db)
	if err != nil {
		return err
	}
	if err := s.cfg.Intact(); err != nil {
		t.rollback()
		return err
	}
	write, err := f(ctx, t)
	if err != nil || !write {
		t.rollback()
		return err
	}
	if err := t.commit(ctx); err != nil {
		t.rollback()
		if s.d.again(err) {
			return err
		}
		return fmt.Errorf("%s registry: %s: %w: no answer to a commit: %w", s.d.Name, what, fault.Unknown, err)
	}
	return nil
}

// transaction is one of the database, on a connection of its own until it ends.
type transaction interface {
	Querier
	commit(ctx context.Context) error
	rollback() // after commit: frees the connection if commit failed
}

func (s *Store) begin(ctx context.Context, db *sql.DB) (transaction, error) {
	if s.d.Begin == "" {
		t, err := db.BeginTx(ctx, nil)
		if err != nil {
			return nil, err
		}
		return clientTx{t}, nil
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	t := &textTx{Conn: conn, d: s.d}
	if _, err := conn.ExecContext(ctx, s.d.Begin); err != nil {
		t.rollback()
		return nil, err
	}
	return t, nil
}

// textTx begins and ends by statements, so that a context bounds the commit as well.
type textTx struct {
	*sql.Conn
	d *Dialect
}

func (t *textTx) commit(ctx context.Context) error {
	if _, err := t.ExecContext(ctx, t.d.Commit); err != nil {
		return err
	}
	return t.Close()
}

// rollback gives the connection back without the transaction, or closes it.
func (t *textTx) rollback() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := t.ExecContext(ctx, t.d.Rollback); err != nil {
		_ = t.Raw(func(any) error { return sqldriver.ErrBadConn })
	}
	_ = t.Close()
}

// clientTx leaves it to the client.
type clientTx struct{ *sql.Tx }

func (t clientTx) commit(context.Context) error { return t.Commit() }
func (t clientTx) rollback()                    { _ = t.Rollback() }
