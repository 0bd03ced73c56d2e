// Package registrytest is the suite that every registry backend passes against the real thing.
//
// A backend's test opens processes on one store, as it likes best (handles of one test process,
// or real ones), and calls Run:
//
//	registrytest.Run(t, registrytest.Harness{Store: newStore})
package registrytest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

// Process is a registry as one process has it.
type Process struct {
	*registry.Registry
	// Kill ends the process as kill -9 does, without closing anything. nil: it can't be played,
	// and the tests that need it only check Close.
	Kill func()
	// Freeze stops the process as SIGSTOP does, as far as its sessions go, and Thaw continues it.
	// nil: it can't be played.
	Freeze, Thaw func()
}

// Store is one store, empty when it is made.
type Store interface {
	// Open opens another process on the store. The test closes it.
	Open(t testing.TB, o driver.Options) *Process
}

// Harness says how to test a backend.
type Harness struct {
	// Store makes an empty store, which lives as long as t.
	Store func(t testing.TB) Store
	// Far opens another process on a store, to which every answer takes so long. nil: it can't be
	// played.
	Far func(t testing.TB, s Store, delay time.Duration) *Process
	// CrashNoticed is within what the end of a killed process's sessions is noticed, without
	// waiting for their TTL. 0: the store can do no better than the TTL.
	CrashNoticed time.Duration
	// TTL is the shortest session TTL that makes sense on the store. 0: 800 ms.
	TTL time.Duration
	// Patience is how long to wait for what must happen. 0: 10 s, far more than any store needs.
	Patience time.Duration
	// Many is how many keys the test of many keys writes. 0: 2,000.
	Many int
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	if h.TTL == 0 {
		h.TTL = 800 * time.Millisecond
	}
	if h.Patience == 0 {
		h.Patience = 10 * time.Second
	}
	if h.Many == 0 {
		h.Many = 2000
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(&suite{T: t, h: h, store: h.Store(t)})
		})
	}
}

var cases = []struct {
	name string
	run  func(*suite)
}{
	{"a put is read back by every process", putIsRead},
	{"values and keys hold any bytes", anyBytes},
	{"a reading tells the store's time", storesTime},
	{"large values", largeValues},
	{"many keys are listed in order", manyKeys},
	{"prefixes are exact", prefixes},
	{"what is returned belongs to the caller", ownership},
	{"a check compares versions and absence", checks},
	{"a transaction is all or nothing", allOrNothing},
	{"transactions of one call are independent and in order", independent},
	{"versions are never used again", versionsAreUnique},
	{"namespaces are separate", namespaces},
	{"one of many racing writers wins", oneWinner},
	{"concurrent increments are all counted", counters},
	{"writes to many keys keep their invariant", invariant},
	{"a register is linearizable", linearizable},
	{"many processes start at once on an empty store", startAtOnce},
	{"a watch signals what changes below its prefix", watchSignals},
	{"a watch is silent about other prefixes", watchIsolated},
	{"signals are coalesced and none is lost", watchCoalesces},
	{"a watch ends with its context and with the registry", watchEnds},
	{"entries of a session vanish when it is closed", sessionClose},
	{"a session that is renewed lives past its TTL", sessionLives},
	{"a session's deadline counts from when its renewal was sent", deadlineFromRequest},
	{"a put with an ended session is fenced", sessionFenced},
	{"rebinding moves an entry to another session", sessionRebind},
	{"closing a registry ends its sessions", registryClose},
	{"a killed process's sessions end", killed},
	{"a frozen process's sessions end after the TTL and it finds out", frozen},
	{"a cancelled context does not hang", cancelled},
	{"what is given up was done or not, as its error says", givenUp},
	{"a closed registry says so", closedSays},
}

// suite is one case on a store of its own.
type suite struct {
	*testing.T
	h     Harness
	store Store
}

func (s *suite) open() *Process { return s.openIn("") }

// far opens a process whose answers are late, where that can be played.
func (s *suite) far() *Process {
	s.Helper()
	if s.h.Far == nil {
		return s.open()
	}
	p := s.h.Far(s.T, s.store, slowness)
	s.Cleanup(func() { _ = p.Close() })
	return p
}

func (s *suite) openIn(namespace string) *Process {
	s.Helper()
	p := s.store.Open(s.T, driver.Options{Namespace: namespace})
	s.Cleanup(func() { _ = p.Close() })
	return p
}

// errOf is the error of a call whose value is of no interest.
func errOf[T any](_ T, err error) error { return err }

func (s *suite) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *suite) is(err, kind error) {
	s.Helper()
	if !errors.Is(err, kind) {
		s.Fatalf("error %v, expected %v", err, kind)
	}
}

func (s *suite) ctx() context.Context {
	ctx, cancel := context.WithTimeout(s.Context(), 30*time.Second)
	s.Cleanup(cancel)
	return ctx
}

func (s *suite) put(p *Process, key, value string) registry.Version {
	s.Helper()
	v, err := p.Txn(s.ctx(), registry.Txn{Puts: []registry.Put{{Key: key, Value: []byte(value)}}})
	s.ok(err)
	return v[0]
}

func (s *suite) get(p *Process, key string) string {
	s.Helper()
	e, err := p.Get(s.ctx(), key)
	if errors.Is(err, registry.ErrNotFound) {
		return "<absent>"
	}
	s.ok(err)
	return string(e.Value)
}

func (s *suite) session(p *Process, ttl time.Duration) registry.Session {
	s.Helper()
	x, err := p.OpenSession(s.ctx(), ttl)
	s.ok(err)
	return x
}

// bind puts a key that lives as long as the session.
func (s *suite) bind(p *Process, x registry.Session, key string) {
	s.Helper()
	if !s.binds(p, x, key) {
		s.Fatalf("session %q ended before key %q was bound to it", x.ID(), key)
	}
}

// binds is bind that says whether the session still lived.
func (s *suite) binds(p *Process, x registry.Session, key string) bool {
	s.Helper()
	_, err := p.Txn(s.ctx(), registry.Txn{Puts: []registry.Put{{Key: key, Value: []byte("here"), Session: x.ID()}}})
	if errors.Is(err, registry.ErrFenced) {
		return false
	}
	s.ok(err)
	return true
}

// within waits for a condition by watching; it fails after d.
func (s *suite) within(d time.Duration, p *Process, what string, cond func() bool) time.Duration {
	s.Helper()
	start := time.Now()
	ctx, cancel := context.WithTimeout(s.Context(), d)
	defer cancel()
	signals, err := p.Watch(ctx, "")
	s.ok(err)
	for {
		if cond() {
			return time.Since(start)
		}
		if _, open := <-signals; !open {
			if cond() {
				s.Fatalf("%s: it came true without a signal of the watch", what)
			}
			s.Fatalf("%s: not within %s", what, d)
		}
	}
}

func key(i int) string { return fmt.Sprintf("k/%06d", i) }
