package nemesis

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/testserver"
)

// Three regular members share the units of each scene. At the beginning they are twenty, all
// started at once on a store in which there is nothing.
const (
	regulars = 3
	crowded  = 20
	ttl      = 2 * time.Second // the shortest that every store can do
	work     = time.Millisecond
	healing  = 4 * time.Minute // for what takes seconds on an idle machine
)

// world is what the troubles happen to.
type world struct {
	t        *testing.T
	store    store
	seed     uint64
	dir      string
	direct   string              // the registry's URL; "": the directory
	log      string              // the log's URL; "": the directory
	cluster  *testserver.Server  // of the log's brokers; nil: it is in the directory
	server   *testserver.Server  // nil: the store has none
	proxies  []*testserver.Proxy // members are spread over them
	clients  []*ringfence.Client // of the scenes; they reach the store directly
	members  map[string]*process // that should run, by name
	gone     []*process          // were killed or told to leave
	starts   int
	away     int            // starts that ended because the store was away
	happened map[string]int // troubles that were seen to do harm
	idle     atomic.Bool    // the producers wait
	refused  int            // members that were stopped, and had their commits refused
	growing  sync.WaitGroup
	grown    int // storage topics that took over from others
	retired  int // storage topics that were finished, and are gone
}

func newWorld(t *testing.T, s store, seed uint64) *world {
	t.Helper()
	w := &world{t: t, store: s, seed: seed, dir: t.TempDir(), members: make(map[string]*process), happened: make(map[string]int)}
	w.direct = s.url(t, w)
	if s.log != nil {
		w.log = s.log(t, w)
	}
	if s.prepare != nil {
		s.prepare(t, w.direct)
	}
	if w.server != nil {
		w.proxies = []*testserver.Proxy{testserver.NewProxy(t, w.direct), testserver.NewProxy(t, w.direct)}
	}
	w.must(os.Mkdir(filepath.Join(w.dir, "history"), 0o755))
	t.Cleanup(w.end)
	return w
}

func (w *world) end() {
	if w.t.Failed() {
		w.keep()
	}
	for _, p := range w.members {
		w.gone = append(w.gone, p)
	}
	for _, p := range w.gone {
		_ = p.Kill() // it may have ended
		<-p.Done()
	}
	for _, c := range w.clients {
		if err := c.Close(); err != nil {
			w.t.Error(err)
		}
	}
}

// keep leaves the histories, and what the members said, for whoever looks into a failure.
func (w *world) keep() {
	dir, err := os.MkdirTemp("", "ringfence-nemesis-")
	if err != nil {
		w.t.Log(err)
		return
	}
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(w.dir, "history"))); err != nil {
		w.t.Log(err)
	}
	for _, p := range w.gone {
		if p.Ended() {
			_ = os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d.log", p.spec.Name, p.spec.Start)), p.Output(), 0o600)
		}
	}
	w.t.Logf("histories and logs are in %s", dir)
}

func (w *world) must(err error) {
	w.t.Helper()
	must(w.t, err)
}

// begin starts twenty processes at once on the empty store, and goes on with the regular ones when
// all of them are members and every unit has an owner.
func (w *world) begin() {
	w.t.Helper()
	began := time.Now()
	for i := range regulars {
		w.start(regular(i))
	}
	var others []string
	for i := range crowded - regulars {
		others = append(others, fmt.Sprintf("early-%d", i))
		w.start(others[i])
	}
	for _, s := range scenes {
		here := &spec{Dir: filepath.Join(w.dir, "data"), Log: w.log, Registry: w.direct}
		var client *ringfence.Client
		w.persist("the store can be opened", func(ctx context.Context) (err error) {
			client, err = here.open(ctx, s, nil)
			return err
		})
		w.clients = append(w.clients, client)
		w.persist("the topic is there", func(ctx context.Context) error { return client.EnsureTopic(ctx, topic, topicConfig) })
	}
	w.await("all are members, and own all units", func(s scene, g api.Group) bool {
		return everyUnitIsOwned(g) && (s != scenes[0] || len(g.Members) == crowded)
	})
	w.t.Logf("%d processes, started at once on an empty store, were at work after %.1f s", crowded, time.Since(began).Seconds())
	w.disperse(others)
}

// start starts a member, for the first time or again. Only the regular ones are in all scenes.
func (w *world) start(name string) {
	w.t.Helper()
	w.starts++
	s := spec{
		Name: name, Start: w.starts, Scenes: 1, History: filepath.Join(w.dir, "history"),
		Dir: filepath.Join(w.dir, "data"), Log: w.log, Registry: w.direct,
	}
	turn := w.starts
	for i := range regulars {
		if name == regular(i) {
			s.Scenes, turn = len(scenes), i
		}
	}
	if len(w.proxies) > 0 {
		s.Registry = w.proxies[turn%len(w.proxies)].URL(w.direct)
	}
	p, err := start(s)
	w.must(err)
	w.members[name] = p
}

// remove takes a member out of those that should run.
func (w *world) remove(name string, end func(*harness.Process) error) *process {
	p := w.members[name]
	delete(w.members, name)
	_ = end(p.Process) // it may have ended
	w.gone = append(w.gone, p)
	return p
}

func regular(i int) string { return fmt.Sprintf("member-%c", 'a'+i) }

// revive starts members again that ended because their store was away while they started. No
// other end is forgiven.
func (w *world) revive() {
	w.t.Helper()
	for name, p := range w.members {
		if !p.Ended() {
			continue
		}
		unavailable, err := p.wait()
		w.must(err)
		if !unavailable {
			w.t.Fatalf("member %s ended though nobody had asked it to: %s", name, p.Tail())
		}
		w.away++
		w.start(name)
	}
}

// until waits for something that takes moments on an idle machine.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	deadline := time.After(healing)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
			w.revive()
		case <-deadline:
			w.dump()
			w.t.Fatalf("waited %s in vain until %s", healing, what)
		}
	}
}

// persist tries what a busy store may be too slow for.
func (w *world) persist(what string, do func(context.Context) error) {
	w.t.Helper()
	w.until(what, func() bool {
		ctx, cancel := context.WithTimeout(w.t.Context(), call)
		defer cancel()
		err := do(ctx)
		if err != nil && !transient(err) {
			w.must(err)
		}
		return err == nil
	})
}

// await looks at the groups until something holds for all of them.
func (w *world) await(what string, holds func(scene, api.Group) bool) {
	w.t.Helper()
	last := ""
	defer func() {
		if w.t.Failed() {
			w.t.Log("the last look: ", last)
		}
	}()
	w.until(what, func() bool {
		for i, s := range scenes {
			ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
			g, err := w.clients[i].Admin().DescribeGroup(ctx, s.group)
			cancel()
			if last = fmt.Sprintf("%s has lag %d, %d members, %v", s, g.Lag, len(g.Members), err); err != nil || !holds(s, g) {
				return false
			}
		}
		return true
	})
}

// dump ends the members, and lets them tell what their goroutines do.
func (w *world) dump() {
	w.t.Helper()
	for name, p := range w.members {
		p.Dump()
		<-p.Done()
		w.t.Logf("%s said: %s", name, p.Tail())
	}
}

// run hurts the world for a while, heals it and returns the judgements.
func (w *world) run(kinds []trouble, length time.Duration, full bool) []verdict {
	w.t.Helper()
	w.begin()
	ctx, stop := context.WithCancel(w.t.Context())
	var producing sync.WaitGroup
	var failures [2]error
	for i, s := range []int{0, 2} { // one of each namespace
		producing.Go(func() { failures[i] = w.produce(ctx, w.clients[s], w.produced(scenes[s])) })
	}
	w.retireMeanwhile(ctx, &producing)
	defer producing.Wait()
	defer w.growing.Wait()
	defer stop()

	w.hurt(kinds, length, full)

	stop()
	producing.Wait()
	for _, err := range failures {
		w.must(err)
	}
	healed := time.Now()
	w.await("everything is processed", func(_ scene, g api.Group) bool { return g.Lag == 0 && everyUnitIsOwned(g) })
	w.t.Logf("healed: all was processed %.1f s after the last trouble", time.Since(healed).Seconds())
	if w.cluster == nil || full { // who has a topic of Kafka open looks twice a minute what may go
		w.retireRest()
		w.t.Logf("healed: all that was finished was retired %.1f s after the last trouble", time.Since(healed).Seconds())
	}
	w.grown, w.retired = w.storage()
	for name := range w.members {
		w.remove(name, (*harness.Process).Leave)
	}
	left := 0
	for _, p := range w.gone {
		if _, err := p.wait(); err != nil {
			w.t.Error(err)
		}
		if p.leftInOrder() {
			left++
		}
	}
	if left == 0 {
		w.t.Errorf("none of %d members that were asked to leave did so in order", len(w.gone))
	}
	return w.judge()
}

func everyUnitIsOwned(g api.Group) bool {
	for _, u := range g.Units {
		if !u.Alive && u.Phase != api.Finished {
			return false
		}
	}
	return len(g.Units) >= partitions
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
