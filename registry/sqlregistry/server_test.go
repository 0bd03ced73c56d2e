package sqlregistry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

// bind opens a session with one entry, and another if the machine stalled for its TTL meanwhile.
func bind(t *testing.T, r *registry.Registry, key string, ttl time.Duration) registry.Session {
	t.Helper()
	for range 10 {
		x, err := r.OpenSession(t.Context(), ttl)
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: key, Session: x.ID()}}})
		if err == nil {
			return x
		}
		if !errors.Is(err, registry.ErrFenced) {
			t.Fatal(err)
		}
	}
	t.Fatalf("no session with a TTL of %s lasts until it has an entry", ttl)
	return nil
}

// signalled waits for a signal that comes after what was put just now.
func signalled(t *testing.T, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(30 * time.Second):
		t.Fatal("no signal after a change")
	}
}

// TestAnIdleGroupCostsTheServerLittle counts the statements of ten processes with the session TTL
// that groups have by default, which wait for changes.
func TestAnIdleGroupCostsTheServerLittle(t *testing.T) {
	t.Parallel()
	s := testserver.Private(t, "mariadb")
	const members, limit, connections, window = 10, 30, 13, 5
	var wg sync.WaitGroup
	for i := range members {
		r := openURL(t, s.URL())
		wg.Go(func() {
			if _, err := r.Watch(t.Context(), "groups/g/"); err != nil {
				t.Error(err)
				return
			}
			bind(t, r, fmt.Sprintf("groups/g/members/%d", i), 5*time.Second)
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := mysqlConfig(u, false)
	if err != nil {
		t.Fatal(err)
	}
	db := sqlDB(t, cfg)
	// A connection may break; one that stays broken is told by await.
	ask := func(n *int, query string, more ...any) bool {
		err := db.QueryRow(query).Scan(append(more, n)...)
		if err != nil {
			t.Log(err)
		}
		return err == nil
	}
	status := func(name string) (n int) {
		await(t, func() bool { return ask(&n, "SHOW GLOBAL STATUS LIKE '"+name+"'", &name) })
		return n
	}
	waiting := func() (n int) {
		ask(&n, "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock'")
		return n
	}
	await(t, func() bool { return waiting() >= 3*members }) // each listens and watches two others
	rate := math.Inf(1)
	for try := 0; try < 4 && rate > limit; try++ { // at first they are not idle: each hears of the others' sessions
		before, start := status("Questions"), time.Now()
		if _, err := db.Exec("DO SLEEP(?)", window); err != nil {
			t.Fatal(err)
		}
		rate = float64(status("Questions")-before) / time.Since(start).Seconds()
		t.Logf("%.1f statements a second, %d connections", rate, status("Threads_connected")-1)
	}
	if rate > limit {
		t.Errorf("ten idle members cost %.1f statements a second; expected at most %d", rate, limit)
	}
	if n := status("Threads_connected") - 1; n > members*connections {
		t.Errorf("ten idle members have %d connections; expected at most %d each", n, connections)
	}
}

// warnings collects what is logged as a warning or worse.
type warnings struct {
	slog.Handler

	mu   sync.Mutex
	told []string
}

func (w *warnings) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, r.Message)
	r.Attrs(func(a slog.Attr) bool {
		w.told = append(w.told, a.String())
		return true
	})
	return nil
}

func TestAUserNeedsNoRightsBeyondTheDatabase(t *testing.T) {
	t.Parallel()
	cfg := newDatabase(t)
	exec := asRoot(t, cfg)
	user := "rf" + strings.TrimPrefix(cfg.DBName, "ringfence_")
	exec("CREATE USER %s@'%%' IDENTIFIED BY 's3cret'", user)
	t.Cleanup(func() { exec("DROP USER %s@'%%'", user) })
	grant := func(heading string) []string {
		t.Helper()
		return testserver.Rights(t, heading, "app.", cfg.DBName+".", "rf@", user+"@")
	}
	for _, q := range append(grant("MariaDB"), grant("MariaDB, the first")...) {
		exec("%s", q)
	}
	small := cfg.Clone()
	small.User, small.Passwd = user, "s3cret"
	w := &warnings{Handler: slog.DiscardHandler}
	open := func() *registry.Registry {
		r, err := Open(t.Context(), Config{MySQL: small, Options: driver.Options{Logger: slog.New(w)}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		return r
	}
	a := open()
	for _, q := range grant("MariaDB, the first") {
		exec("%s", strings.NewReplacer("GRANT", "REVOKE", " TO ", " FROM ").Replace(q))
	}
	b := open()
	ch, err := b.Watch(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	bind(t, b, "here", time.Minute)
	x := bind(t, a, "bound", time.Minute)
	signalled(t, ch)
	if err := x.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return len(list(t, b, "bound")) == 0 })
	a.Close()
	b.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, told := range w.told {
		t.Error(told)
	}
}
