package redisregistry

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/registry/driver"
)

// model is what the transactions of a test have to come to.
type model struct {
	entries map[string]driver.Entry
	given   map[string]bool // key and version
}

// apply gives the error kind and the index that t has to have, and applies it when there is none.
// ended are the sessions that have ended.
func (m *model) apply(t *driver.Txn, ended map[string]bool) (failed int, kind error) {
	for i, c := range t.Checks {
		if m.entries[c.Key].Version != c.Version {
			return i, driver.ErrConflict
		}
	}
	for _, p := range t.Puts {
		if ended[p.Session] {
			return 0, driver.ErrFenced
		}
	}
	for _, p := range t.Puts {
		m.entries[p.Key] = driver.Entry{Key: p.Key, Value: p.Value, Session: p.Session}
	}
	for _, k := range t.Deletes {
		delete(m.entries, k)
	}
	return 0, nil
}

func (m *model) end(session string) {
	for k, e := range m.entries {
		if e.Session == session {
			delete(m.entries, k)
		}
	}
}

var modelKeys = []string{"a", "a/1", "a/2", "b", "a\xff", "\xff", "c d", "e\nf"}

func drawTxn(rt *rapid.T, m *model, sessions []string) driver.Txn {
	var t driver.Txn
	t.Quiet = rapid.Bool().Draw(rt, "quiet")
	for _, k := range rapid.SliceOfNDistinct(rapid.SampledFrom(modelKeys), 0, 2, rapid.ID).Draw(rt, "checks") {
		c := driver.Check{Key: k, Version: m.entries[k].Version}
		switch rapid.IntRange(0, 6).Draw(rt, "wrong") {
		case 0:
			c.Version = ""
		case 1:
			c.Version = version(1, "xxxxxxxxxxx")
		}
		t.Checks = append(t.Checks, c)
	}
	keys := rapid.SliceOfNDistinct(rapid.SampledFrom(modelKeys), 0, 4, rapid.ID).Draw(rt, "keys")
	for _, k := range keys {
		if rapid.IntRange(0, 3).Draw(rt, "what") == 0 {
			t.Deletes = append(t.Deletes, k)
			continue
		}
		p := driver.Put{Key: k, Value: rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(rt, "value")}
		if rapid.IntRange(0, 2).Draw(rt, "bound") == 0 {
			p.Session = rapid.SampledFrom(sessions).Draw(rt, "session")
		}
		t.Puts = append(t.Puts, p)
	}
	return t
}

func TestTransactionsDoWhatAModelDoes(t *testing.T) {
	t.Parallel()
	cfg := server(t)
	rapid.Check(t, func(rt *rapid.T) {
		cfg.Namespace = "test-" + newID()
		s := mustOpen(t, cfg)
		defer s.shut(false)
		m := &model{entries: map[string]driver.Entry{}, given: map[string]bool{}}
		ended := map[string]bool{"none.1": true}
		sessions := []string{"none.1"}
		for range 2 {
			id := newID() + ".1"
			if err := s.begin(t.Context(), id, time.Minute); err != nil {
				rt.Fatal(err)
			}
			sessions = append(sessions, id)
		}
		for range rapid.IntRange(1, 12).Draw(rt, "calls") {
			if rapid.IntRange(0, 5).Draw(rt, "end") == 0 {
				id := rapid.SampledFrom(sessions).Draw(rt, "ending")
				if rapid.Bool().Draw(rt, "expired") { // nobody has swept it
					if err := s.client.Do(t.Context(), s.client.B().Del().Key(s.names.session+id).Build()).Error(); err != nil {
						rt.Fatal(err)
					}
				} else if err := s.end(t.Context(), id); err != nil {
					rt.Fatal(err)
				}
				ended[id] = true
				m.end(id)
			}
			m.call(rt, t, s, sessions, ended)
			m.compare(rt, t, s, "")
			m.compare(rt, t, s, rapid.SampledFrom([]string{"a", "a/", "\xff", "e", "z"}).Draw(rt, "prefix"))
		}
	})
}

// call applies some transactions at once. Versions of the same call can't be checked against, as
// nobody knows them before it.
func (m *model) call(rt *rapid.T, t *testing.T, s *store, sessions []string, ended map[string]bool) {
	txns := make([]driver.Txn, rapid.IntRange(1, 5).Draw(rt, "txns"))
	for i := range txns {
		txns[i] = drawTxn(rt, m, sessions)
	}
	results, err := s.Apply(t.Context(), txns)
	if err != nil {
		rt.Fatal(err)
	}
	for i := range txns {
		failed, kind := m.apply(&txns[i], ended)
		if !errors.Is(results[i].Err, kind) || results[i].Failed != failed {
			rt.Fatalf("transaction %d of %+v: %v (check %d), expected %v (check %d)", i, txns, results[i].Err, results[i].Failed, kind, failed)
		}
		if kind != nil {
			continue
		}
		for j, p := range txns[i].Puts {
			v := results[i].Versions[j]
			if at := p.Key + "\x00" + string(v); len(v) != versionBytes || m.given[at] {
				rt.Fatalf("version %q of key %q was given out before, or is none", v, p.Key)
			} else {
				m.given[at] = true
			}
			e := m.entries[p.Key]
			e.Version = v
			m.entries[p.Key] = e
		}
	}
}

func (m *model) compare(rt *rapid.T, t *testing.T, s *store, prefix string) {
	snap, err := s.List(t.Context(), prefix)
	if err != nil {
		rt.Fatal(err)
	}
	want := 0
	for k := range m.entries {
		if len(k) >= len(prefix) && k[:len(prefix)] == prefix {
			want++
		}
	}
	if len(snap.Entries) != want {
		rt.Fatalf("prefix %q lists %d entries, expected %d", prefix, len(snap.Entries), want)
	}
	for _, e := range snap.Entries {
		if w := m.entries[e.Key]; fmt.Sprintf("%q", w) != fmt.Sprintf("%q", e) {
			rt.Fatalf("key %q: %q, expected %q", e.Key, e, w)
		}
	}
}

// What nobody can reach any more must not pile up in Redis.
func TestNothingIsLeftOfWhatWasDeletedOrHasEnded(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, server(t))
	x, err := s.OpenSession(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, s, driver.Txn{Puts: []driver.Put{{Key: "a"}, {Key: "b", Session: x.ID()}, {Key: "c", Session: x.ID()}}})
	apply(t, s, driver.Txn{Puts: []driver.Put{{Key: "c"}}, Deletes: []string{"a"}})
	apply(t, s, driver.Txn{Deletes: []string{"c"}})
	if err := x.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, key := range append(s.names.keys[1:], s.names.session+x.ID()) {
		if n, err := s.client.Do(t.Context(), s.client.B().Exists().Key(key).Build()).AsInt64(); err != nil || n != 0 {
			t.Errorf("%s is still there: %d, %v", key, n, err)
		}
	}
}

func apply(t *testing.T, s *store, txn driver.Txn) []driver.Version {
	t.Helper()
	res, err := s.Apply(t.Context(), []driver.Txn{txn})
	if err != nil || res[0].Err != nil {
		t.Fatal(err, res)
	}
	return res[0].Versions
}
