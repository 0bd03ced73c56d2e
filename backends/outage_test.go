package backends_test

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/testlog"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

func TestALostRequestIsNeverAppliedLater(t *testing.T) {
	onServers(t, func(t *testing.T, name string) {
		far, straight, net := through(t, name)
		far.works()
		net.Up(testserver.Fault{Drop: true})
		if err := far.try("lost"); !unreachable(err) {
			t.Errorf("a request that never arrived: %v", err)
		}
		net.Heal()
		far.works()
		if straight.version("lost") != "" {
			t.Error("it was applied after all")
		}
	})
}

// A transaction of MariaDB is several requests: package sqlregistry loses the answer to its commit.
func TestALostAnswerIsUnknownAndTheWriteIsThereOnce(t *testing.T) {
	onServers(t, func(t *testing.T, name string) {
		if name == "mariadb" {
			return
		}
		far, straight, net := through(t, name)
		absent := registry.Check{Key: "once"}
		eventually(t, "the request arrives before its time is over", late, func() bool {
			net.Heal()
			far.works()
			net.Down(testserver.Fault{Drop: true})
			err := far.try("once", absent)
			if straight.version("once") == "" {
				return false
			}
			if !errors.Is(err, registry.ErrUnknown) {
				t.Fatalf("%v; expected unknown", err)
			}
			return true
		})
		net.Heal()
		eventually(t, "a conflict with the first try", late, func() bool {
			err := far.try("once", absent)
			if err == nil {
				t.Fatal("it was applied twice")
			}
			return errors.Is(err, registry.ErrConflict)
		})
	})
}

func TestASlowNetworkIsNoReasonToEndASession(t *testing.T) {
	onServers(t, func(t *testing.T, name string) {
		far, straight, net := through(t, name)
		x := far.bind("member", 9*time.Second)
		news := far.watch("news")
		const delay = 100 * time.Millisecond
		net.Up(testserver.Fault{Delay: delay})
		net.Down(testserver.Fault{Delay: delay})
		began, first := time.Now(), x.Deadline()
		far.works()
		if took := time.Since(began); took < 2*delay {
			t.Fatalf("the network is not slow: a write took %s", took)
		}
		for len(news) > 0 {
			<-news
		}
		if err := straight.try("news"); err != nil {
			t.Fatal(err)
		}
		signalled(t, "the news", news)
		eventually(t, "a renewal", late, func() bool { return x.Deadline().After(first) })
		if ended(x) || straight.version("member") == "" {
			t.Error("the session ended")
		}
	})
}

// To other processes a reset of all connections may look like a death; then this process knows it too.
func TestAResetOfAllConnectionsIsSurvived(t *testing.T) {
	onServers(t, func(t *testing.T, name string) {
		far, straight, net := through(t, name)
		x := far.bind("member", time.Minute)
		news := far.watch("news")
		for range 3 {
			for len(news) > 0 {
				<-news
			}
			net.Reset()
			far.works()
			if err := straight.try("news"); err != nil {
				t.Fatal(err)
			}
			signalled(t, "the news", news)
		}
		eventually(t, "both sides to agree about the session", late, func() bool { return ended(x) == (straight.version("member") == "") })
	})
}

func TestAProcessThatIsCutOffEndsForBothSidesAndComesBack(t *testing.T) {
	onServers(t, func(t *testing.T, name string) {
		for how, hurt := range map[string]func(*testserver.Proxy){
			"both ways":      (*testserver.Proxy).Blackhole,
			"its answers":    func(p *testserver.Proxy) { p.Down(testserver.Fault{Drop: true}) },
			"reset and shut": (*testserver.Proxy).Refuse,
		} {
			t.Run(how, func(t *testing.T) {
				t.Parallel()
				const ttl = 3 * time.Second
				far, straight, net := through(t, name)
				x := far.bind("member", ttl)
				mine := far.watch("")
				hurt(net)
				cut := time.Now()
				eventually(t, "the holder knows that its session is over", late, func() bool { return ended(x) })
				if took := time.Since(cut); took > 3*ttl {
					t.Errorf("the holder knew after %s; the TTL is %s", took, ttl)
				}
				if err := far.try("k"); !unreachable(err) {
					t.Errorf("a write to a store that is cut off: %v", err)
				}
				// A renewal whose answer is lost may keep the session alive in the store.
				eventually(t, "the others see it end", late, func() bool { return straight.version("member") == "" || how == "its answers" })
				for len(mine) > 0 {
					<-mine
				}
				if err := straight.try("news"); err != nil {
					t.Fatal(err)
				}
				net.Heal()
				signalled(t, "what changed meanwhile", mine)
				far.bind("back", time.Minute)
				eventually(t, "its end in the store", late, func() bool { return straight.version("member") == "" })
				if straight.version("back") == "" {
					t.Error("what it wrote after it came back is not there")
				}
			})
		}
	})
}

// A router forgets the connections: they stay half open for ever, and new ones work. A PostgreSQL server gives up its
// own end, and the lock with it, by keep-alives, which the network of this test answers.
func TestConnectionsThatTheNetworkForgotAreReplaced(t *testing.T) {
	onServers(t, func(t *testing.T, name string) {
		if name == "postgres" {
			return
		}
		far, straight, net := through(t, name)
		far.bind("member", time.Minute)
		news := far.watch("news")
		net.Swallow()
		far.works()
		eventually(t, "the news", late, func() bool {
			_ = straight.try("news") // a signal may be lost with the old connection
			return len(news) > 0
		})
	})
}

func TestManySessionsOfAServerOutOfReachAreClosedInTheTimeOfOne(t *testing.T) {
	onServers(t, func(t *testing.T, name string) {
		far, _, net := through(t, name)
		for range 100 {
			if _, err := far.OpenSession(t.Context(), time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		net.Blackhole()
		began := time.Now()
		_ = far.Close()
		if took := time.Since(began); took > late { // a second each would be more
			t.Errorf("closing took %s", took)
		}
	})
}

// A server that dies, hangs and stops is a pause each time: what was acknowledged stays, sessions whose TTL is
// longer go on, and calls fail meanwhile as what they are.
func TestAServerThatIsAwayIsAPause(t *testing.T) {
	onServers(t, func(t *testing.T, name string) {
		srv := testserver.Private(t, name)
		var log testlog.Buffer
		o := driver.Options{Logger: log.From(slog.LevelDebug)}
		a, b := opened(t, srv.URL(), o), opened(t, srv.URL(), o)
		long := a.bind("long", 10*time.Minute)
		changes := b.watch("")
		if err := a.try("owner"); err != nil {
			t.Fatal(err)
		}
		owner := registry.Check{Key: "owner", Version: a.version("owner")}
		back := func(what string) {
			t.Helper()
			for len(changes) > 0 {
				<-changes
			}
			a.works()
			signalled(t, "changes after "+what, changes)
			if got := b.version("owner"); got != owner.Version {
				t.Errorf("after %s the owner has version %q, expected %q", what, got, owner.Version)
			}
		}
		away := func(what string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			if _, err := b.List(ctx, ""); !errors.Is(err, registry.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a list while the server %s: %v", what, err)
			}
			if err := a.try("never", registry.Check{Key: "never", Version: "1"}); !unreachable(err) {
				t.Errorf("a write while the server %s: %v", what, err)
			}
		}
		srv.Kill()
		away("is dead")
		_, err := openRegistry(t.Context(), srv.URL(), o)
		if !errors.Is(err, registry.ErrUnavailable) {
			t.Errorf("opened on a dead server: %v", err)
		}
		if u, bad := url.Parse(srv.URL()); bad == nil && u.User != nil {
			secret, _ := u.User.Password()
			defer func() {
				if secret == "" || strings.Contains(err.Error()+log.String(), secret) {
					t.Error("an error or the log shows the password")
				}
			}()
		}
		srv.Restart()
		back("a kill")
		srv.Freeze()
		away("hangs")
		srv.Thaw()
		back("a hang")
		if name != "redis" && (ended(long) || b.version("long") == "") { // Redis gives processes 1.5 s to come back
			t.Error("a session ended whose TTL is longer than the outages")
		}

		short := a.bind("short", 3*time.Second)
		srv.Stop()
		eventually(t, "the session ends without the store", late, func() bool { return ended(short) })
		srv.Restart()
		back("a stop")
		eventually(t, "what was bound is gone", late, func() bool { return b.version("short") == "" })
		eventually(t, "a checkpoint under the fence from before", late, func() bool { return a.try("checkpoint", owner) == nil })
		if _, err := a.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "late", Session: short.ID()}}}); !errors.Is(err, registry.ErrFenced) {
			t.Errorf("a put with the session that ended: %v", err)
		}
		a.bind("short", time.Minute)
	})
}
