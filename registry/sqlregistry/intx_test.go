package sqlregistry

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

// users are a registry and the user's own handle on the same database, on each kind of database.
func users(t *testing.T, run func(t *testing.T, r driver.Registry, db *sql.DB)) {
	t.Helper()
	onBoth(t, func(t *testing.T, c Config, db *sql.DB) {
		db.SetMaxOpenConns(4)
		s := openStore(t, c)
		if _, err := db.Exec("CREATE TABLE account (id INTEGER PRIMARY KEY, n INTEGER)"); err != nil {
			t.Fatal(err)
		}
		run(t, s, db)
	})
}

func in(t *testing.T, r driver.Registry, tx *sql.Tx) driver.TxEntries {
	t.Helper()
	e, err := r.(driver.Transactional).InTx(tx)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func read(t *testing.T, r driver.Registry, key string) string {
	t.Helper()
	snap, err := r.List(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range snap.Entries {
		if e.Key == key {
			return string(e.Value)
		}
	}
	return "<absent>"
}

func TestAnEntryIsWrittenWithTheUsersTransactionOrNotAtAll(t *testing.T) {
	t.Parallel()
	users(t, func(t *testing.T, r driver.Registry, db *sql.DB) {
		for i, commit := range []bool{false, true} {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			e := in(t, r, tx)
			got, err := e.Lock(t.Context(), "k", "absent")
			if err != nil || len(got) != 2 || got[0].Key != "k" || got[0].Version != "" || got[1].Key != "absent" {
				t.Fatalf("%+v, %v", got, err)
			}
			v, err := e.Put(t.Context(), "k", []byte("written"))
			if err != nil || v == "" {
				t.Fatal(v, err)
			}
			if _, err := tx.Exec("INSERT INTO account VALUES (1, 5)"); err != nil {
				t.Fatal(err)
			}
			if got, err := e.Lock(t.Context(), "k"); err != nil || string(got[0].Value) != "written" || got[0].Version != v {
				t.Fatalf("it does not see what it wrote: %+v, %v", got, err)
			}
			if commit {
				err = tx.Commit()
			} else {
				err = tx.Rollback()
			}
			if err != nil {
				t.Fatal(err)
			}
			var n int
			if err := db.QueryRow("SELECT COUNT(*) FROM account").Scan(&n); err != nil || n != i {
				t.Fatal(n, err)
			}
			if got, want := read(t, r, "k"), []string{"<absent>", "written"}[i]; got != want {
				t.Fatalf("the entry is %q, expected %q", got, want)
			}
		}
		if _, err := r.(driver.Transactional).InTx("a string"); !errors.Is(err, registry.ErrInvalid) {
			t.Fatal(err)
		}
	})
}

// Readers that found a key absent would all create it, unless they lock what is not there.
func TestTransactionsOfUsersAndOfTheRegistryCountEachOther(t *testing.T) {
	t.Parallel()
	users(t, func(t *testing.T, r driver.Registry, db *sql.DB) {
		const each = 15
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for done := 0; done < each; {
					err := increment(t.Context(), r, db)
					if err == nil {
						done++
					} else if !errors.Is(err, registry.ErrConflict) {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Go(func() {
			for done := 0; done < each; {
				snap, err := r.List(t.Context(), "n")
				if err != nil {
					t.Error(err)
					return
				}
				var v driver.Version
				n := 0
				if len(snap.Entries) > 0 {
					v = snap.Entries[0].Version
					n, _ = strconv.Atoi(string(snap.Entries[0].Value))
				}
				res, err := r.Apply(t.Context(), []driver.Txn{{Checks: []driver.Check{{Key: "n", Version: v}}, Puts: []driver.Put{{Key: "n", Value: []byte(strconv.Itoa(n + 1))}}, Quiet: true}})
				if err != nil {
					t.Error(err)
					return
				}
				if res[0].Err == nil {
					done++
				}
			}
		})
		wg.Wait()
		if got := read(t, r, "n"); got != strconv.Itoa(4*each) {
			t.Fatalf("the counter is at %s, expected %d", got, 4*each)
		}
	})
}

func increment(ctx context.Context, r driver.Registry, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	e, err := r.(driver.Transactional).InTx(tx)
	if err != nil {
		return err
	}
	got, err := e.Lock(ctx, "n")
	if err != nil {
		return err
	}
	n, _ := strconv.Atoi(string(got[0].Value))
	if _, err := e.Put(ctx, "n", []byte(strconv.Itoa(n+1))); err != nil {
		return err
	}
	return tx.Commit()
}

// A process that was stopped inside of its transaction keeps its own unit, and no other.
func TestALockThatIsNotGivenUpKeepsNoOtherTransactionWaiting(t *testing.T) {
	t.Parallel()
	const keys, locked = 1000, 2 // halved ten times
	c := newDatabase(t)
	s := openStore(t, Config{MySQL: c})
	txns := make([]driver.Txn, keys)
	for i := range txns {
		txns[i] = driver.Txn{Puts: []driver.Put{{Key: strconv.Itoa(i), Value: []byte("before")}}}
	}
	created, err := s.Apply(t.Context(), txns)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range created {
		txns[i].Checks = []driver.Check{{Key: strconv.Itoa(i), Version: r.Versions[0]}}
		txns[i].Puts[0].Value = []byte("after")
	}
	tx, err := sqlDB(t, c).BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in(t, s, tx).Lock(t.Context(), strconv.Itoa(locked)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	start := time.Now()
	results, err := s.Apply(ctx, txns)
	t.Logf("%d transactions beside a locked one took %s", keys-1, time.Since(start))
	if err := errors.Join(err, tx.Rollback()); err != nil {
		t.Fatal(err)
	}
	snap, err := s.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]string)
	for _, e := range snap.Entries {
		values[e.Key] = string(e.Value)
	}
	for i, r := range results {
		want, value := error(nil), "after"
		if i == locked {
			want, value = registry.ErrUnavailable, "before"
		}
		if got := values[strconv.Itoa(i)]; !errors.Is(r.Err, want) || errors.Is(r.Err, registry.ErrUnknown) || got != value {
			t.Errorf("key %d, the locked one is %d: %v, and its value is %s", i, locked, r.Err, got)
		}
	}
}
