package memregistry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
)

func open(t *testing.T, s *memregistry.Store) *memregistry.Handle {
	h := s.Open()
	t.Cleanup(func() { h.Close() })
	return h
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(h *memregistry.Handle, key string) error {
	_, err := h.Txn(context.Background(), registry.Txn{Puts: []registry.Put{{Key: key}}})
	return err
}

func TestAnOutageShorterThanTheTTLIsSurvived(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memregistry.NewStore()
		a, b := open(t, s), open(t, s)
		x, err := a.OpenSession(t.Context(), 3*time.Second)
		must(t, err)
		watch, err := a.Watch(t.Context(), "k")
		must(t, err)
		a.SetOutage(true)
		if err := put(a, "k"); !errors.Is(err, registry.ErrUnavailable) {
			t.Fatalf("a put in an outage: %v", err)
		}
		must(t, put(b, "k"))
		time.Sleep(1500 * time.Millisecond)
		select {
		case <-watch:
			t.Fatal("a watch was signalled in an outage")
		default:
		}
		a.SetOutage(false)
		<-watch
		time.Sleep(10 * time.Second)
		select {
		case <-x.Done():
			t.Fatal("the session ended")
		default:
		}
		a.Close()
	})
}

func TestAnOutageLongerThanTheTTLEndsTheSessionOnBothSidesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memregistry.NewStore()
		a, b := open(t, s), open(t, s)
		x, err := a.OpenSession(t.Context(), 3*time.Second)
		must(t, err)
		_, err = a.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "k", Session: x.ID()}}})
		must(t, err)
		time.Sleep(500 * time.Millisecond)
		a.SetOutage(true)
		<-x.Done()
		if late := time.Since(x.Deadline()); late < 0 || late > time.Millisecond {
			t.Errorf("Done was closed %s after the deadline", late)
		}
		synctest.Wait()
		if _, err := b.Get(t.Context(), "k"); !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("the entry outlived the session: %v", err)
		}
		a.SetOutage(false)
		a.Close()
	})
}

func TestLostRepliesAreAppliedAndLostRequestsAreNot(t *testing.T) {
	t.Parallel()
	h := open(t, memregistry.NewStore())
	h.LoseReplies(1)
	if err := put(h, "applied"); !errors.Is(err, registry.ErrUnknown) {
		t.Fatal(err)
	}
	h.LoseRequests(1)
	if err := put(h, "lost"); !errors.Is(err, registry.ErrUnknown) {
		t.Fatal(err)
	}
	snap, err := h.List(t.Context(), "")
	must(t, err)
	if len(snap.Entries) != 1 || snap.Entries[0].Key != "applied" {
		t.Fatalf("the store holds %+v", snap.Entries)
	}
}

func TestLatencyIsWaitedOutButNotPastTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := open(t, memregistry.NewStore())
		h.SetLatency(time.Second)
		start := time.Now()
		must(t, put(h, "k"))
		if took := time.Since(start); took != time.Second {
			t.Errorf("it took %s", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := h.List(ctx, ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a list that was given up: %v", err)
		}
		h.Close()
	})
}
