package redisregistry

import (
	"testing"

	"github.com/ringfence/ringfence/registry/driver"
)

// What the benchmark compares with does the same work at the server, fence included.
func TestTheBareRequestWritesUnderTheSameChecks(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, server(t))
	owner := apply(t, s, put("owner", "me")[0])
	send, err := s.Bare(t.Context(), []driver.Txn{{
		Checks: []driver.Check{{Key: "owner", Version: owner[0]}},
		Puts:   []driver.Put{{Key: "checkpoint", Value: []byte("bare")}},
		Quiet:  true,
	}})
	if err != nil {
		t.Fatal(err)
	}
	written := func() string {
		apply(t, s, put("checkpoint", "other")[0])
		if err := send(t.Context()); err != nil {
			t.Fatal(err)
		}
		return value(t, s, "checkpoint")
	}
	for range 2 {
		if got := written(); got != "bare" {
			t.Fatalf("the checkpoint is %s", got)
		}
	}
	apply(t, s, put("owner", "somebody else")[0])
	if got := written(); got != "other" {
		t.Errorf("it was written though the check fails: the checkpoint is %s", got)
	}
}
