package nemesis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/history"
	"github.com/ringfence/ringfence/internal/testserver"
)

// The scene: three members share eight partitions, and a producer writes to them all the time.
const (
	partitions = 8
	regulars   = 3
	keyCount   = 100
	ttl        = 2 * time.Second // the shortest that every store can do
	work       = time.Millisecond
	pause      = 2 * time.Millisecond // of the producer
	healing    = 2 * time.Minute      // for what takes seconds on an idle machine
	topic      = "orders"
	group      = "billing"
)

// world is what the faults happen to.
type world struct {
	t       *testing.T
	random  *rand.Rand
	dir     string
	direct  string              // the registry's URL; "": the directory
	server  *testserver.Server  // nil: the store has none
	proxies []*testserver.Proxy // members are spread over them
	members map[string]*process // that should run, by name
	gone    []*process          // were killed or told to leave
	starts  int
	away    int // starts that ended because the store was away
	rf      *ringfence.Client
}

func newWorld(t *testing.T, s store, seed uint64) *world {
	t.Helper()
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 0)), dir: t.TempDir(), members: make(map[string]*process)}
	w.direct = s.url(t, w)
	if w.server != nil {
		w.proxies = []*testserver.Proxy{testserver.NewProxy(t, w.direct), testserver.NewProxy(t, w.direct)}
	}
	w.must(os.Mkdir(filepath.Join(w.dir, "history"), 0o755))
	sp := spec{Dir: filepath.Join(w.dir, "data"), Registry: w.direct}
	var err error
	w.rf, err = ringfence.Open(t.Context(), sp.config(nil))
	w.must(err)
	w.must(w.rf.EnsureTopic(t.Context(), topic, ringfence.TopicConfig{Partitions: partitions}))
	t.Cleanup(func() {
		if t.Failed() {
			w.keep()
		}
		for _, p := range w.members {
			p.signal(syscall.SIGKILL)
			w.gone = append(w.gone, p)
		}
		for _, p := range w.gone {
			p.signal(syscall.SIGKILL)
			<-p.done
		}
		if err := w.rf.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
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
		if p.ended() {
			_ = os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d.log", p.name, p.cmd.Process.Pid)), p.stderr.Bytes(), 0o600)
		}
	}
	w.t.Logf("histories and logs are in %s", dir)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// start starts a member, for the first time or again.
func (w *world) start(name string) {
	w.t.Helper()
	w.starts++
	s := spec{
		Name: name, Topic: topic, Group: group, Dir: filepath.Join(w.dir, "data"), Registry: w.direct, TTL: ttl, Work: work,
		History: filepath.Join(w.dir, "history", fmt.Sprintf("%s-%d.jsonl", name, w.starts)),
	}
	if len(w.proxies) > 0 {
		s.Registry = w.proxies[w.starts%len(w.proxies)].URL(w.direct)
	}
	p, err := start(s)
	w.must(err)
	w.members[name] = p
}

// remove takes a member out of those that should run.
func (w *world) remove(name string, s syscall.Signal) {
	p := w.members[name]
	delete(w.members, name)
	p.signal(s)
	w.gone = append(w.gone, p)
}

func regular(i int) string { return fmt.Sprintf("member-%c", 'a'+i) }

// revive starts members again that ended because their store was away while they started. No
// other end is forgiven.
func (w *world) revive() {
	w.t.Helper()
	for name, p := range w.members {
		if !p.ended() {
			continue
		}
		unavailable, err := p.wait()
		w.must(err)
		if !unavailable {
			w.t.Fatalf("member %s ended though nobody had asked it to: %s", name, tail(p.stderr.Bytes()))
		}
		w.away++
		w.start(name)
	}
}

// produce writes records until ctx ends, and to the history which were acknowledged.
func (w *world) produce(ctx context.Context) error {
	file, err := os.OpenFile(filepath.Join(w.dir, "history", "producer.jsonl"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	out := history.NewWriter(file)
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		key, value := fmt.Appendf(nil, "key-%03d", i%keyCount), fmt.Appendf(nil, "value %d", i)
		at, err := w.rf.Produce(context.WithoutCancel(ctx), topic, ringfence.Message{Key: key, Value: value})
		if err != nil {
			return errors.Join(err, file.Close())
		}
		err = out.Add(history.Event{
			Kind: history.Produced, Storage: at.Storage, Partition: at.Partition, Offset: at.Offset,
			Key: history.Key(key), Value: fingerprint(key, value),
		})
		if err != nil {
			return errors.Join(err, file.Close())
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	return file.Close()
}

// fingerprint is that of procdemo's members.
func fingerprint(key, value []byte) uint64 {
	d := xxhash.New()
	_, _ = d.Write(key)
	_, _ = d.Write([]byte{0})
	_, _ = d.Write(value)
	return d.Sum64()
}

// await looks at the group until something holds.
func (w *world) await(what string, holds func(ringfence.GroupInfo) bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), healing)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		w.revive()
		g, err := w.rf.DescribeGroup(ctx, group)
		if err == nil && holds(g) {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			w.t.Errorf("waited %s in vain until %s: lag %d, members %d, %v", healing, what, g.Lag, len(g.Members), err)
			for name, p := range w.members {
				p.signal(syscall.SIGQUIT) // its goroutines
				<-p.done
				w.t.Logf("%s said: %s", name, tail(p.stderr.Bytes()))
			}
			w.t.FailNow()
		}
	}
}

// run hurts the world for a while, heals it and returns the judgement.
func (w *world) run(faults []trouble, length time.Duration) *history.Report {
	w.t.Helper()
	for i := range regulars {
		w.start(regular(i))
	}
	w.await("every unit has an owner", everyUnitIsOwned)
	ctx, stop := context.WithCancel(w.t.Context())
	var producing sync.WaitGroup
	var failure error
	producing.Go(func() { failure = w.produce(ctx) })
	defer producing.Wait()
	defer stop()

	w.hurt(faults, length)

	stop()
	producing.Wait()
	w.must(failure)
	healed := time.Now()
	w.await("everything is processed", func(g ringfence.GroupInfo) bool { return g.Lag == 0 && everyUnitIsOwned(g) })
	w.t.Logf("healed: all was processed %.1f s after the last fault", time.Since(healed).Seconds())
	for name := range w.members {
		w.remove(name, syscall.SIGTERM)
	}
	for _, p := range w.gone {
		_, err := p.wait()
		if err != nil {
			w.t.Error(err)
		}
	}
	return w.judge()
}

func everyUnitIsOwned(g ringfence.GroupInfo) bool {
	for _, u := range g.Units {
		if !u.Alive {
			return false
		}
	}
	return len(g.Units) == partitions
}

// judge gives all histories to the checker.
func (w *world) judge() *history.Report {
	w.t.Helper()
	paths, err := filepath.Glob(filepath.Join(w.dir, "history", "*.jsonl"))
	w.must(err)
	var readers []io.Reader
	for _, path := range paths {
		r, err := accounted(path)
		w.must(err)
		readers = append(readers, r)
	}
	report, err := history.Check(history.Config{}, true, readers...)
	w.must(err)
	return report
}
