package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/mirror"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/topic"
)

const name = "orders"

// world is a source with a topic, and an empty target. Offsets of the two have different gaps.
type world struct {
	testing.TB
	from, to mirror.Side
	source   *topic.Topic
	origin   *memlog.Store      // of the source
	home     *memregistry.Store // of the source
	store    *memlog.Store      // of the target
	shared   bool               // both sides have one registry
}

func newWorld(t testing.TB, partitions int) *world {
	w := &world{TB: t, origin: memlog.NewStore(&memlog.Options{Gaps: true}), home: memregistry.NewStore(), store: memlog.NewStore(nil)}
	w.from = mirror.Side{Log: w.origin.Open(), Registry: w.home.Open().Registry}
	w.to = mirror.Side{Log: w.store.Open(), Registry: memregistry.New()}
	c := topic.NewCatalog(w.from.Log, w.from.Registry, "")
	w.must(c.Create(t.Context(), name, topic.Config{Partitions: partitions}))
	var err error
	w.source, err = c.Open(t.Context(), name)
	w.must(err)
	t.Cleanup(func() {
		w.must(errors.Join(w.source.Close(), w.from.Log.Close(), w.to.Log.Close(), w.from.Registry.Close(), w.to.Registry.Close()))
	})
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// share gives both sides the registry of the source.
func (w *world) share() {
	w.must(w.to.Registry.Close())
	w.to.Registry, w.shared = w.from.Registry, true
}

func (w *world) mirror(once bool) *mirror.Mirror {
	w.Helper()
	m, err := mirror.New(mirror.Config{From: w.from, To: w.to, SameRegistry: w.shared, Topic: name, Once: once, BatchBytes: 200})
	w.must(err)
	return m
}

// produce appends n records with the values from..from+n-1 in batches of many sizes.
func (w *world) produce(from, n int) {
	w.Helper()
	for i := from; i < from+n; {
		key := fmt.Appendf(nil, "k%d", i%17)
		var recs []commitlog.Record
		for range 1 + i%3 {
			recs = append(recs, commitlog.Record{
				Timestamp: int64(1000 + i), Key: key, Value: fmt.Append(nil, i),
				Headers: []commitlog.Header{{Name: "n", Value: fmt.Append(nil, i)}},
			})
			i++
		}
		_, err := w.source.Produce(w.Context(), key, topic.AnyPartition, recs, nil)
		w.must(err)
	}
}

// storageName is what a storage topic is called on one side, also while only the mirror knows it there.
func (w *world) storageName(side mirror.Side, storage int) string {
	w.Helper()
	doc, err := topic.NewCatalog(w.from.Log, w.from.Registry, "").Get(w.Context(), name)
	w.must(err)
	life := doc.Life
	if side.Log != w.from.Log && !w.shared {
		life = topic.NextLife(life)
	}
	st := topic.StorageName("", name, life, storage)
	if w.shared && side.Log == w.to.Log {
		st = topic.MovedName(st)
	}
	return st
}

// contents are the records of all partitions of a log, without offsets.
func (w *world) contents(side mirror.Side, storage int) [][]commitlog.Record {
	w.Helper()
	t, err := side.Log.Topic(w.Context(), w.storageName(side, storage))
	w.must(err)
	all := make([][]commitlog.Record, t.Config().Partitions)
	for p := range all {
		b, err := t.Bounds(w.Context(), p)
		w.must(err)
		for at := b.First; at < b.Next; {
			all[p], at, err = t.Read(w.Context(), p, at, all[p], nil)
			w.must(err)
		}
	}
	return all
}

func plain(r commitlog.Record) string {
	r.Offset = 0
	return fmt.Sprint(r)
}

// wantSame compares the two sides record by record.
func (w *world) wantSame(storage int) {
	w.Helper()
	want, got := w.contents(w.from, storage), w.contents(w.to, storage)
	for p := range want {
		if !slices.EqualFunc(want[p], got[p], func(a, b commitlog.Record) bool { return plain(a) == plain(b) }) {
			w.Errorf("storage topic %d, partition %d: the target has %d records, the source %d, or others", storage, p, len(got[p]), len(want[p]))
		}
	}
}

func TestACopyHasEveryFieldAndOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	w.produce(0, 500)
	m := w.mirror(true)
	w.must(m.Run(t.Context()))
	w.wantSame(0)
	if p := m.Progress(); p.Records < 500 || p.Behind != 0 {
		t.Errorf("progress %+v after all was copied", p)
	}
	w.produce(500, 100)
	again := w.mirror(true)
	w.must(again.Run(t.Context()))
	w.wantSame(0)
	if p := again.Progress(); p.Records > 110 {
		t.Errorf("the second run copied %d records; only 100 were new", p.Records)
	}
}

// copied waits until a running mirror has copied so many records.
func copied(t *testing.T, m *mirror.Mirror, n int, ended <-chan error) {
	t.Helper()
	for m.Progress().Records < int64(n) {
		select {
		case err := <-ended:
			t.Fatalf("the mirror ended: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
}

func TestItFollowsTheSourceOverNewStorageTopics(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	m := w.mirror(false)
	go func() { done <- m.Run(ctx) }()
	w.produce(0, 50)
	c := topic.NewCatalog(w.from.Log, w.from.Registry, "")
	_, err := c.AddStorage(t.Context(), name, 4)
	w.must(err)
	_, err = c.Switch(t.Context(), name)
	w.must(err)
	err = w.source.Refresh(t.Context())
	w.must(err)
	w.produce(100, 50)
	total := 0
	for i := range 2 {
		for _, recs := range w.contents(w.from, i) {
			total += len(recs)
		}
	}
	copied(t, m, total, done)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the mirror ended with %v", err)
	}
	w.wantSame(0)
	w.wantSame(1)
}

// flaky is a log whose appends fail now and then, before or after they were done, and which ends
// the process that appends now and then.
type flaky struct {
	driver.Log
	crash func()
	left  *atomic.Int64 // faults to come
}

func (l flaky) OpenTopic(ctx context.Context, name string) (driver.Topic, error) {
	t, err := l.Log.OpenTopic(ctx, name)
	return flakyTopic{t, l}, err
}

type flakyTopic struct {
	driver.Topic
	l flaky
}

func (t flakyTopic) Append(ctx context.Context, req *driver.AppendRequest, done func(int64, error)) {
	fate := rand.IntN(12)
	if t.l.left.Add(-1) < 0 {
		fate = 11
	}
	switch fate {
	case 0:
		done(0, fmt.Errorf("lost before: %w", fault.NotDone))
	case 1:
		t.Topic.Append(ctx, req, func(int64, error) { done(0, fmt.Errorf("lost after: %w", fault.Unknown)) })
	case 2:
		t.l.crash()
		done(0, fmt.Errorf("crash: %w", fault.Unknown))
	case 3:
		t.Topic.Append(ctx, req, func(int64, error) {
			t.l.crash()
			done(0, fmt.Errorf("crash: %w", fault.Unknown))
		})
	default:
		t.Topic.Append(ctx, req, done)
	}
}

// The mirror is killed at random moments and goes on each time: nothing is lost, nothing is twice.
func TestCrashesAndLostAnswersLeaveOneCopyOfEachRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.produce(0, 600)
	var left atomic.Int64
	left.Store(120)
	clean := w.to
	for round := 0; ; round++ {
		ctx, cancel := context.WithCancel(t.Context())
		w.to = clean
		w.to.Log = commitlog.New(flaky{w.store.Driver(), cancel, &left})
		err := w.mirror(true).Run(ctx)
		cancel()
		w.must(w.to.Log.Close())
		w.to = clean
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		w.produce(1000*round+1000, 20)
	}
	w.must(w.mirror(true).Run(t.Context()))
	w.wantSame(0)
}

// A mirror that was stopped and wakes after another took over is refused by the registry or by the log.
func TestASecondMirrorFencesTheFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	first := make(chan error, 1)
	m := w.mirror(false)
	go func() { first <- m.Run(t.Context()) }()
	w.produce(0, 20)
	copied(t, m, 20, first)
	w.must(w.mirror(true).Run(t.Context()))
	w.produce(100, 20)
	if err := <-first; !errors.Is(err, fault.Conflict) && !errors.Is(err, fault.Fenced) {
		t.Errorf("the first mirror ended with %v", err)
	}
	w.must(w.mirror(true).Run(t.Context()))
	w.wantSame(0)
}

func TestATargetOfAnotherShapeIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.must(topic.NewCatalog(w.to.Log, w.to.Registry, "").Create(t.Context(), name, topic.Config{Partitions: 3}))
	if err := w.mirror(true).Run(t.Context()); !errors.Is(err, fault.Exists) {
		t.Errorf("a target with another number of partitions: %v", err)
	}
	if _, err := mirror.New(mirror.Config{Topic: "../x"}); !errors.Is(err, fault.Invalid) {
		t.Errorf("a bad configuration: %v", err)
	}
	missing, err := mirror.New(mirror.Config{From: w.to, To: w.from, Topic: "missing"})
	w.must(err)
	if err := missing.Run(t.Context()); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("a topic that is not there: %v", err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
