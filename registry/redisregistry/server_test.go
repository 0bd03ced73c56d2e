package redisregistry

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/registrytest"
)

// command sends a command that is no business of the driver's.
func command(t *testing.T, s *store, words ...string) string {
	t.Helper()
	text, err := s.client.Do(t.Context(), s.client.B().Arbitrary(words...).Build()).ToString()
	if err != nil {
		t.Fatalf("%v: %v", words, err)
	}
	return text
}

// TestAServerThatFails hurts one server in ways that follow each other.
func TestAServerThatFails(t *testing.T) {
	t.Parallel()
	srv := testserver.Private(t, "redis")
	for _, c := range []struct {
		name string
		run  func(*testing.T, *testserver.Server)
	}{
		{"scripts that it forgot are sent again", forgotten},
		{"what was acknowledged survives kill -9 and a restart", killedServer},
		{"who comes back later after a restart is not dead", lateReturn},
		{"a server that hangs is a pause", hangingServer},
		{"the rights that the guide names are enough", guarded},
		{"an emptied store fences everybody and is usable", emptied},
		{"ten idle members cost it fewer than thirty statements a second", idle},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, srv) })
	}
}

func forgotten(t *testing.T, srv *testserver.Server) {
	s := mustOpen(t, at(t, srv.URL()))
	apply(t, s, put("a", "1")[0])
	command(t, s, "SCRIPT", "FLUSH")
	apply(t, s, put("a", "2")[0])
	command(t, s, "SCRIPT", "FLUSH")
	if got := value(t, s, "a"); got != "2" {
		t.Fatalf("a is %s", got)
	}
}

func killedServer(t *testing.T, srv *testserver.Server) {
	cfg := at(t, srv.URL())
	s, other := mustOpen(t, cfg), mustOpen(t, cfg)
	x, err := s.OpenSession(t.Context(), 10*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	watch, err := other.Watch(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	v := apply(t, s, driver.Txn{Puts: []driver.Put{{Key: "m", Session: x.ID(), Value: []byte("here")}}})
	drain(watch)
	srv.Kill()
	eventually(t, "the outage is noticed", func() error {
		if _, err := s.List(t.Context(), ""); err == nil {
			return errors.New("a list succeeded")
		} else if !errors.Is(err, fault.Unavailable) {
			t.Fatal(err)
		}
		return nil
	})
	srv.Restart()
	signalled(t, watch)
	works(t, s)
	time.Sleep(grace + sweepPause + 10*confirm) // the failure detector gets its chance to be wrong
	if got := value(t, other, "m"); got != "here" {
		t.Fatalf("the entry of a living process is %s after a restart of the server", got)
	}
	apply(t, s, driver.Txn{Checks: []driver.Check{{Key: "m", Version: v[0]}}, Deletes: []string{"m"}})
	other.shut(false)
	s.shut(false)
}

// lateReturn: after a restart all have to connect again, and some take longer.
func lateReturn(t *testing.T, srv *testserver.Server) {
	for range 3 { // a machine that stalls may keep it away for longer than the grace
		if returns(t, srv) {
			return
		}
	}
	t.Fatal("the entry of a process that came back later is gone, again and again")
}

// returns says whether the session of a process that came back later goes on. It may be over, but
// then on both sides.
func returns(t *testing.T, srv *testserver.Server) bool {
	t.Helper()
	net := testserver.NewProxy(t, srv.URL())
	cfg := at(t, srv.URL())
	far := at(t, net.URL(srv.URL()))
	far.Namespace = cfg.Namespace
	s, other := mustOpen(t, far), mustOpen(t, cfg)
	watch, err := other.Watch(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	x := joined(t, s, 20*time.Second)
	drain(watch)
	srv.Kill()
	net.Refuse()
	srv.Restart()
	signalled(t, watch)   // the other one is back
	time.Sleep(grace / 3) // a real server is away for a while
	net.Heal()
	works(t, s)
	if value(t, other, "m") == "here" {
		return true
	}
	eventually(t, "a session that the store has ended is over", func() error { return over(x) })
	return false
}

func hangingServer(t *testing.T, srv *testserver.Server) {
	cfg := at(t, srv.URL())
	cfg.Timeout = quickly
	s, other := mustOpen(t, cfg), mustOpen(t, cfg)
	x := joined(t, s, 20*time.Second)
	eventually(t, "a watch", func() error {
		_, err := other.Watch(t.Context(), "")
		return err
	})
	leaver := mustOpen(t, cfg)
	eventually(t, "a session", func() error {
		_, err := leaver.OpenSession(t.Context(), 20*time.Second)
		return err
	})
	srv.Freeze()
	began := time.Now()
	if res, err := s.Apply(t.Context(), put("k", "1")); err == nil && res[0].Err == nil {
		t.Error("a server that hangs applied a transaction")
	}
	if took := time.Since(began); took > soon/2 {
		t.Errorf("a call took %s; the time-out is %s", took, quickly)
	}
	closing := time.Now()
	leaver.Close()
	if took := time.Since(closing); took > soon/2 {
		t.Errorf("Close took %s while the server hung; the time-out is %s", took, quickly)
	}
	srv.Thaw()
	works(t, s)
	time.Sleep(grace + 10*confirm) // long enough to be taken for dead
	if got := value(t, other, "m"); got != "here" {
		t.Errorf("the entry of a living process is %s after the server hung", got)
	}
	select {
	case <-x.Done():
		t.Error("the session is over")
	default:
	}
}

// guarded: a user with no rights but those of docs/guide/security.md.
func guarded(t *testing.T, srv *testserver.Server) {
	admin := mustOpen(t, at(t, srv.URL()))
	rights := testserver.Rights(t, "Redis", "rf", "small")
	command(t, admin, "CONFIG", "RESETSTAT")
	command(t, admin, "SCRIPT", "FLUSH") // afterwards: whoever loads them again is counted
	for db, acl := range rights {
		command(t, admin, strings.Fields(acl)...)
		command(t, admin, "ACL", "SETUSER", "small", "on", ">pw")
		for _, denied := range []string{
			"FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "KEYS *", "SCAN 0", "RANDOMKEY", "DBSIZE", "GET other", "DEL other", "EVAL x 1 other",
			"SCRIPT FLUSH", "SCRIPT KILL", "FUNCTION FLUSH", "FUNCTION LOAD x", "CONFIG GET requirepass", "CONFIG SET requirepass x", "ACL LIST",
			"CLIENT LIST", "CLIENT KILL ID 1", "SPUBLISH other x", "PUBLISH {ringfence/x x", "MONITOR", "SAVE", "SHUTDOWN", "REPLICAOF h 1", "DEBUG SLEEP 1",
		} {
			if said := command(t, admin, append([]string{"ACL", "DRYRUN", "small"}, strings.Fields(denied)...)...); said == "OK" {
				t.Errorf("with the rights of the guide one may %s", denied)
			}
		}
		cfg := at(t, srv.URL())
		cfg.Username, cfg.Password, cfg.DB = "small", "pw", db
		s := mustOpen(t, cfg)
		if err := registrytest.EveryOperation(t.Context(), s); err != nil {
			t.Errorf("database %d: %v", db, err)
		}
		apply(t, s, put("a", "1")[0])
		if got := value(t, s, "a"); got != "1" {
			t.Errorf("database %d: a is %s", db, got)
		}
		if _, err := s.count(t.Context()); err != nil {
			t.Errorf("database %d: looking for dead processes: %v", db, err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("database %d: %v", db, err)
		}
	}
	used := command(t, admin, "INFO", "commandstats")
	for _, word := range strings.Fields(strings.Join(rights, " ")) {
		if name, ok := strings.CutPrefix(word, "+"); ok && !strings.Contains(used, "cmdstat_"+name+":") {
			t.Errorf("nobody needs the right %s", word)
		}
	}
}

// emptied: FLUSHALL, or a replica that knew nothing was made the master.
func emptied(t *testing.T, srv *testserver.Server) {
	s := mustOpen(t, at(t, srv.URL()))
	const ttl = 3 * time.Second
	x, err := s.OpenSession(t.Context(), ttl)
	if err != nil {
		t.Fatal(err)
	}
	v := apply(t, s, driver.Txn{Puts: []driver.Put{{Key: "owner", Session: x.ID()}}})
	command(t, s, "FLUSHALL")
	check := []driver.Check{{Key: "owner", Version: v[0]}}
	res, err := s.Apply(t.Context(), []driver.Txn{{Checks: check, Puts: []driver.Put{{Key: "checkpoint"}}}})
	if err != nil || !errors.Is(res[0].Err, fault.Conflict) {
		t.Errorf("a write under the old fence: %v, %+v", err, res)
	}
	if again := apply(t, s, driver.Txn{Puts: []driver.Put{{Key: "owner"}}}); again[0] == v[0] {
		t.Errorf("version %q was given out again", v[0])
	}
	res, err = s.Apply(t.Context(), []driver.Txn{{Checks: check, Puts: []driver.Put{{Key: "checkpoint"}}}})
	if err != nil || !errors.Is(res[0].Err, fault.Conflict) {
		t.Errorf("a write under the old fence after as many writes as before: %v, %+v", err, res)
	}
	select {
	case <-x.Done():
	case <-time.After(soon):
		t.Error("the session does not know that the store has forgotten it")
	}
}

func idle(t *testing.T, srv *testserver.Server) {
	cfg := at(t, srv.URL())
	for range 10 {
		s := mustOpen(t, cfg)
		if _, err := s.OpenSession(t.Context(), 5*time.Second); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Watch(t.Context(), "groups/g/"); err != nil {
			t.Fatal(err)
		}
	}
	probe := mustOpen(t, at(t, srv.URL()))
	const span = 4 * time.Second
	time.Sleep(time.Second) // what members do when they begin is not counted as idle
	for range 3 {           // after a machine stalled they look for each other
		before, began := statements(t, probe), time.Now()
		time.Sleep(span) // the cost of idle seconds is measured
		per := float64(statements(t, probe)-before) / time.Since(began).Seconds()
		t.Logf("%.1f commands a second, those inside of scripts included", per)
		if per < 30 {
			return
		}
	}
	t.Error("ten idle members cost too many commands a second; expected fewer than 30")
}

func statements(t *testing.T, s *store) int {
	t.Helper()
	info, err := s.info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(info["total_commands_processed"])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// signalled waits for a signal of a watch.
func signalled(t *testing.T, watch <-chan struct{}) {
	t.Helper()
	select {
	case <-watch:
	case <-time.After(soon):
		t.Fatal("no signal")
	}
}

func drain(ch <-chan struct{}) {
	for {
		select {
		case <-ch:
		case <-time.After(50 * time.Millisecond):
			return
		}
	}
}

// joined opens a session and binds the entry "m" to it; anew when the machine stalled for so long
// that the session has ended.
func joined(t *testing.T, s *store, ttl time.Duration) driver.Session {
	t.Helper()
	var x driver.Session
	eventually(t, "a session with an entry", func() (err error) {
		if x, err = s.OpenSession(t.Context(), ttl); err != nil {
			return err
		}
		res, err := s.Apply(t.Context(), []driver.Txn{{Puts: []driver.Put{{Key: "m", Session: x.ID(), Value: []byte("here")}}}})
		if err == nil {
			err = res[0].Err
		}
		return err
	})
	return x
}

func over(x driver.Session) error {
	select {
	case <-x.Done():
		return nil
	default:
		return errors.New("the session goes on")
	}
}
