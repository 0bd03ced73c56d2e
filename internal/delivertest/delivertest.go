// Package delivertest tests the delivery of a subscription in real processes that die, on any pair of stores:
// those of a module of their own too.
//
// Run produces, starts four daemons and an endpoint, each a process (see Process), hurts them and the servers,
// has the number of shards change and the topic grow meanwhile, and history.Arrivals judges what the endpoint
// wrote down before each of its answers.
package delivertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/history"
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
	storage int // that takes what is produced
}

// Run has a subscription delivered while its daemons, its endpoint and its servers are killed, its topic grows
// twice, to numbers of partitions that divide and that don't, and the number of its shards changes twice, and
// once more under each restart of a server. All that was produced comes to the endpoint, which fails a tenth of
// the attempts, in the order of each key. The poison records, and they alone, fail for good; redriven, they come
// in their place, and what waits for them behind them. At last nothing is left of a turn.
func Run(t testing.TB, s Stores) {
	rf, err := ringfence.Open(t.Context(), s.Config)
	if err != nil {
		t.Fatal(err)
	}
	defer rf.Close()
	c := s.Config
	w := &system{TB: t, rf: rf, job: job{Dir: c.Dir, Log: c.Log, Registry: c.Registry, Namespace: c.Namespace, Folder: t.TempDir(), Addr: freeAddr(t)}}
	w.must(rf.EnsureTopic(t.Context(), topic, ringfence.TopicConfig{Partitions: 6}))
	_, err = rf.Admin().CreateSubscription(t.Context(), name, admin.SubscriptionConfig{
		Topic: topic, Retry: admin.Retry{Initial: 10 * time.Millisecond, Max: 100 * time.Millisecond, Attempts: tries}, Hold: -1,
		Endpoint: admin.EndpointConfig{URL: "http://" + w.job.Addr + "/in", Timeout: 5 * time.Second},
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
	failed := w.deadLetters()
	w.redrive()
	w.await("all records", func() bool { return w.came(w.sent, func(string) bool { return true }) })
	w.awaitRetired()
	for _, d := range w.daemons {
		if d.Ended() {
			t.Fatalf("%s ended by itself", d.Name)
		}
		w.must(d.Leave())
		w.must(d.Wait())
		if code := d.ExitCode(); code != 0 {
			t.Errorf("a daemon that was asked to leave ended with %d:\n%s", code, d.Tail())
		}
	}
	a := w.arrivals()
	a.Poison, a.Failed = poison, failed
	r := a.Judge()
	t.Log(r)
	if err := r.Err(); err != nil {
		t.Error(err)
	}
}

func isGood(key string) bool { _, bad := poison[key]; return !bad }

// produce sends a round of records to every key, numbered from 0 on.
func (w *system) produce() {
	w.Helper()
	for range each {
		acks := make(chan error, keys)
		for k := range keys {
			m := ringfence.Message{Key: fmt.Appendf(nil, "k%d", k), Value: fmt.Append(nil, w.sent)}
			w.rf.ProduceAsync(w.Context(), topic, m, nil, func(_ ringfence.Position, err error) { acks <- err })
		}
		for range keys {
			w.must(<-acks)
		}
		w.sent++
	}
}

// arrivals is what the endpoint has taken, and what was sent to it.
func (w *system) arrivals() *history.Arrivals {
	w.Helper()
	data, err := os.ReadFile(w.job.seen())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.Fatal(err)
	}
	a := &history.Arrivals{Sent: map[string]int{}}
	for k := range keys {
		a.Sent[fmt.Sprintf("k%d", k)] = w.sent
	}
	lines := strings.Split(string(data), "\n")
	for _, line := range lines[:len(lines)-1] {
		var t history.Arrival
		if _, err := fmt.Sscanf(line, "%s %d", &t.Key, &t.Number); err != nil {
			w.Fatalf("the endpoint wrote %q", line)
		}
		a.Taken = append(a.Taken, t)
	}
	return a
}

// taken is up to which record of each key the endpoint has taken all. The test ends at once when it took one
// before the one in front of it.
func (w *system) taken() map[string]int {
	w.Helper()
	a := w.arrivals()
	if r := a.Judge(); r.Broken[history.KeyOrder]+r.Broken[history.OnlySent] > 0 {
		w.Fatal(r)
	}
	next := map[string]int{}
	for key := range a.Sent {
		next[key] = 0
	}
	for _, t := range a.Taken {
		next[t.Key] = max(next[t.Key], t.Number+1)
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

func (w *system) describe() *api.Subscription {
	w.Helper()
	d, err := w.rf.Admin().GetSubscription(w.Context(), name)
	w.must(err)
	return d
}

// awaitRetired waits until the newest storage topic is delivered, and nobody needs the shards of earlier sets.
func (w *system) awaitRetired() {
	w.Helper()
	var d *api.Subscription
	w.await("that all shards but the last ones are retired", func() bool {
		d = w.describe()
		for _, set := range d.Sets {
			if set.ID != d.Set().ID && set.State != "retired" {
				return false
			}
		}
		return !d.Changing() && d.Set().Storage == w.storage
	})
	for _, set := range d.Sets[1:] {
		w.Logf("set %d, %d shards of storage topic %d: a pause of %d ms", set.Set, set.Shards, set.Storage, set.PauseMS)
	}
}

// deadLetters waits until the poison records are given up, with all that is behind them, and says by key
// which have failed.
func (w *system) deadLetters() map[string][]int {
	w.Helper()
	var letters []api.DeadLetter
	w.await("the dead letters and all behind them", func() (ok bool) {
		var err error
		letters, err = w.rf.Admin().ListDeadLetters(w.Context(), name, nil)
		w.must(err)
		want := 0
		for _, n := range poison {
			want += w.sent - n
		}
		return len(letters) == want
	})
	failed := map[string][]int{}
	for _, l := range letters {
		var n int
		_, err := fmt.Sscan(l.Value, &n)
		if w.must(err); l.Status == api.Failed {
			failed[l.KeyText()] = append(failed[l.KeyText()], n)
		}
	}
	for key, bad := range poison {
		if w.came(bad+1, func(k string) bool { return k == key }) {
			w.Errorf("of key %s something came that waits behind a dead letter", key)
		}
	}
	return failed
}

func (w *system) redrive() {
	w.Helper()
	w.must(os.WriteFile(filepath.Join(w.job.Folder, mended), nil, 0o600))
	n, err := w.rf.Admin().RedriveDeadLetters(w.Context(), name, nil)
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
		switch {
		case p == nil:
		case w.Failed():
			if !p.Ended() {
				p.Dump()
			}
			err := p.Wait()
			w.Logf("%s ended with %d, %v:\n%s", p.Name, p.ExitCode(), err, p.Output())
		case !p.Ended():
			w.end(p, (*harness.Process).Kill)
		}
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
		why, err := w.rf.Admin().ExplainKey(w.Context(), name, []byte(key))
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
