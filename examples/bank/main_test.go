package main

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/internal/testserver"
)

// TestMain lets the test program be its own worker.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "work" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// TestEveryTransferHappensExactlyOnce kills workers in a loop and compares all balances.
func TestEveryTransferHappensExactlyOnce(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"sqlite", "postgres", "mariadb"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			c := config{accounts: 10, transfers: 400, workers: 3, kills: 5}
			if store != "sqlite" {
				c.registry = database(t, store, testserver.URL(t, store))
			}
			if err := c.run(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestTheBankOutlivesARestartOfItsDatabase takes the database away from the workers in several
// ways, some of which are killed and started while it is away. Nobody helps them.
func TestTheBankOutlivesARestartOfItsDatabase(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"postgres", "mariadb"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			server := testserver.Private(t, store)
			const transfers = 200
			harms, down := []func(){server.Kill, server.Stop}, false
			c := config{registry: database(t, store, server.URL()), accounts: 10, transfers: transfers, workers: 3, kills: 3}
			c.harm = func(lag int64) (over bool) {
				switch {
				case down:
					server.Restart()
					down = false
				case len(harms) == 2 || len(harms) == 1 && lag <= transfers/2:
					harms[0]()
					down, harms = true, harms[1:]
				}
				return len(harms) == 0 && !down
			}
			if err := c.run(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// database is the URL of a new database on the server.
func database(t *testing.T, store, server string) string {
	ctx := context.WithoutCancel(t.Context()) // it is dropped at the very end
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	if store == "mariadb" {
		u.Scheme = "mysql"
	}
	l, err := openLedger(u.String())
	if err != nil {
		t.Fatal(err)
	}
	name := "bank_" + strings.ToLower(rand.Text()[:12])
	if _, err := l.ExecContext(ctx, "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = l.ExecContext(ctx, "DROP DATABASE "+name)
		_ = l.Close()
	})
	u.Path = "/" + name
	return u.String()
}
