package nemesis

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/history"
	"github.com/ringfence/ringfence/internal/testserver"
)

// store is a registry, and how a test gets an empty one.
type store struct {
	name string
	file bool // the registry is in files beside the data directory
	url  func(*testing.T, *world) string

	log      func(*testing.T, *world) string // URL; nil: in the directory
	waits    bool                            // for a process that is stopped amid a transaction
	patience time.Duration                   // how long it is given until it counts as waiting; 0: what a log in a directory needs
	prepare  func(t *testing.T, url string)  // after each start of its server; nil: nothing
}

// allStores are a directory, a file, and every server that holds a registry.
func allStores(t *testing.T) []store {
	t.Helper()
	all := []store{
		{name: "file", waits: true, url: func(*testing.T, *world) string { return "" }},
		{name: "kafka", waits: true, patience: 20 * time.Second, url: func(*testing.T, *world) string { return "" }, log: privateCluster},
		{name: "sqlite", waits: true, file: true, url: func(_ *testing.T, w *world) string {
			return "sqlite://" + filepath.Join(w.dir, "registry.db")
		}},
	}
	for _, name := range testserver.Registries(t) {
		s := store{name: name, url: private(name)}
		if name == "redis" {
			s.prepare = syncAlways
		}
		all = append(all, s)
	}
	return all
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
	must(t, err)
	c, err := net.Dial("tcp", u.Host)
	must(t, err)
	defer func() { _ = c.Close() }()
	password, _ := u.User.Password()
	_, err = io.WriteString(c, "AUTH "+password+"\r\nCONFIG SET appendfsync always\r\n")
	must(t, err)
	in := bufio.NewReader(c)
	for _, what := range []string{"AUTH", "CONFIG SET appendfsync always"} {
		if answer, err := in.ReadString('\n'); err != nil || answer != "+OK\r\n" {
			t.Fatalf("%s: %q, %v", what, answer, err)
		}
	}
}

// lengths of the faults' time. Each run goes on until each kind of trouble has come once.
const (
	short = 10 * time.Second
	soak  = 30 * time.Minute
)

const (
	seedVariable = "RINGFENCE_NEMESIS_SEED"
	timeVariable = "RINGFENCE_NEMESIS_FOR" // of the faults in a soak
)

func TestPromisesAreKeptThroughFaults(t *testing.T) {
	t.Parallel()
	var figures closing
	t.Cleanup(func() { figures.print(t) }) // when all stores are done
	for _, s := range allStores(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			if v := os.Getenv(seedVariable); v != "" {
				var err error
				if seed, err = strconv.ParseUint(v, 10, 64); err != nil {
					t.Fatalf("%s=%s: expected a number", seedVariable, v)
				}
			}
			t.Logf("to repeat the order of the faults: %s=%d go test -tags grpcnotrace -count=1 -run '^%s$' ./test/nemesis", seedVariable, seed, t.Name())
			length, full := short, os.Getenv("RINGFENCE_SOAK") != ""
			if full {
				length = soak
				if v := os.Getenv(timeVariable); v != "" {
					var err error
					if length, err = time.ParseDuration(v); err != nil {
						t.Fatalf("%s=%s: expected a time like 5m", timeVariable, v)
					}
				}
			}
			w := newWorld(t, s, seed)
			began := time.Now()
			verdicts := survive(t, w, length, full)
			figures.add(s.name, time.Since(began), w, verdicts)
		})
	}
}

// survive runs a world and demands that every kind of trouble came, that no promise was broken, and
// that the judge would have seen it.
func survive(t *testing.T, w *world, length time.Duration, full bool) []verdict {
	t.Helper()
	kinds := slices.DeleteFunc(append(append(slices.Clone(troubles), brokerTroubles...), growTopics), func(k trouble) bool { return !w.has(k, full) })
	verdicts := w.run(kinds, length, full)
	t.Logf("%d starts of members, %d of them ended because the store was away; %d times a member was stopped and had its commits refused",
		w.starts, w.away, w.refused)
	for _, k := range kinds {
		t.Logf("%4d times: %s", w.happened[k.Name], k.Name)
		if w.happened[k.Name] == 0 {
			t.Errorf("%s: it never happened", k.Name)
		}
	}
	t.Logf("%d storage topics took over from others, %d were retired", w.grown, w.retired)
	if w.retired == 0 && w.cluster == nil || w.grown == 0 {
		t.Errorf("%d storage topics took over from others, %d were retired: expected some", w.grown, w.retired)
	}
	if w.refused == 0 {
		t.Error("no member that was stopped had its commits refused")
	}
	for i, v := range verdicts {
		t.Logf("%s\n%s", v.scene, v.Report)
		if err := v.Err(); err != nil {
			t.Errorf("%s: %v", v.scene, err)
		}
		if v.Takeovers == 0 || v.Produced == 0 || v.Delivered < v.Produced {
			t.Errorf("%s: %d takeovers of the work on %d records, %d processed: expected some, and all", v.scene, v.Takeovers, v.Produced, v.Delivered)
		}
		if i == 0 && !t.Failed() {
			tamper(t, v)
		}
	}
	return verdicts
}

// closing are the figures of all stores, a line each.
type closing struct {
	mu    sync.Mutex
	lines []string
}

func (c *closing) add(name string, took time.Duration, w *world, verdicts []verdict) {
	var all history.Report
	for _, v := range verdicts {
		all.Produced += v.Produced
		all.Delivered += v.Delivered
		all.Lost += v.Lost
		all.Reordered += v.Reordered
		all.Violated += v.Violated
		all.Takeovers += v.Takeovers
	}
	troubles := 0
	for _, n := range w.happened {
		troubles += n
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, fmt.Sprintf("%-9s %8s: %d troubles, %d takeovers, %d storage topics added, %d retired, %d records produced, %d processed, %d lost, %d out of order, %d broken promises",
		name, took.Round(time.Second), troubles, all.Takeovers, w.grown, w.retired, all.Produced, all.Delivered, all.Lost, all.Reordered, all.Violated))
}

func (c *closing) print(t *testing.T) {
	if t.Failed() && os.Getenv("RINGFENCE_SOAK") == "" {
		return // beside what failed, "0 lost" of the others says nothing
	}
	slices.Sort(c.lines)
	for _, line := range c.lines {
		t.Log(line)
	}
}
