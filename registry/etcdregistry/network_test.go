package etcdregistry

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/driver"
)

// through opens a prefix twice: behind a network that can be broken, and past it.
func through(t *testing.T) (s, direct *store, p *testserver.Proxy) {
	t.Helper()
	cfg := config(t, testserver.URL(t, "etcd"))
	direct = opened(t, cfg)
	p = testserver.NewProxy(t, cfg.Endpoints[0])
	cfg.Endpoints = []string{p.Addr()}
	cfg.RequestTimeout = 1500 * time.Millisecond
	return opened(t, cfg), direct, p
}

// member opens a session and binds the entry "member" to it; anew when the machine stalled for so
// long that the session has ended.
func member(t *testing.T, s *store, ttl time.Duration) driver.Session {
	t.Helper()
	var x driver.Session
	eventually(t, "a session with an entry", func(ctx context.Context) (err error) {
		if x, err = s.OpenSession(ctx, ttl); err != nil {
			return err
		}
		res, err := s.Apply(ctx, []driver.Txn{{Puts: []driver.Put{{Key: "member", Session: x.ID()}}}})
		if err == nil {
			err = res[0].Err
		}
		return err
	})
	return x
}

func ended(x driver.Session) bool {
	select {
	case <-x.Done():
		return true
	default:
		return false
	}
}

// until waits for cond.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.After(late)
	for !cond() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not within %s: %s", late, what)
		}
	}
}

func TestALostRequestIsNeverAppliedLater(t *testing.T) {
	t.Parallel()
	s, direct, p := through(t)
	eventually(t, "a write", apply(s, "before"))
	p.Up(testserver.Fault{Drop: true})
	res, err := s.Apply(t.Context(), put("lost"))
	if !errors.Is(err, fault.Unavailable) && (err != nil || !errors.Is(res[0].Err, fault.Unknown)) {
		t.Fatalf("a request that never arrived: %v, %v", res, err)
	}
	p.Heal()
	eventually(t, "a write after it", apply(s, "after"))
	if has(t, direct, "lost") {
		t.Error("it was applied after all")
	}
}

func TestASlowNetworkIsNoReasonToEndASession(t *testing.T) {
	t.Parallel()
	s, direct, p := through(t)
	x := member(t, s, 9*time.Second)
	changes, err := s.Watch(t.Context(), "news")
	if err != nil {
		t.Fatal(err)
	}
	const delay = 100 * time.Millisecond
	p.Up(testserver.Fault{Delay: delay})
	p.Down(testserver.Fault{Delay: delay})
	began, opened := time.Now(), x.Deadline()
	eventually(t, "a write", apply(s, "k"))
	if took := time.Since(began); took < 2*delay {
		t.Fatalf("the network is not slow: a write took %s", took)
	}
	eventually(t, "a write by another", apply(direct, "news"))
	await(t, "the news", changes)
	until(t, "a renewal", func() bool { return x.Deadline().After(opened) })
	if ended(x) || !has(t, direct, "member") {
		t.Error("the session ended")
	}
}

func TestAResetOfAllConnectionsIsSurvived(t *testing.T) {
	t.Parallel()
	s, direct, p := through(t)
	x := member(t, s, 20*time.Second)
	changes, err := s.Watch(t.Context(), "news")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		p.Reset()
		eventually(t, "a write", apply(s, "k"))
		eventually(t, "a write by another", apply(direct, "news"))
		await(t, "the news", changes)
	}
	if ended(x) || !has(t, direct, "member") {
		t.Error("the session ended")
	}
}

// TestAServerThatIsAwayForLong: longer than sessions live; with RINGFENCE_SOAK for a minute.
func TestAServerThatIsAwayForLong(t *testing.T) {
	t.Parallel()
	away := minTTL + time.Second
	if os.Getenv("RINGFENCE_SOAK") != "" {
		away = time.Minute
	}
	server := testserver.Private(t, "etcd")
	cfg := config(t, server.URL())
	a, b := opened(t, cfg), opened(t, cfg)
	x := member(t, a, minTTL)
	owner, err := a.Apply(t.Context(), put("owner"))
	if err != nil {
		t.Fatal(err)
	}
	changes, err := b.Watch(t.Context(), "news")
	if err != nil {
		t.Fatal(err)
	}
	back := time.After(away)
	server.Stop()
	until(t, "the session ends without the store", func() bool { return ended(x) })
	if _, err := b.List(t.Context(), ""); !errors.Is(err, fault.Unavailable) {
		t.Errorf("a list: %v; expected unavailable", err)
	}
	<-back
	server.Restart()
	eventually(t, "a write after the restart", apply(a, "news"))
	await(t, "the news", changes)
	until(t, "what was bound is gone", func() bool { return !has(t, b, "member") })
	res, err := a.Apply(t.Context(), []driver.Txn{{Checks: []driver.Check{{Key: "owner", Version: owner[0].Versions[0]}}, Puts: []driver.Put{{Key: "checkpoint"}}}})
	if err != nil || res[0].Err != nil {
		t.Errorf("a checkpoint under the fence from before: %v, %v", res, err)
	}
	res, err = a.Apply(t.Context(), []driver.Txn{{Puts: []driver.Put{{Key: "late", Session: x.ID()}}}})
	if err != nil || !errors.Is(res[0].Err, fault.Fenced) {
		t.Errorf("a put with the session that ended: %v, %v", res, err)
	}
	member(t, a, minTTL)
}
