package e2e_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/pgregistry"
	"github.com/ringfence/ringfence/registry/sqlregistry"
)

// shop is a topic with its registry in a database, which has the user's own table too.
type shop struct {
	dir       string
	registry  string // URL
	namespace string
	table     string
	mark      [2]string // for arguments of a statement
	db        *sql.DB
}

// newShop is in SQLite.
func newShop(t *testing.T, partitions, messages, keys int) (*shop, *ringfence.Client) {
	t.Helper()
	return newShopIn(t, "sqlite", partitions, messages, keys)
}

func newShopIn(t *testing.T, store string, partitions, messages, keys int) (*shop, *ringfence.Client) {
	t.Helper()
	name := "shop_" + strings.ToLower(rand.Text()[:12])
	s := &shop{dir: t.TempDir(), namespace: name, table: name, mark: [2]string{"?", "?"}}
	driver, source, number := store, "", "INTEGER PRIMARY KEY AUTOINCREMENT"
	switch store {
	case "sqlite":
		file := filepath.Join(s.dir, "shop.db")
		s.registry, source = "sqlite://"+file, "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(20000)"
	case "postgres":
		s.registry, s.mark = testserver.URL(t, store), [2]string{"$1", "$2"}
		driver, source, number = "pgx", s.registry, "SERIAL PRIMARY KEY"
	case "mariadb":
		s.registry = testserver.URL(t, store)
		u, err := url.Parse(s.registry)
		must(t, err)
		c := mysql.NewConfig()
		c.Net, c.Addr, c.DBName, c.User = "tcp", u.Host, strings.TrimPrefix(u.Path, "/"), u.User.Username()
		c.Passwd, _ = u.User.Password()
		c.Params = map[string]string{"tx_isolation": "'READ-COMMITTED'"}
		driver, source, number = "mysql", c.FormatDSN(), "INTEGER PRIMARY KEY AUTO_INCREMENT"
	}
	rf := s.open(t)
	db, err := sql.Open(driver, source)
	must(t, err)
	t.Cleanup(func() {
		_, _ = db.Exec("DROP TABLE " + s.table)
		db.Close()
	})
	_, err = db.Exec("CREATE TABLE " + s.table + " (n " + number + ", k TEXT, v TEXT)")
	must(t, err)
	s.db = db
	must(t, rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: partitions}))
	produce(t, rf, "orders", 0, messages, keys)
	return s, rf
}

func (s *shop) open(t *testing.T) *ringfence.Client {
	t.Helper()
	rf, err := ringfence.Open(t.Context(), ringfence.Config{
		Dir: s.dir, Registry: s.registry, Namespace: s.namespace, Durability: ringfence.OS,
		Backends: []ringfence.Backend{
			{Scheme: "postgres", OpenRegistry: pgregistry.OpenURL},
			{Scheme: "mysql", OpenRegistry: sqlregistry.OpenURL},
			{Scheme: "sqlite", OpenRegistry: sqlregistry.OpenURL},
		},
	})
	must(t, err)
	t.Cleanup(func() { rf.Close() })
	return rf
}

// write writes a message down.
func (s *shop) write(ctx context.Context, tx *sql.Tx, m *ringfence.Message) error {
	_, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s (k, v) VALUES (%s, %s)", s.table, s.mark[0], s.mark[1]), string(m.Key), string(m.Value))
	return err
}

// sell writes a message down and commits its checkpoint with that. The error of CommitIn is passed
// to seen, which may say how the handler goes on.
func (s *shop) sell(ctx context.Context, m *ringfence.Message, seen func(error) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing after a commit
	if err := s.write(ctx, tx, m); err != nil {
		return err
	}
	if err := seen(m.CommitIn(ctx, tx)); err != nil {
		return err
	}
	return tx.Commit()
}

func (s *shop) handle(ctx context.Context, m *ringfence.Message) error {
	return s.sell(ctx, m, func(err error) error { return err })
}

// sold is what the table has by key, in order.
func (s *shop) sold(t *testing.T) (byKey map[string][]string, total int) {
	t.Helper()
	rows, err := s.db.Query("SELECT k, v FROM " + s.table + " ORDER BY n")
	must(t, err)
	defer rows.Close()
	byKey = make(map[string][]string)
	for rows.Next() {
		var k, v string
		must(t, rows.Scan(&k, &v))
		byKey[k] = append(byKey[k], v)
		total++
	}
	must(t, rows.Err())
	return byKey, total
}

// await waits until the group has processed everything.
func (s *shop) await(t *testing.T, rf *ringfence.Client) {
	t.Helper()
	eventually(t, "the group to reach the end", func() bool {
		g, err := rf.Admin().DescribeGroup(t.Context(), "g")
		return err == nil && g.Lag == 0
	})
}

// exactly checks that the effects are those of messages 0 … n-1, as produce made them: each once,
// in the order of its key.
func (s *shop) exactly(t *testing.T, messages, keys int) {
	t.Helper()
	byKey, total := s.sold(t)
	if total != messages {
		t.Errorf("%d effects of %d messages", total, messages)
	}
	for i := range keys {
		var want []string
		for n := i; n < messages; n += keys {
			want = append(want, fmt.Sprint(n))
		}
		if k := fmt.Sprintf("k%d", i); !slices.Equal(byKey[k], want) {
			t.Errorf("key %s: %v; expected %v", k, byKey[k], want)
		}
	}
}

// transactional are the options of all consumers here.
func transactional(member string) ringfence.ConsumeOptions {
	return ringfence.ConsumeOptions{Member: member, Transactional: true, Retry: ringfence.Retry{Initial: time.Millisecond, Max: 5 * time.Millisecond}}
}
