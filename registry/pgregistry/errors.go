package pgregistry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/registry/driver"
)

// Codes of the server that need an answer of their own.
const (
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeLockTimeout   = "55P03"
	codeCanceled      = "57014"
	codeNoTable       = "42P01"
	codeNoSchema      = "3F000"
	codeNoRight       = "42501"
	codeReadOnly      = "25006"
	codeNoDatabase    = "3D000"
	codeNoLogin       = "28000"
	codePassword      = "28P01"
)

func code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// untouched says that a request certainly left no trace: it was not sent, or the server answered
// with an error that ends the transaction but not the connection. After a FATAL one, as at a
// shutdown, the commit may have been done.
func untouched(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.SeverityUnlocalized == "ERROR" || pg.SeverityUnlocalized == "" && pg.Severity == "ERROR"
	}
	var connect *pgconn.ConnectError
	return pgconn.SafeToRetry(err) || errors.As(err, &connect)
}

// again says that the same request may well succeed now.
func again(err error) bool {
	c := code(err)
	return c == codeSerialization || c == codeDeadlock
}

// refused is the error of a request that left no trace.
func (s *store) refused(doing string, err error) error {
	if errors.Is(err, driver.ErrClosed) || s.isClosed() {
		return fmt.Errorf("postgres registry: %s: %w", doing, driver.ErrClosed)
	}
	return unavailable("postgres registry: "+doing, err)
}

func unavailable(doing string, err error) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	what := advice(code(err))
	if connect := new(pgconn.ConnectError); errors.As(err, &connect) {
		err = attempts{err}
	}
	if what != "" {
		return fmt.Errorf("%s: %w: %w (%s)", doing, driver.ErrUnavailable, err, what)
	}
	return fmt.Errorf("%s: %w: %w", doing, driver.ErrUnavailable, err)
}

// attempts is the error of a connection that could not be made, on one line. The client writes a
// line for each attempt, and makes two of each address: with TLS and without.
type attempts struct{ error }

func (a attempts) Unwrap() error { return a.error }

func (a attempts) Error() string {
	first, rest, _ := strings.Cut(a.error.Error(), "\n")
	var each []string
	for line := range strings.Lines(rest) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(each, line) {
			each = append(each, line)
		}
	}
	return strings.TrimSpace(first + " " + strings.Join(each, "; "))
}

// advice is what to do about an error of the server.
func advice(code string) string {
	switch code {
	case codeLockTimeout:
		return "another transaction keeps an entry locked: end it, or wait"
	case codeNoRight:
		return "the role lacks a right: it needs USAGE of the schema and SELECT, INSERT, UPDATE, DELETE on its tables, and to make the schema first CREATE on the database"
	case codeNoTable, codeNoSchema:
		return "the schema has been dropped: open the registry again to make it anew"
	case codeNoDatabase:
		return "make that database, or name another one in the URL"
	case codeNoLogin, codePassword:
		return "check user and password of the URL, and what the server's pg_hba.conf lets in"
	case codeReadOnly:
		return "this server accepts no writes: name the primary, or all hosts and target_session_attrs=read-write"
	}
	return ""
}
