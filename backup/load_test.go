package backup_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/backup"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/history"
	"github.com/ringfence/ringfence/registry/fileregistry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// life is the processes on one directory, and what they did.
type life struct {
	t   *testing.T
	dir string
	rf  *ringfence.Client
	wg  sync.WaitGroup

	mu     sync.Mutex
	events []history.Event
	taken  []history.Arrival
	acked  map[string]int // of each key of the subscription's topic
	tried  map[string]bool
	cured  bool
}

func (l *life) tell(e history.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.At = history.Now()
	l.events = append(l.events, e)
}

func (l *life) count(kind history.Kind) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.events {
		if l.events[i].Kind == kind {
			n++
		}
	}
	return n
}

func (l *life) until(what string, done func() bool) {
	l.t.Helper()
	for limit := time.After(2 * time.Minute); !done(); {
		select {
		case <-limit:
			l.t.Fatalf("not within two minutes: %s", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

const events = "events" // the topic of the subscription

// begin opens a directory and consumes what is there.
func begin(ctx context.Context, t *testing.T, dir string) *life {
	l := &life{t: t, dir: dir, acked: map[string]int{}, tried: map[string]bool{}}
	var err error
	l.rf, err = ringfence.Open(ctx, ringfence.Config{Log: "file:" + dir + "?segment=65536", Registry: "file:" + dir})
	must(t, err)
	must(t, l.rf.EnsureTopic(ctx, "orders", ringfence.TopicConfig{Partitions: 3, RetentionBytes: 128 << 10}))
	must(t, l.rf.EnsureTopic(ctx, events, ringfence.TopicConfig{Partitions: 2}))
	_, err = l.rf.Admin().CreateSubscription(ctx, "sub", admin.SubscriptionConfig{
		Topic: events, Hold: -1, Retry: admin.Retry{Initial: 5 * time.Millisecond, Max: 10 * time.Millisecond, Attempts: 1000},
	})
	must(t, err)
	for _, name := range []string{"a", "b"} {
		log, err := filelog.Open(ctx, filelog.Config{Dir: dir, SegmentBytes: filelog.MinSegmentBytes})
		must(t, err)
		reg, err := fileregistry.Open(ctx, fileregistry.Config{Dir: dir})
		must(t, err)
		l.run(ctx, func() error {
			return harness.RunMember(ctx, harness.MemberConfig{Name: name, Topic: "orders", Group: "g", TTL: 10 * time.Second, Tell: l.tell, Log: log, Store: reg})
		})
	}
	l.run(ctx, func() error {
		return l.rf.Subscribe(ctx, "sub", l.deliver, &ringfence.SubscribeOptions{SessionTTL: 10 * time.Second})
	})
	return l
}

// run joins f with the life.
func (l *life) run(ctx context.Context, f func() error) {
	l.wg.Go(func() {
		if err := f(); err != nil && ctx.Err() == nil {
			l.t.Error(err)
		}
	})
}

// deliver refuses each seventh record once, and the poison until it is cured.
func (l *life) deliver(_ context.Context, m *ringfence.Message) error {
	key, text, _ := strings.Cut(string(m.Value), ":")
	n, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if key == "poison" && !l.cured {
		return ringfence.Permanent(errors.New("poison"))
	}
	if n%7 == 3 && !l.tried[string(m.Value)] {
		l.tried[string(m.Value)] = true
		return errors.New("not at once")
	}
	l.taken = append(l.taken, history.Arrival{Key: key, Number: n, Place: fmt.Sprint(m.Storage, "/", m.Partition, "/", m.Offset)})
	return nil
}

// produce appends to both topics until stop is closed, each key from one goroutine.
func (l *life) produce(ctx context.Context, name string, stop <-chan struct{}) {
	for i := range 3 {
		l.run(ctx, func() error {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return nil
				default:
				}
				m := ringfence.Message{Key: fmt.Appendf(nil, "%s-%d-%d", name, i, n%5), Value: fmt.Appendf(nil, "%d %s", n, strings.Repeat("x", 400))}
				e := history.Event{Kind: history.Produced, Key: history.Key(m.Key), Value: harness.Fingerprint(m.Key, m.Value)}
				at, err := l.rf.Produce(ctx, "orders", m)
				if err != nil {
					return err
				}
				e.Storage, e.Partition, e.Offset = at.Storage, at.Partition, at.Offset
				l.tell(e)
				key := fmt.Sprintf("%s-%d", name, i)
				if _, err := l.rf.Produce(ctx, events, ringfence.Message{Key: []byte(key), Value: fmt.Appendf(nil, "%s:%d", key, n)}); err != nil {
					return err
				}
				l.mu.Lock()
				l.acked[key]++
				l.mu.Unlock()
			}
		})
	}
}

// TestABackupUnderLoadLosesNothing backs up a directory while it is produced to, consumed, delivered, trimmed and
// grown, goes on there, restores the backup elsewhere, and goes on with that. The judges see the first life up to
// the backup, a store that went back, and the second life.
func TestABackupUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	dir, again := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "again")
	ctx, end := context.WithCancel(t.Context())
	defer end()
	first := begin(ctx, t, dir)
	_, err := first.rf.Produce(ctx, events, ringfence.Message{Key: []byte("poison"), Value: []byte("poison:0")})
	must(t, err)
	stop := make(chan struct{})
	first.produce(ctx, "first", stop)
	first.until("enough is consumed for retention to drop segments", func() bool {
		d, err := first.rf.Admin().DescribeTopic(ctx, "orders")
		must(t, err)
		return first.count(history.Finished) > 1500 && d.Storage[0].Partitions[0].First > 0
	})

	began, sent := history.Now(), first.sent()
	var done atomic.Bool
	first.run(ctx, func() error {
		_, err := first.rf.Admin().AddStorage(ctx, "orders", 6)
		if err == nil {
			_, err = first.rf.Admin().SwitchProduce(ctx, "orders")
		}
		done.Store(true)
		return err
	})
	var files []string
	for !done.Load() || len(files) == 0 { // some of them in the middle of the growth
		files = append(files, filepath.Join(t.TempDir(), "b.tar.zst"))
		_, err := backup.Save(ctx, backup.Source{Log: dir, Registry: dir}, files[len(files)-1], nil)
		must(t, err)
	}
	more := first.count(history.Produced)
	first.until("it goes on", func() bool { return first.count(history.Produced) > more+100 })
	close(stop)
	end()
	first.wg.Wait()
	must(t, first.rf.Close())
	all := first.sent()

	restored, err := backup.Restore(t.Context(), files[len(files)/2], again, nil)
	must(t, err)
	if restored.Topics != 2 || restored.Subscriptions != 1 || restored.Records == 0 || len(restored.Damage) > 0 {
		t.Errorf("restored %+v", *restored)
	}
	inspected, err := filelog.Inspect(t.Context(), filelog.Config{Dir: again}, nil)
	must(t, err)
	if inspected.Damaged() {
		t.Errorf("the restored log is damaged: %+v", inspected.Topics)
	}
	back := rollback(t, again)

	ctx, end = context.WithCancel(t.Context())
	defer end()
	second := begin(ctx, t, again)
	second.cured = true
	stop = make(chan struct{})
	second.produce(ctx, "second", stop)
	second.until("the second life goes on", func() bool { return second.count(history.Produced) > 300 })
	close(stop)
	ends := second.ends(ctx)
	second.until("all is consumed and delivered", func() bool {
		lag, err := second.rf.Admin().DescribeGroup(ctx, "g")
		must(t, err)
		backlog, err := second.rf.Admin().CountBacklog(ctx, "sub")
		must(t, err)
		if dead, err := second.rf.Admin().ListDeadLetters(ctx, "sub", nil); err == nil && len(dead) > 0 {
			_, err := second.rf.Admin().RedriveDeadLetters(ctx, "sub", nil)
			must(t, err)
		}
		return lag.Lag == 0 && backlog.Parked.Records == 0 && backlog.Dead.Records == 0 && second.took(second.sent(), map[string]int{"poison": 1})
	})
	end()
	second.wg.Wait()
	must(t, second.rf.Close())
	judged := joined(t, first, second, back, began, ends)
	c := history.New(history.Config{})
	for _, e := range judged {
		c.Add(e)
	}
	if r := c.Finish(true); len(r.Violations) > 0 || r.Produced == 0 || r.Rollbacks == 0 {
		t.Errorf("the judge of the group: %+v", r)
	}

	a := history.Arrivals{Sent: sent, Unsure: map[string]int{}, Taken: append(first.taken, second.taken...)}
	for key, n := range all {
		a.Unsure[key] = n - sent[key] + 1 // what was sent since the backup began may be there
	}
	for key, n := range second.sent() {
		a.Sent[key] = n
	}
	a.Sent["poison"] = 1
	if r := a.Judge(); len(r.Violations) > 0 {
		t.Errorf("the judge of the subscription: %+v", r)
	}
}

func (l *life) sent() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.acked)
}

// took tells whether all of these were taken.
func (l *life) took(all ...map[string]int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	came := map[string]map[int]bool{}
	for _, a := range l.taken {
		if came[a.Key] == nil {
			came[a.Key] = map[int]bool{}
		}
		came[a.Key][a.Number] = true
	}
	for _, sent := range all {
		for key, n := range sent {
			if len(came[key]) < n {
				return false
			}
		}
	}
	return true
}

type place struct{ storage, partition int }

// ends are where the topic of the group ends.
func (l *life) ends(ctx context.Context) map[place]int64 {
	d, err := l.rf.Admin().DescribeTopic(ctx, "orders")
	must(l.t, err)
	out := map[place]int64{}
	for _, s := range d.Storage {
		for _, p := range s.Partitions {
			out[place{s.Index, p.Partition}] = p.Next
		}
	}
	return out
}

// rollback tells where each unit stands in a restored directory.
func rollback(t *testing.T, dir string) (out []history.Event) {
	reg, err := fileregistry.Open(t.Context(), fileregistry.Config{Dir: dir})
	must(t, err)
	defer reg.Close()
	g, err := protocol.NewGroup(reg, "g")
	must(t, err)
	st, err := g.Load(t.Context(), true)
	must(t, err)
	for _, u := range st.Units {
		e := history.Event{Kind: history.Rollback, Unit: u.Number, Epoch: u.Owner.Epoch, Positions: []protocol.Position{{Partition: u.Number}}}
		if u.Number >= 3 {
			e.Positions[0] = protocol.Position{Storage: 1, Partition: u.Number - 3}
		}
		if u.Checkpoint != nil {
			e.Positions = u.Checkpoint.Positions
		}
		out = append(out, e)
	}
	return out
}

// joined is one history of both lives: of the first one what concerns records that were restored.
func joined(t *testing.T, first, second *life, back []history.Event, began int64, ends map[place]int64) []history.Event {
	// The second life appends behind what was restored.
	second.mu.Lock()
	defer second.mu.Unlock()
	from := maps.Clone(ends)
	for _, e := range second.events {
		if at := (place{e.Storage, e.Partition}); e.Kind == history.Produced {
			from[at] = min(from[at], e.Offset)
		}
	}
	var out []history.Event
	for _, e := range first.events {
		at := place{e.Storage, e.Partition}
		switch e.Kind {
		case history.Produced, history.Started, history.Finished, history.Failed:
			if e.Offset < from[at] {
				break
			}
			if e.Kind == history.Produced && e.At < began {
				t.Errorf("acknowledged before the backup began, and not in it: %v", e)
			}
			continue
		case history.Committed, history.Owned:
			e.Positions = clipped(e.Positions, from)
		}
		out = append(out, e)
	}
	last := out[len(out)-1].At
	for _, e := range back {
		e.At = last
		out = append(out, e)
	}
	return append(out, second.events...)
}

// clipped are positions without what lies behind the ends.
func clipped(positions []protocol.Position, ends map[place]int64) []protocol.Position {
	out := slices.Clone(positions)
	for i := range out {
		p := &out[i]
		end := ends[place{p.Storage, p.Partition}]
		p.Next, p.Failing = min(p.Next, end), nil
		var done []protocol.Range
		for _, r := range p.Done {
			if r[0] < end {
				done = append(done, protocol.Range{r[0], min(r[1], end)})
			}
		}
		p.Done = done
	}
	return out
}
