// Command fenced keeps the newest value of each key of a topic in a table of PostgreSQL that refuses stale writers:
// a process that was stopped, lost its partition, and goes on where it stood. Start it several times, stop one with
// SIGSTOP, and let it go on with SIGCONT. The database need not be the one of the registry.
//
//	printf 'acct-42:10\nacct-7:3\n' | ringfence produce balances --key-sep :
//	go run ./examples/fenced -topic balances -database postgres://localhost/app
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/ringfence/ringfence"
)

// table keeps with each value the token under which it was written.
type table struct{ *sql.DB }

var errStale = errors.New("its key was written under a later token, so another process owns it by now")

func openTable(ctx context.Context, url string) (table, error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return table{}, err
	}
	_, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS newest (key TEXT PRIMARY KEY, value TEXT NOT NULL, token CHAR(32) NOT NULL)")
	return table{db}, err
}

// write is the rule for all that receives: keep the highest token of each key, and refuse lower ones. An equal one is
// allowed, as the statement may be sent again.
func (t table) write(ctx context.Context, m *ringfence.Message) error {
	done, err := t.ExecContext(ctx, `INSERT INTO newest (key, value, token) VALUES ($1, $2, $3)
		ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value, token = EXCLUDED.token WHERE newest.token <= EXCLUDED.token`,
		string(m.Key), string(m.Value), m.Token())
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, errStale)
	}
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fenced:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	database := flag.String("database", "", "`URL` of PostgreSQL")
	dir := flag.String("data", "./ringfence-data", "data `directory`")
	topic := flag.String("topic", "balances", "topic to consume")
	flag.Parse()
	t, err := openTable(ctx, *database)
	if err != nil {
		return err
	}
	defer func() { _ = t.Close() }()
	rf, err := ringfence.Open(ctx, ringfence.Config{Dir: *dir})
	if err != nil {
		return err
	}
	defer func() { _ = rf.Close() }()
	return rf.Consume(ctx, *topic, "fenced", t.write, nil)
}
