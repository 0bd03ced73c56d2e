package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// Fate is what an error of a statement means.
type Fate int

// The fates.
const (
	// Failed is an answer of the store: it can't do that now.
	Failed Fate = iota
	// Again: a deadlock; the transaction was rolled back.
	Again
	// Held: the same, because another transaction keeps a row locked for long.
	Held
	// Damaged: what is stored can't be read.
	Damaged
)

// Dialect holds the differences of databases. Its texts are constants of this program, and never hold a value
// of a user.
type Dialect struct {
	Name string // for messages: "MariaDB"

	// Schema are the statements that create version 1. Each may be carried out when it was
	// before, and by many processes at once; Ignore says which of their errors mean just that.
	Schema []string
	Ignore func(error) bool // nil: none

	// Tables fails if tables of our names are not as Schema makes them. nil: no check.
	Tables func(context.Context, *sql.DB) error

	// Begin, Commit and Rollback are statements; empty: the client has calls for them.
	Begin, Commit, Rollback string
	// Bind is the n-th parameter of a statement, from 1.
	Bind func(n int) string
	// Now is an expression for the time in microseconds by the one clock that all processes on
	// the store share.
	Now func() string
	// Day is an expression for the store's time of day, in Unix milliseconds.
	Day func() string
	// Orphans is a statement that inserts an expired session for each one that entries are bound to but the
	// table lacks: sessions may lie in a file of their own, and that may be lost or older. Orphaned counts
	// them. Empty: this can't happen.
	Orphaned, Orphans string
	// Hint stands between the table of entries and the condition that selects rows to lock.
	Hint string
	// ForUpdate and ForShare end a SELECT that locks the rows it finds.
	ForUpdate, ForShare string
	// Slots: locks on rows do not keep others from inserting absent ones, so that absent keys
	// are locked by a row of their own, which their hash selects.
	Slots bool
	// LockAll is a statement that gives a transaction of the user the sole right to write; empty:
	// rows are locked one by one.
	LockAll string
	// Upsert writes rows (k, version, session_id, content), in this order of parameters; at most
	// MaxUpsert of them, 0: 200. Twice: the parameters stand in it twice, one after the other.
	Upsert    func(rows int) string
	MaxUpsert int
	Twice     bool
	// Blob wraps a value for the client; nil: the bytes themselves.
	Blob func([]byte) any
	// Fate judges an error of the client; it is not asked about lost connections.
	Fate func(error) Fate
}

// Querier is a connection, or a transaction on one.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// again says that the same transaction may well succeed now.
func (d *Dialect) again(err error) bool {
	f := d.Fate(err)
	return f == Again || f == Held
}

// list is "(?,?,…)" for the first n parameters.
func (d *Dialect) list(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = d.Bind(i + 1)
	}
	return "(" + strings.Join(names, ",") + ")"
}

// upsert is the statement that writes rows, and its parameters in full.
func (d *Dialect) upsert(args []any) (string, []any) {
	q := d.Upsert(len(args) / 4)
	if d.Twice {
		args = append(args, args...)
	}
	return q, args
}

func (d *Dialect) blob(b []byte) any {
	if d.Blob == nil {
		return b
	}
	return d.Blob(b)
}

// bind fills the verbs %s of a statement with its parameters.
func (d *Dialect) bind(format string, n int) string {
	names := make([]any, n)
	for i := range names {
		names[i] = d.Bind(i + 1)
	}
	return fmt.Sprintf(format, names...)
}

// Question is the Bind of databases whose parameters have no numbers.
func Question(int) string { return "?" }
