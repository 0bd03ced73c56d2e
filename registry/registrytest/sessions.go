package registrytest

import (
	"fmt"
	"time"

	"github.com/ringfence/ringfence/registry"
)

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func sessionClose(s *suite) {
	a, b := s.open(), s.open()
	x, y := s.session(a, 10*time.Second), s.session(a, 10*time.Second)
	if x.ID() == y.ID() || x.ID() == "" {
		s.Fatalf("sessions have the IDs %q and %q", x.ID(), y.ID())
	}
	s.bind(a, x, "bound/1")
	s.bind(b, x, "bound/2") // by another process, in its name
	s.bind(a, y, "bound/other")
	s.put(a, "bound/free", "x")
	e, err := b.Get(s.ctx(), "bound/1")
	s.ok(err)
	if e.Session != x.ID() {
		s.Fatalf("the entry is bound to %q, expected %q", e.Session, x.ID())
	}
	if isClosed(x.Done()) {
		s.Fatal("Done is closed while the session lives")
	}
	s.ok(x.Close(s.ctx()))
	s.ok(x.Close(s.ctx()))
	if !isClosed(x.Done()) {
		s.Fatal("Done is open after Close")
	}
	if s.get(b, "bound/1") != "<absent>" || s.get(b, "bound/2") != "<absent>" {
		s.Fatal("entries of a closed session are still there when Close returns")
	}
	if s.get(b, "bound/other") != "here" || s.get(b, "bound/free") != "x" {
		s.Fatal("entries of others went with the session")
	}
}

// sessionLives takes longer TTLs when one was not enough: a machine may stall for a second.
func sessionLives(s *suite) {
	a, b := s.open(), s.open()
	s.again(func(ttl time.Duration) string { return s.outlives(a, b, ttl) })
}

// again repeats what a stall of the machine may spoil, with longer TTLs; it fails with what was wrong at last.
func (s *suite) again(try func(ttl time.Duration) (broken string)) {
	s.Helper()
	var broken string
	for _, ttl := range []time.Duration{s.h.TTL, 4 * s.h.TTL, 16 * s.h.TTL} {
		if broken = try(ttl); broken == "" {
			return
		}
		s.Log(broken)
	}
	s.Fatal(broken)
}

// outlives says what happened to a session of a, other than that it lived for three times its TTL.
func (s *suite) outlives(a, b *Process, ttl time.Duration) string {
	x := s.session(a, ttl)
	key := "alive/" + x.ID()
	if !s.binds(a, x, key) {
		return fmt.Sprintf("a session with a TTL of %s ended at once", ttl)
	}
	end := time.Now().Add(3 * ttl)
	for time.Now().Before(end) {
		if left := time.Until(x.Deadline()); left > ttl || left < 0 {
			return fmt.Sprintf("the deadline is %s away; the TTL is %s", left, ttl)
		}
		if isClosed(x.Done()) || s.get(b, key) != "here" {
			return fmt.Sprintf("a session with a TTL of %s that is renewed ended", ttl)
		}
		time.Sleep(ttl / 10)
	}
	return ""
}

func sessionFenced(s *suite) {
	a, b := s.open(), s.open()
	x := s.session(a, 10*time.Second)
	s.bind(a, x, "f/1")
	s.ok(x.Close(s.ctx()))
	for _, p := range []*Process{a, b} {
		for _, id := range []string{x.ID(), "no such session"} {
			res, err := p.Apply(s.ctx(), []registry.Txn{
				{Puts: []registry.Put{{Key: "f/plain", Value: []byte("x")}, {Key: "f/2", Session: id}}},
				{Puts: []registry.Put{{Key: "f/3", Value: []byte("x")}}},
			})
			s.ok(err)
			s.is(res[0].Err, registry.ErrFenced)
			s.ok(res[1].Err)
		}
	}
	if s.get(a, "f/plain") != "<absent>" || s.get(a, "f/2") != "<absent>" {
		s.Fatal("a fenced transaction left a trace")
	}
}

func sessionRebind(s *suite) {
	a := s.open()
	x, y := s.session(a, 10*time.Second), s.session(a, 10*time.Second)
	s.bind(a, x, "r/moved")
	s.bind(a, y, "r/moved")
	s.bind(a, x, "r/freed")
	s.put(a, "r/freed", "free")
	s.ok(x.Close(s.ctx()))
	if s.get(a, "r/moved") != "here" || s.get(a, "r/freed") != "free" {
		s.Fatal("an entry went with a session that it was bound to before")
	}
	s.ok(y.Close(s.ctx()))
	if s.get(a, "r/moved") != "<absent>" {
		s.Fatal("an entry outlived the session it was bound to last")
	}
}

func registryClose(s *suite) {
	a, b := s.open(), s.open()
	x := s.session(a, 10*time.Second)
	s.bind(a, x, "c/1")
	s.ok(a.Close())
	if !isClosed(x.Done()) {
		s.Error("Done is open after the registry was closed")
	}
	if s.get(b, "c/1") != "<absent>" {
		s.Error("the entry of a closed registry's session is still there")
	}
}

// killed takes up to three processes: a machine may stall just when a death is to be noticed.
func killed(s *suite) {
	b, c := s.open(), s.open()
	s.again(func(time.Duration) string {
		if a := s.open(); a.Kill != nil {
			return s.outlived(a, b, c)
		}
		return ""
	})
}

// outlived says what was wrong with how b and c saw a killed.
func (s *suite) outlived(a, b, c *Process) string {
	ttl := s.h.TTL
	limit := 4 * ttl
	if s.h.CrashNoticed > 0 {
		ttl, limit = 20*time.Second, s.h.CrashNoticed
	}
	x, keep := s.session(a, ttl), s.session(c, ttl)
	if !s.binds(a, x, "k/dead") || !s.binds(c, keep, "k/alive") {
		return "a session ended before the kill"
	}
	other := s.watch(c, "k/")
	drain(other, 20*time.Millisecond)
	a.Kill()
	took := s.within(limit+s.h.Patience, b, "the entry of a killed process vanishes", func() bool { return s.get(b, "k/dead") == "<absent>" })
	if took > limit {
		return fmt.Sprintf("noticed after %s, expected within %s", took, limit)
	}
	s.signalled(other, "the death of a process")
	if s.get(c, "k/alive") != "here" || isClosed(keep.Done()) {
		return "a living process's session ended as well"
	}
	return ""
}

// frozen takes longer TTLs when one was not enough, as sessionLives does.
func frozen(s *suite) {
	b := s.open()
	s.again(func(ttl time.Duration) string {
		if a := s.open(); a.Freeze != nil {
			return s.thawed(a, b, ttl)
		}
		return ""
	})
}

// thawed says what was wrong with how the session of a ended while a was frozen, as far as a stall
// of the machine may be the reason.
func (s *suite) thawed(a, b *Process, ttl time.Duration) string {
	x := s.session(a, ttl)
	if !s.binds(a, x, "z/1") {
		return fmt.Sprintf("a session with a TTL of %s ended before its process was frozen", ttl)
	}
	a.Freeze()
	began := time.Now()
	s.within(ttl+s.h.Patience, b, "the entry of a frozen process vanishes", func() bool { return s.get(b, "z/1") == "<absent>" })
	took := time.Since(began)
	s.is(errOf(a.Txn(s.ctx(), registry.Txn{Puts: []registry.Put{{Key: "z/1", Session: x.ID()}}})), registry.ErrFenced)
	a.Thaw()
	select {
	case <-x.Done():
	case <-time.After(s.h.Patience):
		s.Error("Done is still open after the process goes on")
	}
	s.is(errOf(a.Txn(s.ctx(), registry.Txn{Puts: []registry.Put{{Key: "z/1", Session: x.ID()}}})), registry.ErrFenced)
	again := s.session(a, time.Minute)
	s.bind(a, again, "z/1")
	s.ok(again.Close(s.ctx()))
	if took < ttl/2 {
		return fmt.Sprintf("a frozen session ended after %s; its TTL is %s", took, ttl)
	}
	return ""
}
