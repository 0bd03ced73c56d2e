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
	soon    = 30 * time.Second       // far more than it takes
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

func TestALostConnectionIsNotTakenForADeath(t *testing.T) {
	t.Parallel()
	cfg, net := through(t)
	cfg.confirm = time.Second // a loaded machine needs more than the default for a connection
	there := server(t)
	there.Namespace, there.confirm = cfg.Namespace, cfg.confirm
	observer, s := mustOpen(t, there), mustOpen(t, cfg)
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
		time.Sleep(2 * cfg.confirm) // the failure detector gets its chance to be wrong
		if got := value(t, observer, "m/"); got == "here" {
			continue
		} else if away < cfg.confirm/2 || time.Now().After(deadline) {
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
