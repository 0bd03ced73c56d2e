package redisregistry

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

// A key of a namespace that was evicted, or deleted by hand, must not look like a group that is not
// there yet: members would begin it anew.
func TestALostKeyIsLoud(t *testing.T) {
	t.Parallel()
	for _, which := range []string{"entries", "keys", "meta"} {
		t.Run(which, func(t *testing.T) {
			t.Parallel()
			s := mustOpen(t, server(t))
			for i := range 3 {
				r, err := s.Apply(t.Context(), put(fmt.Sprint("k", i), "v"))
				if err != nil || r[0].Err != nil {
					t.Fatal(err, r)
				}
			}
			key := map[string]string{"meta": s.names.keys[0], "entries": s.names.keys[1], "keys": s.names.keys[2]}[which]
			if n, err := s.client.Do(t.Context(), s.client.B().Del().Key(key).Build()).AsInt64(); err != nil || n != 1 {
				t.Fatalf("%d keys were deleted, %v", n, err)
			}
			if snap, err := s.List(t.Context(), ""); !errors.Is(err, fault.Corrupt) {
				t.Errorf("a list of %d entries, %v; expected ErrCorrupt", len(snap.Entries), err)
			}
			if which == "meta" {
				return
			}
			if _, err := s.Apply(t.Context(), []driver.Txn{{Quiet: true, Puts: []driver.Put{{Key: "other", Value: []byte("v")}}}}); err != nil {
				t.Fatal(err)
			}
			if snap, err := s.List(t.Context(), ""); !errors.Is(err, fault.Corrupt) {
				t.Errorf("after another write a list of %d entries, %v; expected ErrCorrupt", len(snap.Entries), err)
			}
		})
	}
}

func TestAServerThatMayEvictKeysIsRefused(t *testing.T) {
	t.Parallel()
	srv := testserver.Private(t, "redis")
	s := mustOpen(t, at(t, srv.URL()))
	for _, c := range []struct {
		policy, limit string
		refused       bool
	}{
		{"allkeys-lru", "100mb", true}, {"volatile-ttl", "100mb", true}, {"noeviction", "100mb", false}, {"allkeys-lru", "0", false},
	} {
		command(t, s, "CONFIG", "SET", "maxmemory-policy", c.policy)
		command(t, s, "CONFIG", "SET", "maxmemory", c.limit)
		other, err := open(t.Context(), at(t, srv.URL()))
		if err == nil {
			other.shut(false)
		}
		if refused := errors.Is(err, fault.Invalid); refused != c.refused || !refused && err != nil {
			t.Errorf("%s with a limit of %s: %v; expected it to be refused: %t", c.policy, c.limit, err, c.refused)
		}
	}
}
