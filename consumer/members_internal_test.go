package consumer

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/group/protocol/protocoltest"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testlog"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/topic"
)

// watchedLog counts the holds and the copies of checkpoints that it is told.
type watchedLog struct {
	driver.Log
	holds   int
	copies  int
	refused error
	full    atomic.Bool // no hold can be stored
	damaged bool        // one of the holds can't be read
	looked  func()      // called once the holds were read
}

func (l *watchedLog) PublishOffsets(_ context.Context, _ string, at []driver.PublishedOffset) error {
	if l.refused == nil {
		l.copies += len(at)
	}
	return l.refused
}

type watchedTopic struct {
	driver.Topic
	log *watchedLog
}

func (l *watchedLog) OpenTopic(ctx context.Context, name string) (driver.Topic, error) {
	t, err := l.Log.OpenTopic(ctx, name)
	return watchedTopic{t, l}, err
}

func (t watchedTopic) Hold(ctx context.Context, name string, offsets []int64) error {
	if t.log.full.Load() {
		return fault.Unavailable
	}
	t.log.holds++
	return t.Topic.Hold(ctx, name, offsets)
}

func (t watchedTopic) Holds(ctx context.Context) (map[string][]int64, error) {
	holds, err := t.Topic.Holds(ctx)
	if f := t.log.looked; f != nil {
		t.log.looked = nil
		f()
	}
	if t.log.damaged {
		err = errors.Join(err, fault.Corrupt)
	}
	return holds, err
}

func watched(t *testing.T, c topic.Config) (*watchedLog, *commitlog.Log, *registry.Registry, *protocol.Group, *topic.Topic) {
	t.Helper()
	w := &watchedLog{Log: memlog.NewStore(nil).Driver()}
	log, reg := commitlog.New(w), memregistry.New()
	catalog := topic.NewCatalog(log, reg, "test")
	if err := catalog.Create(t.Context(), "orders", c); err != nil {
		t.Fatal(err)
	}
	top, err := catalog.Open(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(top.Close(), reg.Close()) })
	g, err := protocol.NewGroup(reg, "g")
	if err != nil {
		t.Fatal(err)
	}
	return w, log, reg, g, top
}

func TestAHoldIsStoredWhenItChanges(t *testing.T) {
	t.Parallel()
	log, _, _, g, top := watched(t, topic.Config{Partitions: 2, RetentionBytes: 1})
	h := NewHold(g, top, slog.Default())
	for i, step := range []struct {
		first bool
		want  int
	}{{true, 1}, {true, 1}, {false, 2}, {false, 2}} { // without first the group, which is missing, needs nothing
		if err := h.store(t.Context(), step.first); err != nil {
			t.Fatal(err)
		}
		if log.holds != step.want {
			t.Errorf("after step %d the log was told %d holds; want %d", i, log.holds, step.want)
		}
	}
	h.told[0] = told{offsets: h.told[0].offsets} // long ago
	if err := h.store(t.Context(), false); err != nil || log.holds != 3 {
		t.Errorf("long after, the log was told %d holds, %v; want 3", log.holds, err)
	}
	h.End(t.Context())
	if log.holds != 4 {
		t.Errorf("at the end the log was told %d holds; want 4", log.holds)
	}
}

// A retention may come at any time, and what it drops is gone before a member hears of it.
func TestAHoldThatCouldNotBeStoredIsTriedAgainThoughNothingIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, _, _, g, top := watched(t, topic.Config{Partitions: 2})
		if _, err := g.EnsureMeta(t.Context(), protocol.Meta{Topic: "orders", Units: 2}); err != nil {
			t.Fatal(err)
		}
		h := NewHold(g, top, slog.New(slog.DiscardHandler))
		log.full.Store(true)
		h.Begin(t.Context())
		log.full.Store(false)
		ctx, cancel := context.WithTimeout(t.Context(), 10*holdAgain)
		defer cancel()
		h.Run(ctx)
		if log.holds != 1 {
			t.Errorf("the log was told %d holds; want the one that it has not got yet", log.holds)
		}
	})
}

// A member whose hold can't be stored reads nothing, says so once, and goes on when it can.
func TestAMemberWaitsUntilItsHoldIsStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, portable, reg, _, top := watched(t, topic.Config{Partitions: 1})
		if _, err := top.Produce(t.Context(), nil, topic.AnyPartition, []commitlog.Record{{Value: []byte("v")}}, nil); err != nil {
			t.Fatal(err)
		}
		log.full.Store(true)
		var out testlog.Buffer
		handles := topic.NewHandles(topic.NewCatalog(portable, reg, "test"))
		groups := &Groups{Registry: reg, Sessions: protocol.NewSessions(reg), Log: portable, Topics: handles, Logger: out.Logger()}
		ctx, stop := context.WithCancel(t.Context())
		handled, done := make(chan struct{}, 1), make(chan error, 1)
		go func() { // joined below
			done <- groups.Consume(ctx, Member{Topic: "orders", Group: group.Config{Group: "g"}, Handlers: func(string, *protocol.Group, *group.Unit) dispatch.Handler {
				return func(context.Context, *dispatch.Record) error { handled <- struct{}{}; return nil }
			}})
		}()
		select {
		case <-handled:
			t.Error("a record was handled, and retention did not know of the group")
		case <-time.After(time.Minute):
		}
		log.full.Store(false)
		<-handled
		stop()
		if err := errors.Join(<-done, handles.Close()); err != nil {
			t.Error(err)
		}
		if n := strings.Count(out.String(), "the retention hold can't be stored"); n != 1 {
			t.Errorf("it was told %d times:\n%s", n, out.String())
		}
	})
}

// A damaged hold may be that of any group: none waits for it, and one of which nothing else is known holds all.
func TestADamagedHoldStopsNoGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, _, _, g, top := watched(t, topic.Config{Partitions: 1})
		log.damaged = true
		for range 3 {
			if _, err := top.Produce(t.Context(), nil, topic.AnyPartition, []commitlog.Record{{Value: []byte("v")}}, nil); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			h := NewHold(g, top, slog.New(slog.DiscardHandler))
			h.member, h.latest = true, true
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := h.Require(ctx); err != nil {
				t.Fatalf("the member did not begin: %v", err)
			}
			if held, err := HeldBy(t.Context(), top, "g"); err != nil || held.at(0, 0) != 0 {
				t.Errorf("the group holds %v, %v; expected all", held, err)
			}
		}
	})
}

// Of two members that make a group from the latest record, one has begun when the other, which knows a later end,
// stores its hold: that does not stay above the start.
func TestAHoldOfASecondNewMemberIsNotAboveTheStart(t *testing.T) {
	t.Parallel()
	log, _, reg, g, top := watched(t, topic.Config{Partitions: 1})
	put := func(n int) {
		for range n {
			if _, err := top.Produce(t.Context(), nil, topic.AnyPartition, []commitlog.Record{{Value: []byte("v")}}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(5)
	if _, err := g.EnsureMeta(t.Context(), protocol.Meta{Topic: "orders", Units: 1}); err != nil {
		t.Fatal(err)
	}
	session, err := reg.OpenSession(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	log.looked = func() {
		first := NewHold(g, top, slog.New(slog.DiscardHandler))
		first.member, first.latest = true, true
		if err := first.Require(t.Context()); err != nil {
			t.Fatal(err)
		}
		m, err := protocoltest.Join(t.Context(), g, session, protocol.Member{ID: "m", Incarnation: "i"})
		if err != nil {
			t.Fatal(err)
		}
		grant, err := m.Claim(t.Context(), 0, "test")
		if err == nil {
			err = m.Commit(t.Context(), grant, 5)
		}
		if err != nil {
			t.Fatal(err)
		}
		put(5)
	}
	second := NewHold(g, top, slog.New(slog.DiscardHandler))
	second.member, second.latest = true, true
	if err := second.Require(t.Context()); err != nil {
		t.Fatal(err)
	}
	if held, err := HeldBy(t.Context(), top, "g"); err != nil || held.at(0, 0) != 5 {
		t.Errorf("the group holds %v, %v; it has begun at offset 5", held, err)
	}
}

func TestCopiesOfCheckpointsThatFailAreLoggedOnce(t *testing.T) {
	t.Parallel()
	log, portable, reg, g, top := watched(t, topic.Config{Partitions: 2, RetentionBytes: 1})
	var out testlog.Buffer
	m := offsetPublisher{log: portable, group: g, topic: top, member: "m", logger: out.Logger()}
	if _, err := g.EnsureMeta(t.Context(), protocol.Meta{Topic: "orders", Units: 2}); err != nil {
		t.Fatal(err)
	}
	session, err := reg.OpenSession(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	m1, err := protocoltest.Join(t.Context(), g, session, protocol.Member{ID: "m", Incarnation: "i"})
	if err != nil {
		t.Fatal(err)
	}
	grant, err := m1.Claim(t.Context(), 0, "test")
	if err == nil {
		err = m1.Commit(t.Context(), grant, 3)
	}
	if err != nil {
		t.Fatal(err)
	}
	copied, failing := map[partitionID]int64{}, false
	for i, step := range []struct {
		refused error
		copies  int
		logged  string // so far
	}{
		{nil, 1, ""}, {nil, 1, ""},
		{errors.New("taken"), 1, "WARN"}, {errors.New("taken"), 1, "WARN"},
		{nil, 2, "WARN INFO"}, {nil, 2, "WARN INFO"},
		{errors.New("taken"), 2, "WARN INFO WARN"},
	} {
		if step.refused != nil {
			clear(copied) // there is something to copy
		}
		log.refused = step.refused
		failing = m.turn(t.Context(), copied, failing)
		var logged []string
		for line := range strings.Lines(out.String()) {
			_, rest, _ := strings.Cut(line, "level=")
			level, _, _ := strings.Cut(rest, " ")
			logged = append(logged, level)
		}
		if got := strings.Join(logged, " "); log.copies != step.copies || got != step.logged {
			t.Errorf("after step %d: %d copies, logged %q; want %d, %q", i, log.copies, got, step.copies, step.logged)
		}
	}
}

// A hold keeps records for a group that the registry may have forgotten. Force ends it.
func TestAGroupOfWhichOnlyTheHoldIsLeftIsDeletedByForce(t *testing.T) {
	t.Parallel()
	_, portable, reg, _, top := watched(t, topic.Config{Partitions: 1})
	if err := holdAt(t.Context(), top, 0, "gone", []int64{0}); err != nil {
		t.Fatal(err)
	}
	handles := topic.NewHandles(topic.NewCatalog(portable, reg, "test"))
	groups := &Groups{Registry: reg, Log: portable, Topics: handles, Logger: slog.New(slog.DiscardHandler)}
	if err := groups.Delete(t.Context(), "gone", false); !errors.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "--force") {
		t.Errorf("%v; expected NotFound, and how the hold is ended", err)
	}
	if held, err := HeldBy(t.Context(), top, "gone"); err != nil || !held.known() {
		t.Errorf("without force the group holds %v, %v", held, err)
	}
	if err := groups.Destroy(t.Context(), "gone"); err != nil {
		t.Error(err)
	}
	if held, err := HeldBy(t.Context(), top, "gone"); err != nil || held.known() {
		t.Errorf("after its deletion the group holds %v, %v", held, err)
	}
	if err := groups.Destroy(t.Context(), "gone"); !errors.Is(err, fault.NotFound) {
		t.Errorf("the second time: %v; expected NotFound", err)
	}
	if err := handles.Close(); err != nil {
		t.Error(err)
	}
}
