package topic_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	registrydriver "github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/topic"
)

// world is one log and one registry with a topic "a" of three storage topics, of which two are sealed
// and empty, and groups that are past them.
type world struct {
	*testing.T
	logs    *memlog.Store
	regs    *memregistry.Store
	log     *commitlog.Log
	reg     *registry.Registry
	catalog *topic.Catalog
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := emptyWorld(t)
	w.fill(1 << 40)
	w.group("g", 8)
	w.group("h", 2) // of which no member has run since
	return w
}

func emptyWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, logs: memlog.NewStore(nil), regs: memregistry.NewStore()}
	w.log, w.reg = w.logs.Open(), w.regs.Open().Registry
	w.catalog = topic.NewCatalog(w.log, w.reg, "")
	t.Cleanup(func() { must(t, errors.Join(w.log.Close(), w.reg.Close())) })
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// fill makes the topic, with records that are dropped below an offset but for those of the last storage topic.
func (w *world) fill(below int64) {
	w.Helper()
	create(w.T, w.catalog, "a", topic.Config{Partitions: 2})
	tp := open(w.T, w.catalog, "a")
	for n, partitions := range []int{4, 2, 0} {
		for k := range 8 {
			_, err := tp.Produce(w.Context(), fmt.Appendf(nil, "k%d", k), topic.AnyPartition, []commitlog.Record{rec(k, n)}, nil)
			w.must(err)
		}
		if partitions > 0 {
			grow(w.T, w.catalog, "a", partitions)
			w.trim(n, below)
		}
	}
}

// trim drops the records of a storage topic below an offset.
func (w *world) trim(storage int, before int64) {
	w.Helper()
	doc, err := w.catalog.Get(w.Context(), "a")
	w.must(err)
	st, err := w.log.Topic(w.Context(), doc.Storage[storage].Name)
	w.must(err)
	for p := range doc.Storage[storage].Partitions {
		w.must(st.Trim(w.Context(), p, before))
	}
	w.must(st.Close())
}

// group makes a group of so many units that has finished the sealed ones of them.
func (w *world) group(name string, units int) *protocol.Group {
	w.Helper()
	g, err := protocol.NewGroup(w.reg, name)
	w.must(err)
	_, err = g.EnsureMeta(w.Context(), protocol.Meta{Topic: "a", Units: units, Assignor: "sticky"})
	w.must(err)
	doc, err := w.catalog.Get(w.Context(), "a")
	w.must(err)
	for n := range min(units, doc.Unit(doc.Produce, 0)) {
		storage, p, _ := doc.Partition(n)
		w.seek(g, n, doc.End(storage, p))
	}
	return g
}

func (w *world) seek(g *protocol.Group, unit int, next int64) {
	w.Helper()
	storage, p, _ := (&topic.Document{Storage: []topic.Storage{{Partitions: 2}, {Partitions: 4}, {Partitions: 2}}}).Partition(unit)
	w.must(g.Seek(w.Context(), unit, protocol.Checkpoint{Positions: []protocol.Position{{Storage: storage, Partition: p, Next: next}}}, "test"))
}

// retiredTopic checks that nothing is left of the sealed storage topics but their places.
func (w *world) retiredTopic() {
	w.Helper()
	doc, err := w.catalog.Get(w.Context(), "a")
	w.must(err)
	if doc.Left() != 2 || doc.Clearing() || len(doc.Storage) != 3 || doc.Units() != 8 {
		w.Errorf("definition %+v", doc)
	}
	all, err := w.log.Topics(w.Context())
	w.must(err)
	if len(all) != 1 || all[0].Name != doc.Storage[2].Name {
		w.Errorf("the log has %v", all)
	}
}

// retired is retiredTopic, and checks the groups.
func (w *world) retired() {
	w.Helper()
	w.retiredTopic()
	for _, name := range []string{"g", "h"} {
		g, err := protocol.NewGroup(w.reg, name)
		w.must(err)
		st, err := g.Load(w.Context(), true)
		w.must(err)
		if st.Meta == nil || st.Meta.First != 6 {
			w.Errorf("group %q: %+v", name, st.Meta)
			continue
		}
		for _, u := range st.Units[:6] {
			if u.OwnerVersion != "" || u.Checkpoint != nil {
				w.Errorf("group %q knows unit %d: %+v, %+v", name, u.Number, u.Owner, u.Checkpoint)
			}
		}
	}
}

func TestOnlyWhatCanDeliverNothingIsRetired(t *testing.T) {
	t.Parallel()
	group := func(w *world, name string) *protocol.Group {
		g, err := protocol.NewGroup(w.reg, name)
		w.must(err)
		return g
	}
	for want, prepare := range map[string]func(w *world){
		"": func(*world) {},
		"partition 0 keeps records from offset 1":                nil,
		`group "g" is at offset 0 of partition 1, which ends at`: func(w *world) { w.seek(group(w, "g"), 1, 0) },
		`group "other" has the layout "pairs", which is not known here`: func(w *world) {
			g, err := protocol.NewGroup(w.reg, "other")
			w.must(err)
			_, err = g.EnsureMeta(w.Context(), protocol.Meta{Topic: "a", Units: 4, Layout: "pairs"})
			w.must(err)
		},
		`group "late" can't be read`: func(w *world) {
			w.group("late", 8)
			_, err := w.reg.Txn(w.Context(), registry.Txn{Puts: []registry.Put{{Key: group(w, "late").MetaKey(), Value: []byte("{")}}})
			w.must(err)
		},
		`group "new" has begun with partition 0, on "m", and stored no checkpoint yet`: func(w *world) {
			g := group(w, "new")
			_, err := g.EnsureMeta(w.Context(), protocol.Meta{Topic: "a", Units: 8})
			w.must(err)
			owner := protocol.Owner{Member: "m", Incarnation: "i", Epoch: 1}
			_, err = w.reg.Txn(w.Context(), registry.Txn{Puts: []registry.Put{{Key: g.OwnerKey(0), Value: registry.Encode(owner)}}})
			w.must(err)
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			w := emptyWorld(t)
			if prepare == nil {
				w.fill(1)
			} else {
				w.fill(1 << 40)
				w.group("g", 8)
				w.group("h", 2)
				prepare(w)
			}
			plan, err := w.catalog.PlanRetirement(t.Context(), "a")
			w.must(err)
			doc, err := w.catalog.Get(t.Context(), "a")
			w.must(err)
			if doc.Left() > 0 {
				t.Fatalf("a plan has changed the topic: %+v", doc)
			}
			r, err := w.catalog.Retire(t.Context(), "a")
			w.must(err)
			if !slices.Equal(r.Retired, plan.Retired) || !slices.Equal(r.Kept, plan.Kept) {
				t.Errorf("planned was %+v, and done %+v", plan, r)
			}
			if want == "" {
				w.retired()
				return
			}
			if len(r.Retired) > 0 || len(r.Kept) != 2 || !strings.Contains(r.Kept[0].Why, want) {
				t.Errorf("%+v; expected %q", r, want)
			}
		})
	}
}

// A group that has neither a checkpoint nor an owner would begin at the end: it keeps nothing.
func TestAGroupThatHasNotBegunKeepsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g, err := protocol.NewGroup(w.reg, "new")
	w.must(err)
	_, err = g.EnsureMeta(t.Context(), protocol.Meta{Topic: "a", Units: 8})
	w.must(err)
	other, err := protocol.NewGroup(w.reg, "other")
	w.must(err)
	_, err = other.EnsureMeta(t.Context(), protocol.Meta{Topic: "b", Units: 2})
	w.must(err)
	_, err = w.catalog.Retire(t.Context(), "a")
	w.must(err)
	w.retired()
	if m, err := other.Meta(t.Context()); err != nil || m.First != 0 {
		t.Errorf("a group of another topic: %+v, %v", m, err)
	}
}

// dying is a process that is killed after so many writes to its stores.
type dying struct {
	left atomic.Int64
}

var errKilled = fmt.Errorf("killed: %w", fault.Closed)

func (d *dying) alive() bool { return d.left.Load() > 0 }

type dyingRegistry struct {
	registrydriver.Registry
	*dying
}

func (r dyingRegistry) Apply(ctx context.Context, txns []registry.Txn) ([]registry.Result, error) {
	if r.left.Add(-1) < 0 {
		return nil, errKilled
	}
	return r.Registry.Apply(ctx, txns)
}

func (r dyingRegistry) List(ctx context.Context, prefix string) (registry.Snapshot, error) {
	if !r.alive() {
		return registry.Snapshot{}, errKilled
	}
	return r.Registry.List(ctx, prefix)
}

type dyingLog struct {
	driver.Log
	*dying
}

func (l dyingLog) DeleteTopic(ctx context.Context, name string) error {
	if l.left.Add(-1) < 0 {
		return errKilled
	}
	return l.Log.DeleteTopic(ctx, name)
}

// Whoever dies over a retirement, at whatever point, leaves what the next one finishes, and groups that
// can go on.
func TestARetirementThatWasCutOffIsFinished(t *testing.T) {
	t.Parallel()
	for writes := int64(1); ; writes++ {
		w := newWorld(t)
		d := &dying{}
		d.left.Store(writes)
		reg := w.regs.Open().Registry
		c := topic.NewCatalog(commitlog.New(dyingLog{w.logs.Driver(), d}), registry.New(dyingRegistry{reg, d}), "")
		_, err := c.Retire(t.Context(), "a")
		w.must(reg.Close())
		if err != nil && !errors.Is(err, fault.Closed) {
			t.Fatal(err)
		}
		open(t, w.catalog, "a") // it can be used in between
		_, second := w.catalog.Retire(t.Context(), "a")
		w.must(second)
		w.retired()
		if err == nil {
			if writes < 12 {
				t.Errorf("only %d writes", writes)
			}
			return
		}
	}
}

// A process that uses the topic finishes a retirement that another one died over.
func TestAFollowerFinishesARetirement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := &dying{}
		d.left.Store(1)
		reg := w.regs.Open().Registry
		_, err := topic.NewCatalog(w.log, registry.New(dyingRegistry{reg, d}), "").Retire(t.Context(), "a")
		w.must(reg.Close())
		if !errors.Is(err, fault.Closed) {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		tp := open(t, w.catalog, "a")
		w.must(tp.Follow(ctx, slog.New(slog.DiscardHandler), func() {
			if doc := tp.Document(); doc.Left() == 1 && !doc.Clearing() {
				stop()
			}
		}))
		if tp.Document().Clearing() {
			t.Fatal("it was not finished")
		}
		_, err = w.catalog.Retire(t.Context(), "a")
		w.must(err)
		w.retired()
	})
}

// Who was stopped in the middle of a retirement finds another life of the topic, and changes nothing of it.
func TestARetirementOfAnEarlierLifeChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stalled := &stalledLog{Log: w.logs.Driver(), reached: make(chan struct{}), goOn: make(chan struct{})}
	stalled.what.Store("delete")
	slow := topic.NewCatalog(commitlog.New(stalled), w.reg, "")
	done := make(chan error, 1)
	go func() { // received below
		_, err := slow.Retire(t.Context(), "a")
		done <- err
	}()
	<-stalled.reached
	for _, name := range []string{"g", "h"} {
		g, err := protocol.NewGroup(w.reg, name)
		w.must(err)
		w.must(g.Delete(t.Context()))
	}
	w.must(w.catalog.Delete(t.Context(), "a", ""))
	w.fill(1 << 40)
	w.group("g", 8)
	close(stalled.goOn)
	if err := <-done; !errors.Is(err, topic.ErrAnotherLife) {
		t.Errorf("%v; expected that the life is over", err)
	}
	doc, err := w.catalog.Get(t.Context(), "a")
	w.must(err)
	g, err := protocol.NewGroup(w.reg, "g")
	w.must(err)
	st, err := g.Load(t.Context(), true)
	w.must(err)
	if doc.Left() != 0 || st.Meta.First != 0 || st.Units[0].Checkpoint == nil {
		t.Errorf("%+v, %+v", doc, st.Meta)
	}
}

// A process that slept since before the switch finds nothing where it sends, and goes on where the topic
// is by now; what it can't know it says.
func TestAProducerThatSleptThroughARetirementGoesOn(t *testing.T) {
	t.Parallel()
	for _, refreshed := range []bool{false, true} {
		t.Run(fmt.Sprint(refreshed), func(t *testing.T) {
			t.Parallel()
			w := emptyWorld(t)
			create(t, w.catalog, "a", topic.Config{Partitions: 2})
			hook := &closeHook{Log: w.logs.Driver(), closed: make(chan struct{}, 100)}
			sleepers := topic.NewCatalog(commitlog.New(hook), w.reg, "")
			tp, waiting, numbered := open(t, sleepers, "a"), open(t, sleepers, "a"), open(t, sleepers, "a")
			w.fill(1 << 40)
			_, err := w.catalog.Retire(t.Context(), "a")
			w.must(err)
			w.retiredTopic()
			if refreshed {
				for _, tp := range []*topic.Topic{tp, waiting, numbered} {
					w.must(tp.Refresh(t.Context()))
				}
			}
			at, err := tp.Produce(t.Context(), []byte("k0"), topic.AnyPartition, []commitlog.Record{rec(0, 3)}, nil)
			if err != nil || at.Storage != 2 {
				t.Errorf("%+v, %v; expected storage topic 2", at, err)
			}
			answers := make(chan topic.Position, 10)
			for n := range 10 {
				waiting.ProduceAsync(t.Context(), topic.AnyPartition, rec(0, 4+n), nil, func(at topic.Position, err error) {
					if err != nil {
						t.Error(err)
					}
					answers <- at
				})
			}
			last := int64(-1)
			for range 10 {
				if at := <-answers; at.Storage != 2 {
					t.Errorf("%+v; expected storage topic 2", at)
				} else {
					last = max(last, at.Offset)
				}
			}
			for range 2 {
				if at, err := sendNumbered(t, numbered, 0, sequence(0, 7, 0)); !errors.Is(err, fault.Forgotten) {
					t.Errorf("%+v, %v; expected that nobody knows", at, err)
				}
			}
			if got := values(t, tp)["k0"]; !slices.Equal(got, []int{2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}) {
				t.Errorf("the records of the key are %v", got)
			}
			if numbered.Gone() || tp.Gone() {
				t.Error("the topic is said to be gone")
			}
			for _, tp := range []*topic.Topic{tp, waiting, numbered} {
				w.must(tp.Refresh(t.Context()))
				if _, err := tp.Storage(0); !errors.Is(err, topic.ErrRetired) || !errors.Is(err, fault.OutOfRange) {
					t.Errorf("storage topic 0: %v", err)
				}
			}
			// What a generation sent to is closed when all of that was carried on.
			for limit := time.After(30 * time.Second); hook.open.Load() != 3; {
				select {
				case <-hook.closed:
				case <-limit:
					t.Fatalf("%d handles are open; expected one for each that has the topic open", hook.open.Load())
				}
			}
		})
	}
}

// closeHook counts the handles that are open.
type closeHook struct {
	driver.Log
	open   atomic.Int64
	closed chan struct{} // one for each handle
}

func (l *closeHook) OpenTopic(ctx context.Context, name string) (driver.Topic, error) {
	t, err := l.Log.OpenTopic(ctx, name)
	if err == nil {
		l.open.Add(1)
		t = &closeTopic{Topic: t, l: l}
	}
	return t, err
}

type closeTopic struct {
	driver.Topic
	l      *closeHook
	closed atomic.Bool
}

func (t *closeTopic) Close() error {
	if !t.closed.Swap(true) {
		t.l.open.Add(-1)
		t.l.closed <- struct{}{}
	}
	return t.Topic.Close()
}

// A topic that was deleted is not found, whoever slept through it, and not taken for one of which
// something was retired.
func TestADeletedTopicIsNotTakenForARetiredOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tp := open(t, w.catalog, "a")
	w.must(w.catalog.Delete(t.Context(), "a", ""))
	if _, err := tp.Produce(t.Context(), []byte("k"), topic.AnyPartition, []commitlog.Record{rec(0, 1)}, nil); !errors.Is(err, fault.NotFound) || !tp.Gone() {
		t.Errorf("%v; expected NotFound", err)
	}
	if _, err := sendNumbered(t, tp, 0, sequence(2, 7, 0)); !errors.Is(err, fault.NotFound) {
		t.Errorf("%v; expected NotFound", err)
	}
}
