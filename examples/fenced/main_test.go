package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/testserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fixture is a topic that two members write to a table of a schema of its own.
type fixture struct {
	*testing.T
	rf      *ringfence.Client
	table   table
	refused atomic.Int64
	first   atomic.Pointer[ringfence.Message] // that a handler got
}

const (
	topic = "balances"
	keys  = 20
)

func newFixture(t *testing.T) *fixture {
	server, err := url.Parse(testserver.URL(t, "postgres"))
	must(t, err)
	f := &fixture{T: t}
	ctx := context.WithoutCancel(t.Context()) // the schema is dropped at the very end
	db, err := sql.Open("pgx", server.String())
	must(t, err)
	schema, query := "fenced_"+strings.ToLower(rand.Text()[:12]), server.Query()
	_, err = db.ExecContext(ctx, "CREATE SCHEMA "+schema)
	must(t, err)
	t.Cleanup(func() {
		_, _ = db.ExecContext(ctx, "DROP SCHEMA "+schema+" CASCADE")
		_ = db.Close()
	})
	query.Set("search_path", schema)
	server.RawQuery = query.Encode()
	f.table, err = openTable(ctx, server.String())
	must(t, err)
	t.Cleanup(func() { _ = f.table.Close() })
	f.rf, err = ringfence.Open(t.Context(), ringfence.Config{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(func() { _ = f.rf.Close() })
	must(t, f.rf.EnsureTopic(t.Context(), topic, ringfence.TopicConfig{Partitions: 2}))
	return f
}

// consume runs two members until the table has a value of all keys, and returns when they have left.
func (f *fixture) consume(value int) {
	f.Helper()
	ctx, leave := context.WithCancel(f.Context())
	defer leave()
	left := make(chan error, 2)
	for range 2 {
		go func() {
			left <- f.rf.Consume(ctx, topic, "fenced", func(ctx context.Context, m *ringfence.Message) error {
				f.first.CompareAndSwap(nil, m)
				err := f.table.write(ctx, m)
				if errors.Is(err, errStale) {
					f.refused.Add(1)
				}
				return err
			}, nil)
		}()
	}
	for f.count(value) < keys {
		select {
		case <-f.Context().Done():
			f.Fatal("the records have not come")
		case <-time.After(10 * time.Millisecond):
		}
	}
	leave()
	must(f.T, errors.Join(<-left, <-left))
}

// count is of how many keys the table has a value.
func (f *fixture) count(value int) (n int) {
	f.Helper()
	must(f.T, f.table.QueryRowContext(f.Context(), "SELECT count(*) FROM newest WHERE value = $1", fmt.Sprint(value)).Scan(&n))
	return n
}

func (f *fixture) produce(value int) {
	f.Helper()
	for k := range keys {
		_, err := f.rf.Produce(f.Context(), topic, ringfence.Message{Key: fmt.Append(nil, "acct-", k), Value: fmt.Append(nil, value)})
		must(f.T, err)
	}
}

// Other owners, other partitions, and a seek back to the first record all have their writes taken. What was handed
// out before is refused from then on.
func TestTableRefusesStaleWritersAndNoOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.produce(1)
	f.consume(1)
	last := 1
	for _, partitions := range []int{5, 3} {
		f.produce(last + 1)
		_, err := f.rf.Admin().AddStorage(t.Context(), topic, partitions)
		must(t, err)
		_, err = f.rf.Admin().SwitchProduce(t.Context(), topic)
		must(t, err)
		last += 2
		f.produce(last)
		f.consume(last)
	}
	_, err := f.rf.Admin().SeekGroup(t.Context(), "fenced", ringfence.SeekEarliest, nil)
	must(t, err)
	_, err = f.table.ExecContext(t.Context(), "UPDATE newest SET value = '0'")
	must(t, err)
	f.consume(last)
	if n := f.refused.Load(); n != 0 {
		t.Errorf("%d writes of rightful owners were refused", n)
	}
	if err := f.table.write(t.Context(), f.first.Load()); !errors.Is(err, errStale) || f.count(last) != keys {
		t.Errorf("a stale write: %v, %d keys are as they were; expected %v, and all", err, f.count(last), errStale)
	}
}
