// Package delivertest tests the delivery of a subscription in real processes that die, on any pair of stores:
// those of a module of their own too.
//
// Run produces, starts four daemons and an endpoint, each a process (see Process), hurts them and the servers,
// and judges what the endpoint wrote down before each of its answers.
package delivertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/harness"
)

const (
	topic, name = "payments", "billing"

	daemons = 4
	keys    = 12
	each    = 12              // records of a key in a round
	tries   = 8               // few: an endpoint that is away may cost none
	ttl     = 2 * time.Second // of the sessions of daemons
)

// poison is, by key, the record that the endpoint refuses until the file "mended" is there.
var poison = map[string]int{"k0": 5, "k1": 17}

// Stores are where all that is tested is kept.
type Stores struct {
	Config ringfence.Config // with Backends, if it needs them; Process gets the same
	// Restart takes a server away and brings it back, at times when its clients work. None: the stores
	// have no server.
	Restart []func()
}

// system is a subscription and who delivers it.
type system struct {
	testing.TB
	rf      *ringfence.Client
	job     job // of the processes, but for the role
	starts  int
	daemons []*harness.Process
	inbox   *harness.Process
	sent    int // of each key
}

// Run has a subscription delivered while its daemons, its endpoint and its servers are killed, and the number
// of its shards changes twice. All that was produced comes to the endpoint, which fails a tenth of the
// attempts, in the order of each key. The poison records, and they alone, fail for good; redriven, they come
// in their place, and what waits for them behind them.
func Run(t testing.TB, s Stores) {
	rf, err := ringfence.Open(t.Context(), s.Config)
	if err != nil {
		t.Fatal(err)
	}
	defer rf.Close()
	c := s.Config
	w := &system{TB: t, rf: rf, job: job{Dir: c.Dir, Log: c.Log, Registry: c.Registry, Namespace: c.Namespace, Folder: t.TempDir(), Addr: freeAddr(t)}}
	w.must(rf.EnsureTopic(t.Context(), topic, ringfence.TopicConfig{Partitions: 6}))
	_, err = rf.EnsureSubscription(t.Context(), name, ringfence.SubscriptionConfig{
		Topic: topic, MaxAttempts: tries, Initial: 10 * time.Millisecond, Max: 100 * time.Millisecond, Hold: -1,
		Endpoint: ringfence.SubscriptionEndpoint{URL: "http://" + w.job.Addr + "/in", Timeout: 5 * time.Second},
	})
	w.must(err)
	defer w.killAll()
	w.inbox = w.start(roleEndpoint)
	for range daemons {
		w.daemons = append(w.daemons, w.start(roleDaemon))
	}

	for _, hurt := range w.troubles(s.Restart) {
		begun := time.Now()
		w.produce()
		w.await("a part of the round", func() bool { return w.came(w.sent-each/2, isGood) })
		t.Logf("%v, then: %s", time.Since(begun).Round(time.Millisecond), hurt.name)
		hurt.do()
		t.Logf("done after %v", time.Since(begun).Round(time.Millisecond))
	}
	w.await("all records of the good keys", func() bool { return w.came(w.sent, isGood) })
	w.checkDeadLetters()
	w.redrive()
	w.await("all records", func() bool { return w.came(w.sent, func(string) bool { return true }) })
	for _, d := range w.daemons {
		w.must(d.Leave())
		w.must(d.Wait())
		if code := d.ExitCode(); code != 0 {
			t.Errorf("a daemon that was asked to leave ended with %d:\n%s", code, d.Tail())
		}
	}
}

type trouble struct {
	name string
	do   func()
}

func (w *system) troubles(restart []func()) []trouble {
	all := []trouble{
		{"kill a daemon", w.killDaemon},
		{"kill the endpoint", w.killEndpoint},
		{"four shards, and kill a daemon", func() { w.turn(4); w.killDaemon() }},
		{"a daemon leaves", w.leave},
		{"six shards, and kill the endpoint", func() { w.turn(6); w.killEndpoint() }},
	}
	for i, again := range restart {
		all = append(all, trouble{fmt.Sprintf("kill a daemon, and restart server %d", i), func() { w.killDaemon(); again() }})
	}
	return all
}

func isGood(key string) bool { _, bad := poison[key]; return !bad }

// produce sends a round of records to every key, numbered from 0 on.
func (w *system) produce() {
	w.Helper()
	for range each {
		for k := range keys {
			_, err := w.rf.Produce(w.Context(), topic, ringfence.Message{Key: fmt.Appendf(nil, "k%d", k), Value: fmt.Append(nil, w.sent)})
			w.must(err)
		}
		w.sent++
	}
}

// taken is how many records of each key the endpoint has taken. The test ends at once when it took one before
// the one in front of it.
func (w *system) taken() map[string]int {
	w.Helper()
	data, err := os.ReadFile(w.job.seen())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.Fatal(err)
	}
	next := map[string]int{}
	for k := range keys {
		next[fmt.Sprintf("k%d", k)] = 0
	}
	lines := strings.Split(string(data), "\n")
	for _, line := range lines[:len(lines)-1] {
		key, value, _ := strings.Cut(line, " ")
		i, err := strconv.Atoi(value)
		if err != nil {
			w.Fatalf("the endpoint wrote %q", line)
		}
		if i > next[key] {
			w.Fatalf("key %s: %d was taken before %d", key, i, next[key])
		}
		next[key] = max(next[key], i+1)
	}
	return next
}

// came says whether the endpoint took the first n records of all those keys.
func (w *system) came(n int, of func(key string) bool) bool {
	w.Helper()
	for key, taken := range w.taken() {
		if of(key) && taken < n {
			return false
		}
	}
	return true
}

func (w *system) start(role string) *harness.Process {
	w.Helper()
	w.starts++
	j := w.job
	j.Role = role
	p, err := harness.Start(fmt.Sprintf("%s %d", role, w.starts), os.Args[0], []string{"-test.run=^" + processTest + "$"}, []string{j.variable()})
	w.must(err)
	if role == roleEndpoint {
		w.await("the endpoint's first answer", func() bool {
			r, err := http.NewRequestWithContext(w.Context(), http.MethodGet, "http://"+j.Addr+"/", http.NoBody)
			w.must(err)
			resp, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				return false
			}
			return resp.Body.Close() == nil
		})
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	}
	return p
}

// killDaemon has one more begin, and kills the oldest one.
func (w *system) killDaemon() {
	w.daemons = append(w.daemons, w.start(roleDaemon))
	w.end(w.daemons[0], (*harness.Process).Kill)
	w.daemons = w.daemons[1:]
}

// leave has the oldest one leave, in order.
func (w *system) leave() {
	w.daemons = append(w.daemons, w.start(roleDaemon))
	w.end(w.daemons[0], (*harness.Process).Leave)
	w.daemons = w.daemons[1:]
}

// killEndpoint kills it, has the daemons find nobody, and starts it again.
func (w *system) killEndpoint() {
	w.end(w.inbox, (*harness.Process).Kill)
	w.produce()
	w.inbox = w.start(roleEndpoint)
}

// turn changes the number of shards, and waits until that has begun.
func (w *system) turn(shards int) {
	w.Helper()
	_, err := w.rf.Reshard(w.Context(), name, shards, nil)
	w.must(err)
	w.await("the turn's end", func() bool {
		d, err := w.rf.DescribeSubscription(w.Context(), name)
		w.must(err)
		_, closing := d.Closing()
		return closing || !d.Turning()
	})
}

// checkDeadLetters waits until the poison records are given up, with all that is behind them.
func (w *system) checkDeadLetters() {
	w.Helper()
	var letters []ringfence.DeadLetter
	w.await("the dead letters and all behind them", func() (ok bool) {
		var err error
		letters, err = w.rf.DeadLetters(w.Context(), name, nil)
		w.must(err)
		want := 0
		for _, n := range poison {
			want += w.sent - n
		}
		return len(letters) == want
	})
	var failed []string
	for _, l := range letters {
		if l.Failed {
			failed = append(failed, string(l.Key)+" "+string(l.Value))
		}
	}
	slices.Sort(failed)
	if got := strings.Join(failed, ", "); got != "k0 5, k1 17" {
		w.Errorf("dead letters are %s; expected k0 5, k1 17", got)
	}
	for key, bad := range poison {
		if w.came(bad+1, func(k string) bool { return k == key }) {
			w.Errorf("of key %s something came that waits behind a dead letter", key)
		}
	}
}

func (w *system) redrive() {
	w.Helper()
	w.must(os.WriteFile(filepath.Join(w.job.Folder, mended), nil, 0o600))
	n, err := w.rf.Redrive(w.Context(), name, nil)
	if w.must(err); n != len(poison) {
		w.Errorf("%d records were redriven", n)
	}
	w.killDaemon()
}

func (w *system) end(p *harness.Process, how func(*harness.Process) error) {
	w.Helper()
	w.must(how(p))
	w.must(p.Wait())
}

func (w *system) killAll() {
	for _, p := range append(w.daemons, w.inbox) {
		if p == nil || p.Ended() {
			continue
		}
		if w.Failed() {
			p.Dump()
			w.Logf("%s:\n%s", p.Name, p.Output())
			continue
		}
		w.end(p, (*harness.Process).Kill)
	}
}

func (w *system) await(what string, done func() bool) {
	w.Helper()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	begun := time.Now()
	defer func() {
		if d := time.Since(begun); d > 5*time.Second {
			w.Logf("after %v: %s", d.Round(time.Millisecond), what)
		}
	}()
	for late := time.After(2 * time.Minute); !done(); {
		select {
		case <-look.C:
		case <-late:
			w.tell()
			w.Fatalf("this did not come: %s", what)
		}
	}
}

// tell logs what becomes of the keys of which something is missing.
func (w *system) tell() {
	w.Helper()
	for key, n := range w.taken() {
		if n == w.sent {
			continue
		}
		why, err := w.rf.Why(w.Context(), name, []byte(key))
		text, _ := json.Marshal(why)
		w.Logf("of %s %d of %d were taken: %s, %v", key, n, w.sent, text, err)
	}
}

func (w *system) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// freeAddr is an address of this host that nobody listens on.
func freeAddr(t testing.TB) string {
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
