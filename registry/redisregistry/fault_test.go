package redisregistry

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

const (
	quickly = 300 * time.Millisecond // the time-out of calls that get no answer
	soon    = 10 * time.Second       // far more than it takes
)

// at is the configuration for the server of a URL.
func at(t testing.TB, raw string) Config {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := parseURL(u, false)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Namespace = "test-" + newID()
	return cfg
}

// through is the shared server behind a network that can be broken.
func through(t testing.TB) (Config, *testserver.Proxy) {
	t.Helper()
	raw := testserver.URL(t, "redis")
	p := testserver.NewProxy(t, raw)
	return at(t, p.URL(raw)), p
}

func direct(t testing.TB, cfg Config) *store {
	t.Helper()
	there := server(t)
	there.Namespace = cfg.Namespace
	return mustOpen(t, there)
}

func put(key, value string) []driver.Txn {
	return []driver.Txn{{Puts: []driver.Put{{Key: key, Value: []byte(value)}}}}
}

func value(t testing.TB, s *store, key string) string {
	t.Helper()
	var snap driver.Snapshot
	eventually(t, "a list", func() (err error) {
		snap, err = s.List(t.Context(), key)
		return err
	})
	if len(snap.Entries) == 0 {
		return "<absent>"
	}
	return string(snap.Entries[0].Value)
}

// eventually waits for the outcome of f to be nil.
func eventually(t testing.TB, what string, f func() error) {
	t.Helper()
	end := time.Now().Add(soon)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond) // polls a real server
	}
}

func works(t testing.TB, s *store) {
	t.Helper()
	eventually(t, "the registry works again", func() error {
		res, err := s.Apply(t.Context(), put("works", "x"))
		if err == nil {
			err = res[0].Err
		}
		return err
	})
}

func TestALostReplyIsUnknownAndTheTransactionApplied(t *testing.T) {
	t.Parallel()
	cfg, net := through(t)
	cfg.Timeout = quickly
	s, other := mustOpen(t, cfg), direct(t, cfg)
	eventually(t, "the request arrives before the time-out", func() error {
		net.Heal()
		works(t, s)
		net.Down(testserver.Fault{Drop: true})
		res, err := s.Apply(t.Context(), put("k", "1"))
		if got := value(t, other, "k"); got != "1" {
			return errors.New("k is " + got)
		}
		if err != nil || !errors.Is(res[0].Err, fault.Unknown) {
			t.Fatalf("%v, %+v; expected an unknown outcome", err, res)
		}
		return nil
	})
	if _, err := s.List(t.Context(), ""); !errors.Is(err, fault.Unavailable) {
		t.Fatalf("a list without answer: %v", err)
	}
	net.Heal()
	works(t, s)
}

func TestALostRequestIsNeverAppliedLater(t *testing.T) {
	t.Parallel()
	cfg, net := through(t)
	cfg.Timeout = quickly
	s, other := mustOpen(t, cfg), direct(t, cfg)
	net.Up(testserver.Fault{Drop: true})
	if res, err := s.Apply(t.Context(), put("k", "1")); err == nil && res[0].Err == nil {
		t.Fatal("a transaction that never arrived succeeded")
	}
	net.Heal()
	works(t, s)
	if got := value(t, other, "k"); got != "<absent>" {
		t.Fatalf("k is %s", got)
	}
}

func TestAServerThatRefusesIsUnavailable(t *testing.T) {
	t.Parallel()
	cfg, net := through(t)
	s := mustOpen(t, cfg)
	net.Refuse()
	eventually(t, "the connection is known to be gone", func() error {
		res, err := s.Apply(t.Context(), put("k", "1"))
		switch {
		case errors.Is(err, fault.Unavailable):
			return nil
		case err == nil && errors.Is(res[0].Err, fault.Unknown):
			return res[0].Err
		}
		t.Fatalf("%v, %+v", err, res)
		return nil
	})
	if _, err := s.List(t.Context(), ""); !errors.Is(err, fault.Unavailable) {
		t.Errorf("a list: %v", err)
	}
	if _, err := open(t.Context(), cfg); !errors.Is(err, fault.Unavailable) {
		t.Errorf("another Open: %v", err)
	}
	net.Heal()
	works(t, s)
}

func TestALostConnectionIsNotTakenForADeath(t *testing.T) {
	t.Parallel()
	cfg, net := through(t)
	observer, s := direct(t, cfg), mustOpen(t, cfg)
	signals, err := observer.Watch(t.Context(), "m/")
	if err != nil {
		t.Fatal(err)
	}
	mine, err := s.Watch(t.Context(), "other/")
	if err != nil {
		t.Fatal(err)
	}
	var x driver.Session
	deadline := time.Now().Add(time.Minute)
	for calm := 0; calm < 5; calm++ {
		if x == nil {
			if x, err = s.OpenSession(t.Context(), time.Minute); err != nil {
				t.Fatal(err)
			}
			apply(t, s, driver.Txn{Puts: []driver.Put{{Key: "m/1", Session: x.ID(), Value: []byte("here")}}})
			<-signals
		}
		cut := time.Now()
		net.Reset()
		select {
		case <-mine: // the link is back
		case <-time.After(soon):
			t.Fatal("a watch was not signalled after its connection came back")
		}
		away := time.Since(cut)
		time.Sleep(2 * confirm) // the failure detector gets its chance to be wrong
		if got := value(t, observer, "m/"); got == "here" {
			continue
		} else if away < confirm/2 || time.Now().After(deadline) {
			t.Fatalf("the entry of a living process is %s; its link was away for %s", got, away)
		}
		x, calm = nil, calm-1 // a machine so slow that the link was away for too long: once more
	}
	select {
	case <-x.Done():
		t.Fatal("the session is over")
	default:
	}
}

// A cable that is pulled tells nobody: the link has to notice by itself that it hears nothing.
func TestAWatchHearsAgainAfterItsNetworkWasGone(t *testing.T) {
	t.Parallel()
	cfg, net := through(t)
	cfg.Timeout = quickly
	s, other := mustOpen(t, cfg), direct(t, cfg)
	var ch <-chan struct{}
	eventually(t, "a watch", func() (err error) {
		ch, err = s.Watch(t.Context(), "w/")
		return err
	})
	net.Blackhole()
	apply(t, other, driver.Txn{Puts: []driver.Put{{Key: "w/1", Value: []byte("x")}}})
	time.Sleep(4 * quickly) // a real network is gone for a while
	net.Heal()
	for deadline := time.After(soon); ; {
		select {
		case <-ch:
		case <-deadline:
			t.Fatal("no signal after the network came back")
		}
		if snap, err := s.List(t.Context(), "w/"); err == nil && len(snap.Entries) == 1 {
			return
		}
	}
}

func TestASessionBehindADeadNetworkEndsOnBothSides(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	cfg, net := through(t)
	s, other := mustOpen(t, cfg), direct(t, cfg)
	x := joined(t, s, ttl)
	net.Blackhole()
	began := time.Now()
	select {
	case <-x.Done():
	case <-time.After(soon):
		t.Fatal("the session is not over for its own process")
	}
	if took := time.Since(began); took > 3*ttl {
		t.Errorf("the process noticed after %s; the TTL is %s", took, ttl)
	}
	eventually(t, "the entry vanishes", func() error {
		if v := value(t, other, "m"); v != "<absent>" {
			return errors.New("m is " + v)
		}
		return nil
	})
	net.Heal()
	works(t, s)
	if _, err := s.OpenSession(t.Context(), ttl); err != nil {
		t.Errorf("a new session after the network came back: %v", err)
	}
}

func TestAReconnectTellsThatASessionHasEnded(t *testing.T) {
	t.Parallel()
	cfg, net := through(t)
	s, other := mustOpen(t, cfg), direct(t, cfg)
	x, err := s.OpenSession(t.Context(), 10*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.end(t.Context(), x.ID()); err != nil {
		t.Fatal(err)
	}
	net.Reset()
	select {
	case <-x.Done():
	case <-time.After(soon):
		t.Fatal("the session is not over")
	}
}

func TestCloseOfManySessionsTakesOneTimeOut(t *testing.T) {
	t.Parallel()
	const sessions, timeout = 20, defaultTimeout
	cfg, net := through(t)
	s := mustOpen(t, cfg)
	for range sessions {
		if _, err := s.OpenSession(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	net.Blackhole()
	began := time.Now()
	if err := s.Close(); !errors.Is(err, fault.Unavailable) {
		t.Errorf("%v; expected unavailable, as nobody was told", err)
	}
	if took := time.Since(began); took > sessions*timeout/2 {
		t.Errorf("it took %s; the time-out is %s", took, timeout)
	}
}

func TestCancellingACallReturnsAtOnce(t *testing.T) {
	t.Parallel()
	cfg, net := through(t)
	cfg.Timeout = soon
	s := mustOpen(t, cfg)
	net.Down(testserver.Fault{Drop: true})
	eventually(t, "the request is sent before its context ends", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), quickly)
		defer cancel()
		began := time.Now()
		res, err := s.Apply(ctx, put("k", "1"))
		if took := time.Since(began); took > soon/2 {
			t.Errorf("it took %s", took)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		if err != nil || !errors.Is(res[0].Err, fault.Unknown) {
			t.Errorf("%v, %+v", err, res)
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), quickly)
	defer cancel()
	began := time.Now()
	if _, err := s.List(ctx, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a list: %v", err)
	}
	if took := time.Since(began); took > soon/2 {
		t.Errorf("a list took %s", took)
	}
}

func TestErrorsShowNoPassword(t *testing.T) {
	t.Parallel()
	cfg := at(t, testserver.URL(t, "redis"))
	cfg.Username, cfg.Password = "nobody", "hunter2"
	_, err := open(t.Context(), cfg)
	if !errors.Is(err, fault.Unavailable) {
		t.Fatalf("%v; expected unavailable, as from every store", err)
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}
