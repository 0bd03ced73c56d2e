package mirror_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/kafkalog"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/topic"
)

// A system in a directory moves to Kafka and PostgreSQL while it runs, by the steps of
// docs/guide/grow.md, each a process of its own; the mirror and the cut-over are killed on the way.
// Consumers see every record once, and each key in order.
func TestARunningSystemMovesToKafka(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	run(t, append([]string{"topic", "create", name, "--partitions", "4"}, s.old...)...)
	producers := []*feeder{s.produce(0), s.produce(1)}
	consumers := []*process{s.consume(s.old), s.consume(s.old)}
	s.await("a backlog", func() bool { return producers[0].fed.Load() > 5000 && producers[1].fed.Load() > 5000 })

	for range 3 { // killed in the middle of its work, and started again
		before := s.copied(0)
		m := s.mirror("--batch-bytes", "2000")
		s.await("more copies", func() bool { return s.copied(0) > before+500 })
		m.kill()
	}
	live := s.mirror()
	s.caughtUp(producers)
	run(t, append([]string{"topic", "add-storage", name, "--partitions", "8"}, s.old...)...)
	run(t, append([]string{"topic", "switch-produce", name}, s.old...)...)
	s.await("copies of the new storage topic", func() bool { return s.copied(1) > 500 })
	s.caughtUp(producers)

	for _, c := range consumers {
		c.stop()
	}
	live.stop()
	atStop := s.lines()
	s.await("records that the group has not seen", func() bool { return producers[0].fed.Load()+producers[1].fed.Load() > atStop+2000 })
	cut := s.mirror("--cut-over")
	<-producers[0].p.done // refused: the source is sealed
	cut.kill()
	again := s.mirror("--cut-over").end(0)
	if !strings.Contains(again, "the progress of 1 group carried over") && !strings.Contains(again, "was cut over before") {
		t.Errorf("the second cut-over says: %s", again)
	}
	for _, p := range producers {
		p.resume(s.now, 2000)
	}
	consumers = []*process{s.consume(s.now), s.consume(s.now)}
	total := int64(0)
	for _, p := range producers {
		total += p.finish()
	}
	s.await("all records", func() bool { return s.lines() >= total })
	for _, c := range consumers {
		c.kill()
	}
	s.check(producers)
}

// system is what moves.
type system struct {
	*testing.T
	ctx      context.Context // ends long after the test should have
	old, now []string        // flags for before and after
	route    []string        // from where to where, for the mirror
	seen     *os.File        // where consumers print to
	log      *commitlog.Log  // the target
	unique   string          // the namespace
	start    time.Time
	started  []*process // but commands of a moment
}

func newSystem(t *testing.T) *system {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	unique := fmt.Sprintf("move-%08x", rand.Uint32())
	postgres := testserver.URL(t, "postgres")
	kafka, err := url.Parse(testserver.URL(t, "kafka"))
	must(t, err)
	kafka.RawQuery = url.Values{"prefix": {unique + "."}}.Encode()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	s := &system{
		T: t, ctx: ctx,
		old:    []string{"--data", data, "--namespace", unique},
		now:    []string{"--log", kafka.String(), "--registry", postgres, "--namespace", unique},
		unique: unique, start: time.Now(),
		route: []string{"file://" + data, kafka.String(), name, "--to-registry", postgres, "--namespace", unique},
	}
	if s.seen, err = os.OpenFile(filepath.Join(dir, "seen"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, s.seen.Close()) })
	if s.log, err = kafkalog.OpenURL(ctx, kafka, driver.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.clean)
	return s
}

func (s *system) clean() {
	list, err := s.log.Topics(context.Background())
	for _, c := range list {
		err = errors.Join(err, s.log.DeleteTopic(context.Background(), c.Name))
	}
	if err = errors.Join(err, s.log.Close()); err != nil {
		s.Errorf("clean up: %v", err)
	}
}

// begin starts a process that tell tells of.
func (s *system) begin(out *os.File, args ...string) *process {
	s.Helper()
	p := begin(s.T, out, args...)
	s.started = append(s.started, p)
	return p
}

func (s *system) mirror(args ...string) *process {
	s.Helper()
	return s.begin(nil, append(append([]string{"topic", "mirror"}, s.route...), args...)...)
}

func (s *system) consume(where []string) *process {
	s.Helper()
	return s.begin(s.seen, append([]string{"consume", name, "--group", "billing", "--print", "value"}, where...)...)
}

// await waits until something is so.
func (s *system) await(what string, so func() bool) {
	s.Helper()
	for !so() {
		select {
		case <-s.ctx.Done():
			s.Fatalf("waited for %s: %v\n%s", what, s.ctx.Err(), s.tell())
		case <-time.After(5 * time.Millisecond):
		}
	}
	s.Logf("%v after the start: %s", time.Since(s.start).Round(time.Millisecond), what)
}

// tell is how far all is, and what the processes said.
func (s *system) tell() string {
	var b strings.Builder
	fmt.Fprintf(&b, "consumers printed %d lines\n", s.lines())
	for _, where := range [][]string{s.old, s.now} {
		for _, args := range [][]string{{"topic", "describe", name}, {"group", "describe", name, "billing"}} {
			p := begin(s.T, nil, append(args, where...)...)
			<-p.done
			fmt.Fprintf(&b, "ringfence %s: %s%s\n", strings.Join(p.cmd.Args[1:], " "), p.stdout.String(), p.stderr.String())
		}
	}
	for _, p := range s.started {
		p.kill()
		fmt.Fprintf(&b, "ringfence %s: %v: %s\n", strings.Join(p.cmd.Args[1:], " "), p.cmd.ProcessState, p.stderr.String())
	}
	return b.String()
}

// copied is how many records a storage topic of the target has.
func (s *system) copied(storage int) int64 {
	s.Helper()
	all, err := s.log.Topics(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	i := slices.IndexFunc(all, func(c commitlog.TopicConfig) bool {
		return topic.IsStorage(c.Name, fmt.Sprintf("%s..%s..%d", s.unique, name, storage))
	})
	if i < 0 {
		return 0
	}
	t, err := s.log.Topic(s.ctx, all[i].Name)
	if err != nil {
		s.Fatal(err)
	}
	n := int64(0)
	for p := range t.Config().Partitions {
		b, err := t.Bounds(s.ctx, p)
		if err != nil {
			s.Fatal(err)
		}
		n += b.Next // Kafka's offsets of plain records have no gaps
	}
	if err := t.Close(); err != nil {
		s.Fatal(err)
	}
	return n
}

// caughtUp waits until the target has about all that is there now.
func (s *system) caughtUp(producers []*feeder) {
	s.Helper()
	want := int64(0)
	for _, p := range producers {
		want += p.fed.Load() - 8192 // what may be under way in a producer
	}
	s.await("the mirror", func() bool { return s.copied(0)+s.copied(1) >= want })
}

// lines is how many records consumers have printed.
func (s *system) lines() int64 {
	s.Helper()
	data, err := os.ReadFile(s.seen.Name())
	if err != nil {
		s.Fatal(err)
	}
	return int64(bytes.Count(data, []byte("\n")))
}

// check compares what consumers printed with what producers were fed.
func (s *system) check(producers []*feeder) {
	s.Helper()
	data, err := os.ReadFile(s.seen.Name())
	if err != nil {
		s.Fatal(err)
	}
	last := map[string]int64{}
	count := make([]int64, len(producers))
	for line := range strings.Lines(string(data)) {
		var p, k int
		var n int64
		if _, err := fmt.Sscanf(line, "p%d k%d %d\n", &p, &k, &n); err != nil {
			s.Fatalf("line %q: %v", line, err)
		}
		key := fmt.Sprint(p, k)
		if want := last[key] + feedKeys; last[key] != 0 && n != want || last[key] == 0 && n > feedKeys {
			s.Fatalf("producer %d, key %d: record %d came after %d", p, k, n, last[key])
		}
		last[key] = n
		count[p]++
	}
	for i, p := range producers {
		if count[i] != p.fed.Load() {
			s.Errorf("producer %d: %d records came of %d", i, count[i], p.fed.Load())
		}
	}
}

const feedKeys = 25

// feeder writes numbered lines to a producer process.
type feeder struct {
	s     *system
	id    int
	p     *process
	fed   atomic.Int64 // lines 1 to fed were written; known to be stored once it is done
	wg    sync.WaitGroup
	limit atomic.Int64 // the last line; 0: none
}

func (s *system) produce(id int) *feeder {
	f := &feeder{s: s, id: id}
	f.begin(s.old, 1)
	return f
}

func (f *feeder) begin(where []string, from int64) {
	f.p = f.s.begin(nil, append([]string{"produce", name, "--key-sep", ":"}, where...)...)
	f.fed.Store(from - 1)
	f.wg.Go(func() { // joined by resume and finish
		for n := from; ; n++ {
			if limit := f.limit.Load(); limit != 0 && n > limit {
				_ = f.p.stdin.Close() // the end of the input
				return
			}
			if n%50 == 0 { // some 5,000 a second
				select {
				case <-f.p.done:
					return
				case <-time.After(10 * time.Millisecond):
				}
			}
			if _, err := fmt.Fprintf(f.p.stdin, "p%d-%d:p%d k%d %d\n", f.id, n%feedKeys, f.id, n%feedKeys, n); err != nil {
				return // the producer is gone
			}
			f.fed.Store(n)
		}
	})
}

// notStored is what a refused producer says.
var notStored = regexp.MustCompile(`line (\d+) was not stored \([0-9,]+ lines? before it stored\): .*sealed`)

// resume goes on elsewhere, with the first line that a producer says it has not stored, for some more.
func (f *feeder) resume(where []string, more int64) {
	f.s.Helper()
	f.p.end(4)
	f.wg.Wait()
	m := notStored.FindStringSubmatch(f.p.stderr.String())
	if m == nil {
		f.s.Fatalf("the producer says: %s; expected %v", f.p.stderr.String(), notStored)
	}
	next, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		f.s.Fatal(err)
	}
	f.limit.Store(next + more)
	f.begin(where, next)
}

// finish waits until all lines are stored, and returns how many there are.
func (f *feeder) finish() int64 {
	f.s.Helper()
	f.p.end(0)
	f.wg.Wait()
	return f.fed.Load()
}
