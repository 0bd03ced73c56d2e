package registrytest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/registry"
)

// signalled waits for a signal.
func (s *suite) signalled(ch <-chan struct{}, what string) {
	s.Helper()
	select {
	case _, open := <-ch:
		if !open {
			s.Fatalf("%s: the watch was closed", what)
		}
	case <-time.After(s.h.Patience):
		s.Fatalf("%s: no signal", what)
	}
}

func (s *suite) watch(p *Process, prefix string) <-chan struct{} {
	s.Helper()
	ch, err := p.Watch(s.Context(), prefix)
	s.ok(err)
	return ch
}

// drain takes what is pending once nothing more comes for a while.
func drain(ch <-chan struct{}, quiet time.Duration) (signals int) {
	for {
		select {
		case _, open := <-ch:
			if !open {
				return signals
			}
			signals++
		case <-time.After(quiet):
			return signals
		}
	}
}

func watchSignals(s *suite) {
	a, b := s.open(), s.open()
	own, other := s.watch(a, "w/"), s.watch(b, "w/")
	both := func(what string) {
		s.Helper()
		s.signalled(own, what+", seen by the writer")
		s.signalled(other, what+", seen by another process")
	}
	s.put(a, "w/1", "1")
	both("a put")
	drain(own, 50*time.Millisecond)
	drain(other, 50*time.Millisecond)
	s.ok(errOf(a.Txn(s.ctx(), registry.Txn{Deletes: []string{"w/1"}})))
	both("a delete")
	x := s.session(a, 10*time.Second)
	s.bind(a, x, "w/bound")
	both("a bound put")
	drain(own, 50*time.Millisecond)
	drain(other, 50*time.Millisecond)
	s.ok(x.Close(s.ctx()))
	both("the end of a session")
}

func watchIsolated(s *suite) {
	a, b := s.open(), s.open()
	ns := s.openIn("elsewhere")
	ch, local, foreign := s.watch(b, "quiet/"), s.watch(a, "quiet/"), s.watch(ns, "")
	drain(ch, 50*time.Millisecond)
	drain(foreign, 50*time.Millisecond)
	// Spurious signals are allowed, so only one for each change is wrong. They are taken one by one:
	// many that are not received are one.
	var others, own, elsewhere int
	for i := range 20 {
		s.put(a, fmt.Sprint("noise/", i), "x")
		s.put(a, "quie", "x")
		others += drain(ch, 10*time.Millisecond)
		own += drain(local, 10*time.Millisecond)
		elsewhere += drain(foreign, 10*time.Millisecond)
	}
	if others > 10 {
		s.Errorf("%d signals for changes outside of the prefix", others)
	}
	if own > 10 {
		s.Errorf("%d signals for the writer's own changes outside of the prefix", own)
	}
	if elsewhere > 10 {
		s.Errorf("%d signals for changes in another namespace", elsewhere)
	}
	s.put(a, "quiet/now", "x")
	s.signalled(ch, "a change below the prefix after the noise")
}

// watchCoalesces reads only when it is signalled, and has to see the last value in the end.
func watchCoalesces(s *suite) {
	a, b := s.open(), s.open()
	const last = 60
	ch := s.watch(b, "c/")
	done := make(chan error, 1)
	go func() { // joined by the receive below
		for i := 1; i <= last; i++ {
			if _, err := a.Txn(s.ctx(), registry.Txn{Puts: []registry.Put{{Key: "c/n", Value: []byte(fmt.Sprint(i))}}}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for s.get(b, "c/n") != fmt.Sprint(last) {
		s.signalled(ch, "a reader that lists after each signal is behind")
	}
	s.ok(<-done)
	drain(ch, 100*time.Millisecond)
	const unheard = 20
	for range unheard {
		s.put(a, "c/n", "again")
	}
	<-time.After(50 * time.Millisecond) // they come while the watch is not received
	s.signalled(ch, "changes that were not received")
	if n := 1 + drain(ch, 100*time.Millisecond); n > unheard/2 {
		s.Errorf("%d signals are pending after %d changes that were not received: they are not coalesced", n, unheard)
	}
}

func watchEnds(s *suite) {
	a, b := s.open(), s.open()
	ctx, cancel := context.WithCancel(s.Context())
	ch, err := a.Watch(ctx, "")
	s.ok(err)
	kept := s.watch(b, "")
	cancel()
	s.closes(ch, "its context ended")
	s.ok(b.Close())
	s.closes(kept, "its registry was closed")
}

// closes waits for the end of a watch.
func (s *suite) closes(ch <-chan struct{}, why string) {
	s.Helper()
	late := time.After(s.h.Patience)
	for {
		select {
		case _, open := <-ch:
			if !open {
				return
			}
		case <-late:
			s.Fatalf("the watch is still open after %s", why)
		}
	}
}

func cancelled(s *suite) {
	a := s.open()
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if _, err := a.List(ctx, ""); !errors.Is(err, context.Canceled) {
		s.Errorf("a list with a cancelled context: %v", err)
	}
	if res, err := a.Apply(ctx, []registry.Txn{{Puts: []registry.Put{{Key: "k"}}}}); err == nil && res[0].Err == nil {
		s.Error("an Apply with a cancelled context succeeded")
	}
	if _, err := a.OpenSession(ctx, time.Second); err == nil {
		s.Error("a session was opened with a cancelled context")
	}
}

func closedSays(s *suite) {
	a := s.open()
	s.ok(a.Close())
	s.ok(a.Close())
	s.is(errOf(a.List(s.ctx(), "")), registry.ErrClosed)
	s.is(errOf(a.Txn(s.ctx(), registry.Txn{Puts: []registry.Put{{Key: "k"}}})), registry.ErrClosed)
	s.is(errOf(a.Watch(s.ctx(), "")), registry.ErrClosed)
	s.is(errOf(a.OpenSession(s.ctx(), time.Second)), registry.ErrClosed)
}
