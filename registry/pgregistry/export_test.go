package pgregistry

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/hook"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/internal/kv"
	"github.com/ringfence/ringfence/registry/registrytest"
)

// kill ends everything as the death of the process would, as far as others can see.
func (s *store) kill() {
	s.once.Do(func() {
		s.keeper.own.Abandon()
		s.shutDown()
	})
}

// schemaStore is a schema that nobody else uses.
type schemaStore struct {
	url    string
	schema string
}

func newStore(t testing.TB, url string) schemaStore {
	t.Helper()
	d := schemaStore{url: url, schema: "test_" + id{newIDSource().next()}.text()}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		defer cancel()
		c, err := pgx.Connect(ctx, url)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close(ctx)
		if _, err := c.Exec(ctx, "SET client_min_messages = warning; DROP SCHEMA IF EXISTS "+d.schema+" CASCADE", pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d schemaStore) open(t testing.TB, o driver.Options) *store {
	t.Helper()
	s, err := open(t.Context(), Config{URL: d.url, Schema: d.schema, Options: o})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func (d schemaStore) Open(t testing.TB, o driver.Options) *registrytest.Process {
	gate := new(hook.Gate)
	s, err := open(gate.With(t.Context()), Config{URL: d.url, Schema: d.schema, Options: o})
	if err != nil {
		t.Fatal(err)
	}
	inner, err := kv.Namespace(s, o.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	return &registrytest.Process{
		Registry: registry.New(inner),
		Kill:     s.kill,
		Freeze:   gate.Shut,
		Thaw:     gate.Open,
	}
}

func apply(t testing.TB, s *store, txn driver.Txn) driver.Result {
	t.Helper()
	res, err := s.Apply(t.Context(), []driver.Txn{txn})
	if err != nil {
		t.Error(err)
		return driver.Result{Err: err}
	}
	return res[0]
}

func put(t testing.TB, s *store, key, value string) driver.Version {
	t.Helper()
	res := apply(t, s, driver.Txn{Puts: []driver.Put{{Key: key, Value: []byte(value)}}})
	if res.Err != nil {
		t.Fatal(res.Err)
	}
	return res.Versions[0]
}

// get reads a key; a zero Entry when it is absent.
func get(t testing.TB, s *store, key string) driver.Entry {
	t.Helper()
	snap, err := s.List(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range snap.Entries {
		if e.Key == key {
			return e
		}
	}
	return driver.Entry{}
}

// patience is how long await waits, also on a machine that stalls now and then.
const patience = 20 * time.Second

// await asks again and again until cond holds.
func await(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !cond() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}
