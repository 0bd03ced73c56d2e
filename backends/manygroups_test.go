package backends_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/backends"
	"github.com/ringfence/ringfence/internal/freeze"
	"github.com/ringfence/ringfence/internal/testserver"
)

// Environment of a process that is in many groups: its directory, registry and namespace.
const (
	manyDir       = "RINGFENCE_TEST_MANY_DIR"
	manyRegistry  = "RINGFENCE_TEST_MANY_REGISTRY"
	manyNamespace = "RINGFENCE_TEST_MANY_NAMESPACE"
)

const (
	manyGroups = 20
	manyKeys   = 16
)

func manyConfig(dir, registry, namespace string) ringfence.Config {
	return ringfence.Config{Log: "file://" + filepath.Join(dir, "log"), Registry: registry, Namespace: namespace, Backends: backends.All()}
}

// TestProcessOfManyGroups is no test but the body of the processes of the one below. It writes a line when a handler
// begins, and one when it has ended with its context alive.
func TestProcessOfManyGroups(t *testing.T) {
	dir := os.Getenv(manyDir)
	if dir == "" {
		return // an ordinary run
	}
	rf, err := ringfence.Open(t.Context(), manyConfig(dir, os.Getenv(manyRegistry), os.Getenv(manyNamespace)))
	if err != nil {
		t.Fatal(err)
	}
	seen, err := os.OpenFile(filepath.Join(dir, "seen"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range manyGroups {
		wg.Go(func() {
			name := fmt.Sprint("g", i)
			err := rf.Consume(t.Context(), "payments", name, func(_ context.Context, m *ringfence.Message) error {
				_, err := fmt.Fprintf(seen, "%d %s %d %s %s\n", os.Getpid(), name, m.Epoch, m.Key, m.Value)
				return err
			}, nil)
			t.Error(name, err) // it is killed before that
		})
	}
	wg.Wait()
}

// manyRun is two processes, each in all of the groups, on one registry.
type manyRun struct {
	t        *testing.T
	rf       *ringfence.Client
	dir      string
	env      []string
	produced int
}

func (r *manyRun) start() *exec.Cmd {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), os.Args[0], "-test.run=^TestProcessOfManyGroups$")
	cmd.Env = append(os.Environ(), r.env...)
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed is no news
	})
	return cmd
}

// shared says whether all of these processes have a unit of each group.
func (r *manyRun) shared(processes int) bool {
	for i := range manyGroups {
		d, err := r.rf.Admin().DescribeGroup(r.t.Context(), fmt.Sprint("g", i))
		if err != nil || len(d.Members) != processes {
			return false
		}
		owners := map[string]bool{}
		for _, u := range d.Units {
			owners[u.Owner] = u.Alive
		}
		for owner, alive := range owners {
			if owner == "" || !alive {
				return false
			}
		}
		if len(owners) != processes {
			return false
		}
	}
	return true
}

// produce sends n more records.
func (r *manyRun) produce(n int) {
	r.t.Helper()
	for range n {
		key := fmt.Append(nil, "k", r.produced%manyKeys)
		if _, err := r.rf.Produce(r.t.Context(), "payments", ringfence.Message{Key: key, Value: fmt.Append(nil, r.produced)}); err != nil {
			r.t.Fatal(err)
		}
		r.produced++
	}
}

// taken are the lines of the handlers.
func (r *manyRun) taken() [][]string {
	raw, err := os.ReadFile(filepath.Join(r.dir, "seen"))
	if err != nil {
		r.t.Fatal(err)
	}
	var lines [][]string
	for line := range strings.Lines(string(raw)) {
		lines = append(lines, strings.Fields(line))
	}
	return lines
}

// complete says whether each group has handled all that was produced.
func (r *manyRun) complete() bool {
	distinct := map[string]bool{}
	for _, l := range r.taken() {
		distinct[l[1]+" "+l[4]] = true
	}
	return len(distinct) == manyGroups*r.produced
}

// judge holds what was handled against the order of each key, and against the epochs: a lower one handles nothing
// after a higher one has.
func (r *manyRun) judge() {
	r.t.Helper()
	first, highest, known := map[string]int{}, map[string]int{}, map[string]bool{}
	for _, l := range r.taken() {
		epoch, _ := strconv.Atoi(l[2])
		n, _ := strconv.Atoi(l[4])
		at, once := l[1]+" "+l[3], l[1]+" "+l[4]
		if epoch < highest[at] {
			r.t.Errorf("group %s: record %s of key %s was handled in epoch %d after epoch %d", l[1], l[4], l[3], epoch, highest[at])
		}
		highest[at] = max(highest[at], epoch)
		if known[once] {
			continue
		}
		known[once] = true
		if last, ok := first[at]; ok && n < last {
			r.t.Errorf("group %s: record %d of key %s came after %d", l[1], n, l[3], last)
		}
		first[at] = n
	}
}

func eventually(t *testing.T, what string, within time.Duration, ok func() bool) (took time.Duration) {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(within); !ok(); {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited %s for %s", within, what)
		}
	}
	return time.Since(began).Round(time.Millisecond)
}

// Two processes are in twenty groups under one session each, on every registry. One is killed, its next start is
// stopped for longer than its session lives: all its groups are the other's, and what wakes goes on with none of them.
func TestAProcessOfManyGroupsIsFollowedInAllOfThem(t *testing.T) {
	t.Parallel()
	for _, name := range append(testserver.Registries(t), "file") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			registry := "file://" + filepath.Join(dir, "registry")
			namespace := ""
			if name != "file" {
				registry, namespace = testserver.URL(t, name), fmt.Sprintf("many-%08x", rand.Uint32())
			}
			rf, err := ringfence.Open(t.Context(), manyConfig(dir, registry, namespace))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = rf.Close() }()
			if err := rf.EnsureTopic(t.Context(), "payments", ringfence.TopicConfig{Partitions: 2}); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "seen"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			r := &manyRun{t: t, rf: rf, dir: dir, env: []string{manyDir + "=" + dir, manyRegistry + "=" + registry, manyNamespace + "=" + namespace}}
			a := r.start()
			r.start()
			eventually(t, "both to share all groups", time.Minute, func() bool { return r.shared(2) })
			r.produce(100)
			eventually(t, "all to be handled", time.Minute, r.complete)
			if err := a.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			r.produce(100)
			t.Logf("after a kill all was handled in %s", eventually(t, "all to be handled after a kill", time.Minute, r.complete))
			c := r.start()
			eventually(t, "both to share all groups again", time.Minute, func() bool { return r.shared(2) })
			if err := freeze.Process(t.Context(), c.Process); err != nil { // no handler of it runs on
				t.Fatal(err)
			}
			r.produce(100)
			t.Logf("after a stop all was handled in %s", eventually(t, "all to be handled after a stop", time.Minute, r.complete))
			if err := c.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			r.produce(100)
			eventually(t, "all to be handled after it woke", time.Minute, r.complete)
			t.Logf("it was back in all groups after %s", eventually(t, "both to share all groups at last", time.Minute, func() bool { return r.shared(2) }))
			r.produce(100)
			eventually(t, "all to be handled at last", time.Minute, r.complete)
			r.judge()
		})
	}
}
