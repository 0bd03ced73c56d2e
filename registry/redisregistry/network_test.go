package redisregistry

import (
	"errors"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testlog"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

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

func TestASlowNetworkIsNoReasonToEndASession(t *testing.T) {
	t.Parallel()
	cfg, net := through(t)
	const ttl, delay = 9 * time.Second, 100 * time.Millisecond
	s, other := mustOpen(t, cfg), direct(t, cfg)
	x := joined(t, s, ttl)
	news, err := s.Watch(t.Context(), "news")
	if err != nil {
		t.Fatal(err)
	}
	drain(news)
	net.Up(testserver.Fault{Delay: delay})
	net.Down(testserver.Fault{Delay: delay})
	began, opened := time.Now(), x.Deadline()
	apply(t, s, put("k", "1")[0])
	if took := time.Since(began); took < 2*delay {
		t.Fatalf("the network is not slow: a write took %s", took)
	}
	apply(t, other, put("news", "1")[0])
	select {
	case <-news:
	case <-time.After(soon):
		t.Fatal("no signal")
	}
	eventually(t, "a renewal", func() error {
		if !x.Deadline().After(opened) {
			return errors.New("the deadline is the old one")
		}
		return nil
	})
	if got := value(t, other, "m"); got != "here" || over(x) == nil {
		t.Errorf("the session ended, its entry is %s", got)
	}
}

// TestAServerThatIsAwayForLong: longer than sessions live; with RINGFENCE_SOAK for a minute.
func TestAServerThatIsAwayForLong(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	away := 2 * ttl
	if os.Getenv("RINGFENCE_SOAK") != "" {
		away = time.Minute
	}
	srv := testserver.Private(t, "redis")
	u, err := url.Parse(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	secret, ok := u.User.Password()
	if !ok {
		t.Fatal("a server for tests without a password")
	}
	stranger := at(t, u.String()) // anybody on this machine
	stranger.Username, stranger.Password = "", ""
	if s, err := open(t.Context(), stranger); err == nil {
		_ = s.Close()
		t.Error("a server for tests lets in who has no password")
	}
	cfg := at(t, u.String())
	var log testlog.Buffer
	cfg.Logger = log.From(slog.LevelDebug)
	s, other := mustOpen(t, cfg), mustOpen(t, cfg)
	x := joined(t, s, ttl)
	owner := apply(t, s, put("owner", "s")[0])
	watch, err := other.Watch(t.Context(), "news")
	if err != nil {
		t.Fatal(err)
	}
	drain(watch)
	back := time.After(away)
	srv.Stop()
	eventually(t, "the session ends without the store", func() error { return over(x) })
	if _, err := other.List(t.Context(), ""); !errors.Is(err, fault.Unavailable) || strings.Contains(err.Error(), secret) {
		t.Errorf("a list: %v; expected unavailable, and no password", err)
	}
	<-back
	srv.Restart()
	works(t, s)
	select {
	case <-watch:
	case <-time.After(soon):
		t.Fatal("no signal after the server came back")
	}
	eventually(t, "what was bound is gone", func() error {
		if got := value(t, other, "m"); got != "<absent>" {
			return errors.New("m is " + got)
		}
		return nil
	})
	apply(t, s, driver.Txn{Checks: []driver.Check{{Key: "owner", Version: owner[0]}}, Puts: []driver.Put{{Key: "checkpoint"}}})
	res, err := s.Apply(t.Context(), []driver.Txn{{Puts: []driver.Put{{Key: "late", Session: x.ID()}}}})
	if err != nil || !errors.Is(res[0].Err, fault.Fenced) {
		t.Errorf("a put with the session that ended: %v, %+v", err, res)
	}
	joined(t, s, ttl)
	if strings.Contains(log.String(), secret) {
		t.Error("the password was logged")
	}
}
