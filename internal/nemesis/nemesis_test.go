package nemesis

import (
	"bufio"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/registry/etcdregistry"
	"github.com/ringfence/ringfence/registry/pgregistry"
	"github.com/ringfence/ringfence/registry/redisregistry"
	"github.com/ringfence/ringfence/registry/sqlregistry"
)

// store is a registry, and how a test gets an empty one.
type store struct {
	name   string
	scheme string
	open   opener // nil: built in
	url    func(*testing.T, *world) string
}

var stores = []store{
	{name: "file", url: func(*testing.T, *world) string { return "" }},
	{name: "sqlite", scheme: "sqlite", open: sqlregistry.OpenURL, url: func(_ *testing.T, w *world) string {
		return "sqlite://" + filepath.Join(w.dir, "registry.db")
	}},
	{name: "etcd", scheme: "etcd", open: etcdregistry.OpenURL, url: private("etcd")},
	{name: "postgres", scheme: "postgres", open: pgregistry.OpenURL, url: private("postgres")},
	{name: "mariadb", scheme: "mysql", open: sqlregistry.OpenURL, url: private("mariadb")},
	{name: "redis", scheme: "redis", open: redisregistry.OpenURL, url: func(t *testing.T, w *world) string {
		u := private("redis")(t, w)
		syncAlways(t, u)
		return u
	}},
}

func private(name string) func(*testing.T, *world) string {
	return func(t *testing.T, w *world) string {
		t.Helper()
		w.server = testserver.Private(t, name)
		return w.server.URL()
	}
}

// syncAlways makes Redis write its log before each answer. It may put that off by default, and
// then a kill takes acknowledged writes with it, which is a promise that it does not make.
func syncAlways(t *testing.T, raw string) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for _, line := range []string{"CONFIG SET appendfsync always\r\n", "CONFIG REWRITE\r\n"} {
		if _, err := c.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if answer, err := bufio.NewReader(c).ReadString('\n'); err != nil || answer != "+OK\r\n" {
		t.Fatalf("CONFIG SET appendfsync always: %q, %v", answer, err)
	}
}

// lengths of the faults' time.
const (
	short = 12 * time.Second
	soak  = 10 * time.Minute
)

func TestPromisesAreKeptThroughFaults(t *testing.T) {
	t.Parallel()
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			if v := os.Getenv("RINGFENCE_NEMESIS_SEED"); v != "" {
				var err error
				if seed, err = strconv.ParseUint(v, 10, 64); err != nil {
					t.Fatalf("RINGFENCE_NEMESIS_SEED=%s: expected a number", v)
				}
			}
			t.Logf("to repeat the order of the faults: RINGFENCE_NEMESIS_SEED=%d", seed)
			w := newWorld(t, s, seed)
			var faults []trouble
			for _, f := range all {
				if w.server != nil || !f.server {
					faults = append(faults, f)
				}
			}
			length := short
			if os.Getenv("RINGFENCE_SOAK") != "" {
				length = soak
			}
			report := w.run(faults, length)
			t.Logf("%d starts of members, %d of them ended because the store was away\n%s", w.starts, w.away, report)
			if err := report.Err(); err != nil {
				t.Error(err)
			}
			if report.Takeovers == 0 || report.Produced == 0 {
				t.Errorf("%d takeovers of the work on %d records: nothing was tested", report.Takeovers, report.Produced)
			}
		})
	}
}
