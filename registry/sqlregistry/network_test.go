package sqlregistry

import (
	"database/sql"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry"
)

// through opens a registry that reaches its server through a network to break, and one that
// reaches it straight.
func through(t *testing.T) (*testserver.Proxy, *registry.Registry, *registry.Registry) {
	t.Helper()
	u := mysqlURL(newDatabase(t))
	p := testserver.NewProxy(t, u)
	return p, openURL(t, p.URL(u)), openURL(t, u)
}

func ended(t *testing.T, x registry.Session) {
	t.Helper()
	select {
	case <-x.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("the session goes on")
	}
}

func TestAProcessThatIsCutOffHalfOpenEndsForBothSidesAndComesBack(t *testing.T) {
	t.Parallel()
	for name, hurt := range map[string]func(*testserver.Proxy){
		"both ways":      (*testserver.Proxy).Blackhole,
		"its requests":   func(p *testserver.Proxy) { p.Up(testserver.Fault{Drop: true}) },
		"its answers":    func(p *testserver.Proxy) { p.Down(testserver.Fault{Drop: true}) },
		"reset and shut": (*testserver.Proxy).Refuse,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, r, straight := through(t)
			x := bind(t, r, "cut off", 2*time.Second)
			ch, err := straight.Watch(t.Context(), "cut")
			if err != nil {
				t.Fatal(err)
			}
			hurt(p)
			// A renewal whose answer is lost may keep the session alive in the store, never here.
			ended(t, x)
			for late := time.After(30 * time.Second); len(list(t, straight, "cut off")) > 0; {
				select {
				case <-ch:
				case <-late:
					t.Fatal("the others still see its entry")
				}
			}
			p.Heal()
			await(t, func() bool { return within(t, r) == nil })
			bind(t, r, "back", time.Minute)
			if len(list(t, straight, "back")) != 1 {
				t.Error("what it wrote after it came back is not there")
			}
		})
	}
}

func TestManySessionsOfAServerOutOfReachAreClosedInTheTimeOfOne(t *testing.T) {
	t.Parallel()
	p, r, _ := through(t)
	for range 15 {
		if _, err := r.OpenSession(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	p.Blackhole()
	start := time.Now()
	_ = r.Close()
	if took := time.Since(start); took > 25*time.Second { // 3 s each would be 45
		t.Errorf("closing took %s", took)
	} else {
		t.Log("closing took", took)
	}
}

func TestConnectionsThatTheNetworkForgotAreReplaced(t *testing.T) {
	t.Parallel()
	p, r, straight := through(t)
	if _, err := r.Watch(t.Context(), "w/"); err != nil {
		t.Fatal(err)
	}
	bind(t, r, "bound", time.Minute)
	p.Swallow()
	await(t, func() bool { return within(t, r) == nil })
	ch, err := r.Watch(t.Context(), "w/")
	if err != nil {
		t.Fatal(err)
	}
	put(t, straight, "w/1", "x")
	signalled(t, ch)
	if get(t, r, "w/1") != "x" || len(list(t, straight, "bound")) != 1 {
		t.Error("the signal came without the change, or the session of a living process ended")
	}
}

func TestASlowNetworkIsOnlySlow(t *testing.T) {
	t.Parallel()
	p, r, straight := through(t)
	slow := testserver.Fault{Delay: 50 * time.Millisecond}
	p.Up(slow)
	p.Down(slow)
	x := bind(t, r, "bound", 30*time.Second)
	ch, err := r.Watch(t.Context(), "w/")
	if err != nil {
		t.Fatal(err)
	}
	put(t, straight, "w/1", "x")
	signalled(t, ch)
	put(t, r, "k", "x")
	if get(t, straight, "k") != "x" || len(list(t, straight, "bound")) != 1 {
		t.Error("what was written over a slow network is not there")
	}
	if err := x.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A host that goes without a word leaves its transaction open, and so does a process that is stopped.
func TestATransactionThatNobodyGoesOnWithIsEndedByTheServer(t *testing.T) {
	t.Parallel()
	cfg := newDatabase(t)
	r, err := Open(t.Context(), Config{MySQL: cfg})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	put(t, r, "k", "before")
	cfg.Logger = quiet{} // the client would tell of the connection's end
	cfg.InterpolateParams = true
	stopped := sql.OpenDB(&mysqlConnector{cfg, greeting, setupCalls()})
	defer stopped.Close()
	tx, err := stopped.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("SELECT version FROM ringfence_entries FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	put(t, r, "k", "after")
	if get(t, r, "k") != "after" {
		t.Error("what was written is not there")
	}
	if err := tx.Commit(); err == nil {
		t.Error("the transaction outlived a change of what it had locked")
	}
}

// The server stops in the middle of an answer. To end the answer the client reads on, without a context.
func TestAnAnswerThatStallsIsGivenUp(t *testing.T) {
	t.Parallel()
	u := mysqlURL(newDatabase(t))
	p := testserver.NewProxy(t, u)
	parsed, err := url.Parse(p.URL(u))
	if err != nil {
		t.Fatal(err)
	}
	c, err := mysqlConfig(parsed, false)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := connectMySQL(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := conn.QueryContext(t.Context(), "SELECT REPEAT('x', 1000) FROM seq_1_to_100000", nil)
	if err != nil {
		t.Fatal(err)
	}
	p.Blackhole()
	begun := time.Now()
	if err := errors.Join(rows.Close(), conn.Close()); err == nil {
		t.Error("the answer ended")
	}
	if took := time.Since(begun); took > 10*endings {
		t.Errorf("it took %s; expected about %s", took, endings)
	}
}
