package pgregistry

import (
	"bytes"
	"testing"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

// What the benchmark compares with does the same work at the server, fence included.
func TestTheBareRequestWritesUnderTheSameChecks(t *testing.T) {
	t.Parallel()
	s := newStore(t, testserver.URL(t, "postgres")).open(t, driver.Options{})
	owner := put(t, s, "owner", "me")
	txn := driver.Txn{
		Checks: []driver.Check{{Key: "owner", Version: owner}},
		Puts:   []driver.Put{{Key: "checkpoint", Value: []byte("bare")}},
		Quiet:  true,
	}
	send, err := s.Bare(t.Context(), []driver.Txn{txn})
	if err != nil {
		t.Fatal(err)
	}
	written := func() bool {
		put(t, s, "checkpoint", "other")
		if err := send(t.Context()); err != nil {
			t.Fatal(err)
		}
		return bytes.Equal(get(t, s, "checkpoint").Value, txn.Puts[0].Value)
	}
	for range 2 {
		if !written() {
			t.Fatal("it was not written")
		}
	}
	put(t, s, "owner", "somebody else")
	if written() {
		t.Error("it was written though the check fails")
	}
}
