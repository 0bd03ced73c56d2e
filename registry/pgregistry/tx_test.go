package pgregistry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

// userTxs opens transactions as users have them, each with its end.
func userTxs(t *testing.T, url string) map[string]func() (tx any, end func(commit bool) error) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return map[string]func() (any, func(bool) error){
		"pgx": func() (any, func(bool) error) {
			c, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close(context.Background()) })
			tx, err := c.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return tx, func(commit bool) error {
				if commit {
					return tx.Commit(t.Context())
				}
				return tx.Rollback(t.Context())
			}
		},
		"database/sql": func() (any, func(bool) error) {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return tx, func(commit bool) error {
				if commit {
					return tx.Commit()
				}
				return tx.Rollback()
			}
		},
	}
}

func TestEntriesAreWrittenWithTheUsersTransaction(t *testing.T) {
	t.Parallel()
	url := testserver.URL(t, "postgres")
	for name, begin := range userTxs(t, url) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t, url).open(t, driver.Options{})
			owner := put(t, s, "owner", "v")
			for _, commit := range []bool{false, true} {
				tx, end := begin()
				in, err := s.InTx(tx)
				if err != nil {
					t.Fatal(err)
				}
				entries, err := in.Lock(t.Context(), "owner", "checkpoint", "absent")
				if err != nil {
					t.Fatal(err)
				}
				if e := entries[0]; e.Key != "owner" || e.Version != owner || string(e.Value) != "v" {
					t.Fatalf("the owner is read as %+v", e)
				}
				if e := entries[1]; e.Key != "checkpoint" || e.Version != "" || entries[2].Version != "" {
					t.Fatalf("an absent entry is read as %+v", e)
				}
				v, err := in.Put(t.Context(), "checkpoint", []byte("at 7"))
				if err != nil {
					t.Fatal(err)
				}
				if got := get(t, s, "checkpoint"); got.Version != "" {
					t.Fatalf("it is visible before the commit: %+v", got)
				}
				if err := end(commit); err != nil {
					t.Fatal(err)
				}
				got := get(t, s, "checkpoint")
				if commit && (got.Version != v || string(got.Value) != "at 7") || !commit && got.Version != "" {
					t.Fatalf("after commit=%t: %+v", commit, got)
				}
			}
			// The placeholder of what was locked and not written is as good as nothing.
			if got := get(t, s, "absent"); got.Version != "" {
				t.Fatalf("a placeholder is listed: %+v", got)
			}
			res := apply(t, s, driver.Txn{Checks: []driver.Check{{Key: "absent"}}, Puts: []driver.Put{{Key: "absent", Value: []byte("now")}}})
			if res.Err != nil || string(get(t, s, "absent").Value) != "now" {
				t.Fatalf("a key that was locked while absent can't be created: %v", res.Err)
			}
		})
	}
}

// A takeover waits for a transaction that holds the fence, and one that comes after the takeover
// sees it.
func TestAUsersTransactionAndATakeoverExcludeEachOther(t *testing.T) {
	t.Parallel()
	url := testserver.URL(t, "postgres")
	for name, begin := range userTxs(t, url) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t, url).open(t, driver.Options{})
			owner := put(t, s, "owner", "old")
			tx, end := begin()
			in, err := s.InTx(tx)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := in.Lock(t.Context(), "owner", "checkpoint"); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			defer wg.Wait()
			taken := make(chan driver.Result, 1)
			wg.Go(func() {
				taken <- apply(t, s, driver.Txn{Checks: []driver.Check{{Key: "owner", Version: owner}, {Key: "checkpoint"}}, Puts: []driver.Put{{Key: "owner", Value: []byte("new")}}})
			})
			awaitLockWait(t, url, s)
			if _, err := in.Put(t.Context(), "checkpoint", []byte("1")); err != nil {
				t.Fatal(err)
			}
			if err := end(true); err != nil {
				t.Fatal(err)
			}
			if res := <-taken; !errors.Is(res.Err, driver.ErrConflict) || res.Failed != 1 {
				t.Fatalf("the takeover did not see the checkpoint that was committed before it: %+v", res)
			}
		})
	}
}

// Everybody locks an owner before its checkpoint: an order of anybody's own would be a deadlock.
func TestWhoWaitsForAnOwnerHoldsNoCheckpoint(t *testing.T) {
	t.Parallel()
	url := testserver.URL(t, "postgres")
	begin := userTxs(t, url)["pgx"]
	waiters := map[string]func(t *testing.T, s *store, checkpoint driver.Txn) error{
		"checkpoints": func(t *testing.T, s *store, checkpoint driver.Txn) error {
			return reply(t, s, soon, checkpoint)
		},
		"a seek": func(t *testing.T, s *store, checkpoint driver.Txn) error {
			checkpoint.Quiet = false
			checkpoint.Puts = append(checkpoint.Puts, driver.Put{Key: checkpoint.Checks[0].Key})
			return reply(t, s, soon, checkpoint)
		},
		"a user's transaction": func(t *testing.T, s *store, checkpoint driver.Txn) error {
			tx, end := begin()
			in, err := s.InTx(tx)
			if err == nil {
				_, err = in.Lock(t.Context(), checkpoint.Checks[0].Key, checkpoint.Checks[1].Key)
			}
			return errors.Join(err, end(true))
		},
	}
	for name, wait := range waiters {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t, url).open(t, driver.Options{})
			txn := owned(t, s, 1)[0]
			c, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(context.Background())
			tx, err := c.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			lock := `SELECT FROM ` + s.q.schema + `.entry WHERE key = $1 FOR UPDATE NOWAIT`
			if _, err := tx.Exec(t.Context(), lock, []byte(txn.Checks[0].Key)); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- wait(t, s, txn) }()
			awaitBlocked(t, url, c.PgConn().PID())
			if _, err := tx.Exec(t.Context(), lock, []byte(txn.Checks[1].Key)); err != nil {
				t.Errorf("the checkpoint: %v", err)
			}
			if err := errors.Join(tx.Rollback(t.Context()), <-done); err != nil {
				t.Error(err)
			}
		})
	}
}

// awaitBlocked returns when somebody waits for a server process.
func awaitBlocked(t *testing.T, url string, pid uint32) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	await(t, "somebody waits", func() bool {
		var n int
		if err := c.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))`, int32(pid)).Scan(&n); err != nil { //nolint:gosec // pids are small
			t.Fatal(err)
		}
		return n > 0
	})
}

// awaitLockWait returns when a statement on the store waits for a lock.
func awaitLockWait(t *testing.T, url string, s *store) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	await(t, "a statement waits for a lock", func() bool {
		var n int
		err := c.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND right(application_name, length($1)) = $1`, tag(s.holder)).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n > 0
	})
}

func TestALockThatIsNotGivenUpIsUnavailableAndNothingIsWritten(t *testing.T) {
	t.Parallel()
	url := testserver.URL(t, "postgres")
	s := newStore(t, url).open(t, driver.Options{})
	put(t, s, "k", "1")
	tx, end := userTxs(t, url)["pgx"]()
	defer end(false)
	in, err := s.InTx(tx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Lock(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err = s.Apply(t.Context(), []driver.Txn{{Puts: []driver.Put{{Key: "k", Value: []byte("2")}}}})
	if !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUnknown) {
		t.Fatalf("error %v after %s", err, time.Since(began))
	}
	if got := get(t, s, "k"); string(got.Value) != "1" {
		t.Fatalf("it was written: %+v", got)
	}
}

func TestALockThatIsNotGivenUpKeepsNoOtherTransactionWaiting(t *testing.T) {
	t.Parallel()
	url := testserver.URL(t, "postgres")
	s := newStore(t, url).open(t, driver.Options{})
	for name, form := range map[string]func(key string, v driver.Version) driver.Txn{
		"claim": func(key string, v driver.Version) driver.Txn {
			return driver.Txn{Checks: []driver.Check{{Key: key, Version: v}}, Puts: []driver.Put{{Key: key, Value: []byte("2")}}}
		},
		"checkpoint": func(key string, v driver.Version) driver.Txn {
			return driver.Txn{Quiet: true, Checks: []driver.Check{{Key: "owner of " + key, Version: v}}, Puts: []driver.Put{{Key: key, Value: []byte("2")}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys := []string{name + "0", name + "1", name + "2", name + "3", name + "4"}
			var txns []driver.Txn
			for _, k := range keys {
				v := put(t, s, k, "1")
				if name == "checkpoint" {
					v = put(t, s, "owner of "+k, "1")
				}
				txns = append(txns, form(k, v))
			}
			const locked = 2
			tx, end := userTxs(t, url)["pgx"]()
			in, err := s.InTx(tx)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := in.Lock(t.Context(), keys[locked]); err != nil {
				t.Fatal(err)
			}
			results, err := s.Apply(t.Context(), txns)
			if err := errors.Join(err, end(false)); err != nil {
				t.Fatal(err)
			}
			for i, r := range results {
				want, value := error(nil), "2"
				if i == locked {
					want, value = driver.ErrUnavailable, "1"
				}
				if got := get(t, s, keys[i]); !errors.Is(r.Err, want) || errors.Is(r.Err, driver.ErrUnknown) || string(got.Value) != value {
					t.Errorf("key %d, the locked one is %d: %v, and its value is %s", i, locked, r.Err, got.Value)
				}
			}
		})
	}
}

// Many locked rows leave the others of a call the time that they need, whatever its limit is.
func TestManyLocksThatAreNotGivenUpKeepNoOtherTransactionWaiting(t *testing.T) {
	t.Parallel()
	url := testserver.URL(t, "postgres")
	const units, limit = 64, 6 * time.Second
	for name, absent := range map[string]bool{"checkpoints": false, "first checkpoints": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t, url).open(t, driver.Options{})
			txns := owned(t, s, units)
			if absent {
				for i := range txns {
					key := fmt.Sprintf("first/%02d", i)
					txns[i].Checks[1], txns[i].Puts[0].Key = driver.Check{Key: key}, key
				}
			}
			tx, end := userTxs(t, url)["pgx"]()
			in, err := s.InTx(tx)
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < units; i += 4 {
				if _, err := in.Lock(t.Context(), txns[i].Checks[0].Key, txns[i].Puts[0].Key); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			results, err := s.Apply(ctx, txns)
			if err := errors.Join(err, end(false)); err != nil {
				t.Fatal(err)
			}
			for i, r := range results {
				want := error(nil)
				if i%4 == 0 {
					want = driver.ErrUnavailable
				}
				if !errors.Is(r.Err, want) || errors.Is(r.Err, driver.ErrUnknown) {
					t.Errorf("unit %d: %v; expected %v", i, r.Err, want)
				}
			}
		})
	}
}

// What somebody is about to make can't be seen, and keeps no other transaction waiting either.
func TestALockOfAnAbsentKeyKeepsNoOtherTransactionWaiting(t *testing.T) {
	t.Parallel()
	url := testserver.URL(t, "postgres")
	s := newStore(t, url).open(t, driver.Options{})
	tx, end := userTxs(t, url)["pgx"]()
	in, err := s.InTx(tx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Lock(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	results, err := s.Apply(t.Context(), []driver.Txn{write("a", "1"), write("b", "1"), write("c", "1")})
	if err := errors.Join(err, end(false)); err != nil {
		t.Fatal(err)
	}
	for i, want := range []error{nil, driver.ErrUnavailable, nil} {
		if err := results[i].Err; !errors.Is(err, want) || errors.Is(err, driver.ErrUnknown) {
			t.Errorf("transaction %d: %v; expected %v", i, err, want)
		}
	}
}

func TestTransactionsOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	s := newStore(t, testserver.URL(t, "postgres")).open(t, driver.Options{})
	for _, tx := range []any{nil, 42, (*sql.Tx)(nil), &sql.DB{}} {
		if _, err := s.InTx(tx); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%T: %v", tx, err)
		}
	}
	tx, end := userTxs(t, testserver.URL(t, "postgres"))["pgx"]()
	defer end(false)
	in, err := s.InTx(tx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Put(t.Context(), "not locked", nil); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("a put without a lock: %v", err)
	}
}
