package redisregistry

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/ringfence/ringfence/registry/driver"
)

func TestDetectorClampsTheAnnouncedPause(t *testing.T) {
	t.Parallel()
	for _, pause := range []time.Duration{-time.Hour, 0, time.Second, time.Hour, 1<<63 - 1} {
		if d := new(detector).follow(pause); d < missed*busyPause || d > (missed+1)*idlePause {
			t.Errorf("after a call that announces the next in %s the wait is %s", pause, d)
		}
	}
}

// A damaged entry is listed as damaged beside sound ones, and can be overwritten like any other.
func TestListKeepsDamagedEntriesApart(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, server(t))
	apply(t, s, put("g/sound", "{}")[0])
	const head = "0000000000001AAAAAAAAAAA"
	damaged := map[string]string{"g/short": "x", "g/kind": head + "z{}", "g/endless": head + "bsession"}
	for key, raw := range damaged {
		b := s.client.B()
		for _, r := range s.client.DoMulti(t.Context(), b.Hset().Key(s.names.keys[1]).FieldValue().FieldValue(key, raw).Build(),
			b.Zadd().Key(s.names.keys[2]).ScoreMember().ScoreMember(0, key).Build()) {
			if err := r.Error(); err != nil {
				t.Fatal(err)
			}
		}
	}
	snap, err := s.List(t.Context(), "g/")
	if err != nil || len(snap.Entries) != len(damaged)+1 {
		t.Fatalf("%d entries, %v; expected all %d", len(snap.Entries), err, len(damaged)+1)
	}
	for _, e := range snap.Entries {
		if e.Key == "g/sound" {
			continue
		}
		if json.Valid(e.Value) {
			t.Errorf("%s has the value %q, which can be a document", e.Key, e.Value)
		}
		apply(t, s, driver.Txn{Checks: []driver.Check{{Key: e.Key, Version: e.Version}}, Puts: []driver.Put{{Key: e.Key, Value: []byte("{}")}}})
	}
}
