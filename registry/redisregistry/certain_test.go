package redisregistry

import (
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

// What docs/design/stores.md says of Redis, on a Redis: it refuses the transaction as a whole,
// and that is known.
func TestWhatTheServerRefusesWasNotApplied(t *testing.T) {
	t.Parallel()
	cfg := at(t, testserver.Private(t, "redis").URL())
	admin, s := mustOpen(t, cfg), mustOpen(t, cfg)
	do := func(command string) {
		t.Helper()
		args := strings.Fields(command)
		if err := admin.client.Do(t.Context(), admin.client.B().Arbitrary(args...).Build()).Error(); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
	}
	works(t, s)
	before, err := s.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for answer, how := range map[string]struct{ refuse, take string }{
		"NOREPLICAS": {"CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"},
		"OOM":        {"CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"},
		"READONLY":   {"REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"},
		"permissions to": {
			"ACL SETUSER default -evalsha -eval", "ACL SETUSER default +@all",
		},
		"channel": {"ACL SETUSER default resetchannels", "ACL SETUSER default allchannels"},
	} {
		do(how.refuse)
		res, err := s.Apply(t.Context(), []driver.Txn{
			{Puts: []driver.Put{{Key: "works", Value: []byte("y")}, {Key: "new", Value: []byte("y")}}},
			{Quiet: true, Puts: []driver.Put{{Key: "quiet", Value: []byte("y")}}},
		})
		do(how.take)
		if err == nil || !errors.Is(err, fault.Unavailable) || errors.Is(err, fault.Unknown) || !strings.Contains(err.Error(), answer) {
			t.Errorf("%s: %v, %+v; expected unavailable, with the answer %s", how.refuse, err, res, answer)
		}
		eventually(t, "a list", func() error {
			after, err := s.List(t.Context(), "")
			if err != nil {
				return err
			}
			if after.Revision != before.Revision || len(after.Entries) != len(before.Entries) || after.Entries[0].Version != before.Entries[0].Version {
				t.Errorf("%s: refused, and of it there is %+v", how.refuse, after)
			}
			return nil
		})
	}
	works(t, s)
}

// Half of a transaction is worse than none: a user who may use some of the commands that write, and
// not the others.
func TestARefusalInTheMiddleOfTheScriptIsUnknown(t *testing.T) {
	t.Parallel()
	cfg := at(t, testserver.Private(t, "redis").URL())
	admin, s := mustOpen(t, cfg), mustOpen(t, cfg)
	works(t, s)
	acl := admin.client.B().Arbitrary("ACL", "SETUSER", "default", "-zadd").Build()
	if err := admin.client.Do(t.Context(), acl).Error(); err != nil {
		t.Fatal(err)
	}
	res, err := s.Apply(t.Context(), put("half", "1"))
	if err != nil || !errors.Is(res[0].Err, fault.Unknown) {
		t.Errorf("%v, %+v; expected an unknown outcome", err, res)
	}
	there := admin.client.B().Hexists().Key(s.names.keys[1]).Field("half").Build()
	if n, err := admin.client.Do(t.Context(), there).AsInt64(); err != nil || n != 1 {
		t.Errorf("the script has written %d entries before it was refused, %v; the test shows nothing", n, err)
	}
}

// A server whose commands were renamed knows no EVALSHA: that is no damage, and the error says what to do.
func TestAMissingCommandIsToldAsSuch(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, at(t, testserver.Private(t, "redis").URL()))
	err := s.client.Do(t.Context(), s.client.B().Arbitrary("EVALSHA-RENAMED", "x").Build()).Error()
	if err = classify("transaction", err, fault.Unknown); !errors.Is(err, fault.Unavailable) || errors.Is(err, fault.Unknown) || !strings.Contains(err.Error(), "needs EVALSHA") {
		t.Errorf("an unknown command: %v; expected unavailable, with what the registry needs", err)
	}
	script := s.client.B().Eval().Script("return redis.call('hset-renamed')").Numkeys(0).Build()
	if err = classify("transaction", s.client.Do(t.Context(), script).Error(), fault.Unknown); !errors.Is(err, fault.Unknown) || !strings.Contains(err.Error(), "needs EVALSHA") {
		t.Errorf("an unknown command in a script: %v; expected an unknown outcome, with what the registry needs", err)
	}
}
