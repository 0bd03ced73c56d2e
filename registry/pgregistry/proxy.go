package pgregistry

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// A proxy that pools transactions gives each of them any connection to the server that is free.
// Session locks and LISTEN then belong to whoever is served next. It is noticed by the process
// IDs: a server names at the start the one that it goes on to answer with, a proxy invents one.

// poolingTries is how often a proxy is asked to show that it does not pool transactions.
const poolingTries = 5

const backendPID = `SELECT pg_backend_pid()`

// detectPooling says whether a proxy that pools transactions stands in between, and warns.
func (s *store) detectPooling(ctx context.Context) (bool, error) {
	a, err := s.connect(ctx, s.conn)
	if err != nil {
		return false, unavailable("postgres registry: connecting", err)
	}
	defer a.Close(ctx) //nolint:errcheck // it was of use, whatever comes now
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
			s.warnOfPooling()
			return true, nil
		}
	}
	return false, nil
}

// shared says whether another connection can get the server process that a has just used while
// a is still open.
func (s *store) shared(ctx context.Context, a *pgx.Conn) (bool, error) {
	b, err := s.connect(ctx, s.conn)
	if err != nil {
		return false, err
	}
	defer b.Close(ctx) //nolint:errcheck // it was of use
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

func (s *store) warnOfPooling() {
	s.log.Warn("a proxy that pools transactions stands before the database: deaths of processes are noticed by the TTL of their sessions only, and changes within a second; connect past the proxy to have both at once",
		"schema", s.schema)
}
