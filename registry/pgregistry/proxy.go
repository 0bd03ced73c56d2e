package pgregistry

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// A proxy that pools transactions runs each of them on any free connection to the server. Session locks
// and LISTEN then belong to its next client. Process IDs reveal it: a server names at the start the ID it
// goes on to answer with, and a proxy invents one.

// poolingTries is how often a proxy is asked to show that it does not pool transactions.
const poolingTries = 5

const backendPID = `SELECT pg_backend_pid()`

// detectPooling reports whether a proxy in between pools transactions, and warns of it.
func (s *store) detectPooling(ctx context.Context) (bool, error) {
	a, err := s.connect(ctx, s.conn)
	if err != nil {
		return false, unavailable("postgres registry: connecting", err)
	}
	defer a.Close(ctx) //nolint:errcheck // the answer is known
	var pid uint32
	if err := a.QueryRow(ctx, backendPID).Scan(&pid); err != nil {
		return false, unavailable("postgres registry: connecting", err)
	}
	if pid == a.PgConn().PID() {
		return false, nil
	}
	for range poolingTries {
		pooled, err := s.shared(ctx, a)
		if err != nil {
			return false, unavailable("postgres registry: looking for a proxy", err)
		}
		if pooled {
			s.log.Warn("a proxy that pools transactions is in front of the database: a death is noticed by the TTL of sessions only, and a change within a second; connect past the proxy to notice both at once",
				"schema", s.schema)
			return true, nil
		}
	}
	return false, nil
}

// shared reports whether another connection gets the server process of a, while a is open.
func (s *store) shared(ctx context.Context, a *pgx.Conn) (bool, error) {
	b, err := s.connect(ctx, s.conn)
	if err != nil {
		return false, err
	}
	defer b.Close(ctx) //nolint:errcheck // the answer is known
	var before, other, now uint32
	if err := a.QueryRow(ctx, backendPID).Scan(&before); err != nil {
		return false, err
	}
	err = pgx.BeginFunc(ctx, b, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, backendPID).Scan(&other); err != nil {
			return err
		}
		if err := a.QueryRow(ctx, backendPID).Scan(&now); err != nil {
			return fmt.Errorf("on a second connection: %w", err)
		}
		return nil
	})
	return other == before || now != before, err
}
