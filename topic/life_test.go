package topic_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/topic"
)

// stalledLog is the log of a process that is stopped before its first call of one kind.
type stalledLog struct {
	driver.Log
	what    atomic.Value // "create", "open", "delete"; "": none any more
	reached chan struct{}
	goOn    chan struct{}
	made    func() // is called when a topic was made; nil: nothing is
}

func (l *stalledLog) stop(what string) {
	if l.what.CompareAndSwap(what, "") {
		close(l.reached)
		<-l.goOn
	}
}

func (l *stalledLog) CreateTopic(ctx context.Context, c driver.TopicConfig) error {
	l.stop("create")
	err := l.Log.CreateTopic(ctx, c)
	if l.made != nil {
		l.made()
	}
	return err
}

func (l *stalledLog) OpenTopic(ctx context.Context, name string) (driver.Topic, error) {
	l.stop("open")
	return l.Log.OpenTopic(ctx, name)
}

func (l *stalledLog) DeleteTopic(ctx context.Context, name string) error {
	l.stop("delete")
	return l.Log.DeleteTopic(ctx, name)
}

// lifeSetup is two processes with one log and one registry, of which slow is stopped once.
type lifeSetup struct {
	*testing.T
	slow, quick *topic.Catalog
	log         *commitlog.Log
	stalled     *stalledLog
}

func newLifeSetup(t *testing.T, what string) *lifeSetup {
	store, regs := memlog.NewStore(nil), memregistry.NewStore()
	s := &lifeSetup{T: t, log: store.Open(), stalled: &stalledLog{Log: store.Driver(), reached: make(chan struct{}), goOn: make(chan struct{})}}
	s.stalled.what.Store(what)
	a, b := regs.Open().Registry, regs.Open().Registry
	s.slow = topic.NewCatalog(commitlog.New(s.stalled), a, "")
	s.quick = topic.NewCatalog(s.log, b, "")
	t.Cleanup(func() { must(t, errors.Join(s.log.Close(), a.Close(), b.Close())) })
	return s
}

func (s *lifeSetup) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// stall begins a step and returns when it stopped; what it returns lets it go on, and is its error.
func (s *lifeSetup) stall(step func() error) func() error {
	done := make(chan error, 1)
	go func() { done <- step() }() // received by the caller of what is returned
	<-s.stalled.reached
	return func() error {
		close(s.stalled.goOn)
		return <-done
	}
}

// anew deletes the topic, makes it again and stores a record.
func (s *lifeSetup) anew() *topic.Topic {
	s.Helper()
	if err := s.quick.Delete(s.Context(), "a", ""); err != nil && !errors.Is(err, fault.NotFound) {
		s.Fatal(err)
	}
	s.must(s.quick.Create(s.Context(), "a", topic.Config{Partitions: 1}))
	tp := open(s.T, s.quick, "a")
	s.produce(tp, 1)
	return tp
}

func (s *lifeSetup) produce(tp *topic.Topic, n int) {
	s.Helper()
	_, err := tp.Produce(s.Context(), []byte("k0"), topic.AnyPartition, []commitlog.Record{rec(0, n)}, nil)
	s.must(err)
}

// check looks whether a life is whole, and the log holds nothing but it.
func (s *lifeSetup) check(tp *topic.Topic) {
	s.Helper()
	s.produce(tp, 2)
	if v := values(s.T, tp)["k0"]; len(v) != 2 {
		s.Errorf("records %v; expected 1 and 2", v)
	}
	doc, err := s.quick.Get(s.Context(), "a")
	s.must(err)
	all, err := s.log.Topics(s.Context())
	s.must(err)
	if len(all) != len(doc.Storage) || all[0].Name != doc.Storage[0].Name {
		s.Errorf("the log holds %v, the definition %v", all, doc.Storage)
	}
}

func TestADeleterOfAnEarlierLifeTakesNothing(t *testing.T) {
	t.Parallel()
	s := newLifeSetup(t, "delete")
	s.must(s.quick.Create(t.Context(), "a", topic.Config{Partitions: 1}))
	goOn := s.stall(func() error { return s.slow.Delete(context.WithoutCancel(t.Context()), "a", "") })
	tp := s.anew()
	if err := goOn(); err != nil {
		t.Errorf("the topic that it was to delete is gone: %v", err)
	}
	s.check(tp)
}

func TestASwitchOfAnEarlierLifeSealsNothing(t *testing.T) {
	t.Parallel()
	s := newLifeSetup(t, "open")
	s.must(s.quick.Create(t.Context(), "a", topic.Config{Partitions: 1}))
	_, err := s.quick.AddStorage(t.Context(), "a", 2)
	s.must(err)
	goOn := s.stall(func() error { _, err := s.slow.Switch(context.WithoutCancel(t.Context()), "a"); return err })
	tp := s.anew()
	if err := goOn(); !errors.Is(err, topic.ErrAnotherLife) {
		t.Errorf("the switch: %v; expected that it was another life", err)
	}
	s.check(tp)
}

// Its last step may also come when the next life has a storage topic to switch to.
func TestASwitchOfAnEarlierLifeSwitchesNothing(t *testing.T) {
	t.Parallel()
	s := newLifeSetup(t, "open")
	s.must(s.quick.Create(t.Context(), "a", topic.Config{Partitions: 1}))
	_, err := s.quick.AddStorage(t.Context(), "a", 2)
	s.must(err)
	goOn := s.stall(func() error { _, err := s.slow.Switch(context.WithoutCancel(t.Context()), "a"); return err })
	tp := s.anew()
	_, err = s.quick.AddStorage(t.Context(), "a", 2)
	s.must(err)
	if err := goOn(); !errors.Is(err, topic.ErrAnotherLife) {
		t.Errorf("the switch: %v; expected that it was another life", err)
	}
	if doc, err := s.quick.Get(t.Context(), "a"); err != nil || doc.Produce != 0 {
		t.Errorf("the definition: %+v, %v", doc, err)
	}
	s.check(tp)
}

func TestAnAdditionToAnEarlierLifeLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		s := newLifeSetup(t, "create")
		s.must(s.quick.Create(t.Context(), "a", topic.Config{Partitions: 1}))
		goOn := s.stall(func() error { _, err := s.slow.AddStorage(context.WithoutCancel(t.Context()), "a", 2); return err })
		s.must(s.quick.Delete(t.Context(), "a", ""))
		var tp *topic.Topic
		if again {
			tp = s.anew()
		}
		if err := goOn(); !errors.Is(err, fault.NotFound) {
			t.Errorf("the addition: %v; expected NotFound", err)
		}
		if !again {
			tp = s.anew()
		}
		s.check(tp)
		_, err := s.quick.AddStorage(t.Context(), "a", 4)
		s.must(err)
	}
}

func TestACreationOfAnEarlierLifeLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s := newLifeSetup(t, "create")
	goOn := s.stall(func() error {
		return s.slow.Create(context.WithoutCancel(t.Context()), "a", topic.Config{Partitions: 1})
	})
	tp := s.anew()
	if err := goOn(); err != nil {
		t.Errorf("a topic of this shape is there: %v", err)
	}
	s.check(tp)
}

// A deletion ends those who make a storage topic for what is deleted, also just when they have made it.
func TestWhoIsEndedByADeletionLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for _, adds := range []bool{false, true} {
		s := newLifeSetup(t, "create")
		ctx, end := context.WithCancel(t.Context())
		defer end()
		s.stalled.made = end
		step := func() error { return s.slow.Create(ctx, "a", topic.Config{Partitions: 1}) }
		if adds {
			s.must(s.quick.Create(t.Context(), "a", topic.Config{Partitions: 1}))
			step = func() error { _, err := s.slow.AddStorage(ctx, "a", 2); return err }
		}
		goOn := s.stall(step)
		s.must(s.quick.Delete(t.Context(), "a", ""))
		if err := goOn(); !errors.Is(err, context.Canceled) {
			t.Errorf("adds: %t, it ended with %v", adds, err)
		}
		left, err := s.log.Topics(t.Context())
		s.must(err)
		if len(left) > 0 {
			t.Errorf("adds: %t, there is %v", adds, left)
		}
	}
}

func TestAnOpenTopicSaysThatAnotherHasItsName(t *testing.T) {
	t.Parallel()
	s := newLifeSetup(t, "")
	s.must(s.quick.Create(t.Context(), "a", topic.Config{Partitions: 4}))
	tp := open(t, s.quick, "a")
	if tp.Gone() {
		t.Error("gone before it was deleted")
	}
	s.anew()
	if err := tp.Refresh(t.Context()); !errors.Is(err, topic.ErrAnotherLife) || !tp.Gone() {
		t.Errorf("refresh: %v, gone %v; expected that another topic has the name", err, tp.Gone())
	}
	if _, err := tp.Produce(t.Context(), []byte("k"), topic.AnyPartition, []commitlog.Record{rec(0, 9)}, nil); !errors.Is(err, fault.NotFound) {
		t.Errorf("produce: %v; expected NotFound", err)
	}
	if err := s.quick.Resume(t.Context(), "a", tp.Document().Life); !errors.Is(err, topic.ErrAnotherLife) {
		t.Errorf("resume: %v", err)
	}
	if err := s.quick.Delete(t.Context(), "a", tp.Document().Life); !errors.Is(err, topic.ErrAnotherLife) {
		t.Errorf("delete of the life that is over: %v", err)
	}
	if _, err := s.quick.Get(t.Context(), "a"); err != nil {
		t.Errorf("the life after it: %v", err)
	}
}
