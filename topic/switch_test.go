package topic_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/topic"
)

// rec is a record of a key with a number as its value.
func rec(key, n int) commitlog.Record {
	return commitlog.Record{Key: fmt.Appendf(nil, "k%d", key), Value: strconv.AppendInt(nil, int64(n), 10)}
}

// values reads the values of each key in the order of storage topics and offsets.
func values(t *testing.T, tp *topic.Topic) map[string][]int {
	t.Helper()
	all := map[string][]int{}
	for i, s := range tp.Document().Storage {
		st, err := tp.Storage(i)
		if errors.Is(err, topic.ErrRetired) {
			continue
		}
		must(t, err)
		for p := range s.Partitions {
			var recs []commitlog.Record
			for next, before := int64(0), int64(-1); next != before; {
				before = next
				if recs, next, err = st.Read(t.Context(), p, next, recs, nil); err != nil {
					t.Fatal(err)
				}
			}
			for _, r := range recs {
				n, err := strconv.Atoi(string(r.Value))
				must(t, err)
				all[string(r.Key)] = append(all[string(r.Key)], n)
			}
		}
	}
	return all
}

func grow(t *testing.T, c *topic.Catalog, name string, partitions int) {
	t.Helper()
	_, err := c.AddStorage(t.Context(), name, partitions)
	must(t, err)
	_, err = c.Switch(t.Context(), name)
	must(t, err)
}

func open(t *testing.T, c *topic.Catalog, name string) *topic.Topic {
	t.Helper()
	tp, err := c.Open(t.Context(), name)
	must(t, err)
	t.Cleanup(func() { must(t, tp.Close()) })
	return tp
}

func create(t *testing.T, c *topic.Catalog, name string, cfg topic.Config) {
	t.Helper()
	must(t, c.Create(t.Context(), name, cfg))
}

// producer sends numbers to its keys until it is told to stop, some blocking, most not.
type producer struct {
	topic *topic.Topic
	keys  []int
	sent  int // of each key
	acked chan<- struct{}
}

func (p *producer) run(ctx context.Context, t *testing.T, stop <-chan struct{}) {
	var acks sync.WaitGroup
	window := make(chan struct{}, 256)
	for ; ; p.sent++ {
		select {
		case <-stop:
			acks.Wait()
			return
		default:
		}
		for _, k := range p.keys {
			r := rec(k, p.sent)
			if p.sent%50 == 49 {
				if _, err := p.topic.Produce(ctx, r.Key, topic.AnyPartition, []commitlog.Record{r}, nil); err != nil {
					t.Error(err)
					return
				}
				continue
			}
			window <- struct{}{}
			acks.Add(1)
			p.topic.ProduceAsync(ctx, topic.AnyPartition, r, nil, func(_ topic.Position, err error) {
				if err != nil {
					t.Error(err)
				}
				select {
				case p.acked <- struct{}{}:
				default: // nobody counts now
				}
				<-window
				acks.Done()
			})
		}
	}
}

// Producers with windows of unacknowledged records, each as in a process of its own, meet switch
// after switch: no record is lost, doubled or overtaken.
func switchUnderLoad(t *testing.T, c *topic.Catalog, another func() *topic.Catalog) {
	create(t, c, "a", topic.Config{Partitions: 2})
	stop, acked := make(chan struct{}), make(chan struct{})
	more := func() {
		for range 60 {
			<-acked
		}
	}
	var producers []*producer
	var wg sync.WaitGroup
	for i := range 4 {
		p := &producer{topic: open(t, another(), "a"), keys: []int{3 * i, 3*i + 1, 3*i + 2}, acked: acked}
		producers = append(producers, p)
		wg.Go(func() { p.run(t.Context(), t, stop) })
	}
	tp := open(t, c, "a")
	for _, partitions := range []int{10, 20, 7} {
		more()
		grow(t, c, "a", partitions)
		must(t, tp.Refresh(t.Context()))
	}
	more()
	close(stop)
	wg.Wait()
	got := values(t, tp)
	for _, p := range producers {
		for _, k := range p.keys {
			have := got[fmt.Sprintf("k%d", k)]
			want := make([]int, p.sent)
			for i := range want {
				want[i] = i
			}
			if !slices.Equal(have, want) {
				t.Errorf("key %d: %d records, sent %d; in order: %v", k, len(have), p.sent, slices.IsSorted(have))
			}
		}
	}
	if d := tp.Document(); d.Produce != 3 || len(d.Storage[0].Ends) != 2 || d.Storage[3].Ends != nil {
		t.Errorf("after three switches: %+v", d)
	}
}

func TestSwitchesUnderLoadKeepTheOrderInMemory(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	switchUnderLoad(t, s.catalog, func() *topic.Catalog { return topic.NewCatalog(s.log, s.reg, "") })
}

// onDisk is a catalog as another process has it.
func onDisk(t *testing.T, s *setup, dir string) *topic.Catalog {
	t.Helper()
	log, err := filelog.Open(t.Context(), filelog.Config{Dir: dir, Options: driver.Options{Durability: driver.OS}})
	must(t, err)
	t.Cleanup(func() { must(t, log.Close()) })
	return topic.NewCatalog(log, s.reg, "")
}

func TestSwitchesUnderLoadKeepTheOrderOnDisk(t *testing.T) {
	t.Parallel()
	s, dir := newSetup(t), t.TempDir()
	another := func() *topic.Catalog { return onDisk(t, s, dir) }
	switchUnderLoad(t, another(), another)
}

// Whoever comes next finishes what a process that died left behind, at every step of the way.
func TestAnInterruptedSwitchIsFinishedByTheNextProducer(t *testing.T) {
	t.Parallel()
	for _, added := range []bool{false, true} { // whether the definition knows of the next one
		t.Run(fmt.Sprint(added), func(t *testing.T) {
			t.Parallel()
			s := newSetup(t)
			create(t, s.catalog, "a", topic.Config{Partitions: 2})
			tp := open(t, s.catalog, "a")
			_, err := tp.Produce(t.Context(), []byte("k0"), topic.AnyPartition, []commitlog.Record{rec(0, 0)}, nil)
			must(t, err)
			before := s.definition(t, "a")
			_, err = s.catalog.AddStorage(t.Context(), "a", 4)
			must(t, err)
			if !added {
				s.define(t, "a", before)
			}
			s.seal(t, "a", 0)
			at, err := tp.Produce(t.Context(), []byte("k0"), topic.AnyPartition, []commitlog.Record{rec(0, 1)}, nil)
			if err != nil || at.Storage != 1 {
				t.Fatalf("produced to %+v, %v; expected storage topic 1", at, err)
			}
			if d := tp.Document(); d.Produce != 1 || d.End(0, 0)+d.End(0, 1) != 1 {
				t.Errorf("definition %+v", d)
			}
		})
	}
}

// seal seals a storage topic in the log, as a process does that dies then.
func (s *setup) seal(t *testing.T, name string, storage int) {
	t.Helper()
	doc, err := s.catalog.Get(t.Context(), name)
	must(t, err)
	st, err := s.log.Topic(t.Context(), doc.Storage[storage].Name)
	must(t, err)
	_, err = st.Seal(t.Context())
	must(t, errors.Join(err, st.Close()))
}

// definition is the stored definition of a topic.
func (s *setup) definition(t *testing.T, name string) []byte {
	t.Helper()
	e, err := s.reg.Get(t.Context(), "topics/"+name)
	must(t, err)
	return slices.Clone(e.Value)
}

// define puts back a definition.
func (s *setup) define(t *testing.T, name string, value []byte) {
	t.Helper()
	_, err := s.reg.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "topics/" + name, Value: value}}})
	must(t, err)
}

// edit changes the stored definition by hand.
func (s *setup) edit(t *testing.T, name, from, to string) {
	t.Helper()
	s.define(t, name, []byte(replaced(t, string(s.definition(t, name)), from, to)))
}

func TestAnInterruptedAdditionIsFinished(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	create(t, s.catalog, "a", topic.Config{Partitions: 2})
	life, err := s.catalog.Life(t.Context(), "a")
	must(t, err)
	must(t, s.log.CreateTopic(t.Context(), commitlog.TopicConfig{Name: topic.StorageName("", "a", life, 1), Partitions: 6}))
	d, err := s.catalog.AddStorage(t.Context(), "a", 6)
	if err != nil || len(d.Storage) != 2 || d.Storage[1].K != 3 {
		t.Fatalf("%+v, %v; expected the same storage topic to be finished", d, err)
	}
	if d, err = s.catalog.AddStorage(t.Context(), "a", 5); err != nil || len(d.Storage) != 3 || d.Storage[2].K != 1 {
		t.Fatalf("%+v, %v; expected a storage topic with a base of its own", d, err)
	}
}

func TestThePointerStaysAtTheLastStorageTopic(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	create(t, s.catalog, "a", topic.Config{Partitions: 2})
	if _, err := s.catalog.Switch(t.Context(), "a"); !errors.Is(err, fault.Conflict) {
		t.Errorf("%v; expected Conflict", err)
	}
}

// A storage topic that was sealed by hand, with nothing after it, takes no records and says so.
func TestASealedTopicWithoutASuccessorRefuses(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	create(t, s.catalog, "a", topic.Config{Partitions: 2})
	tp := open(t, s.catalog, "a")
	st, err := tp.Storage(0)
	must(t, err)
	_, err = st.Seal(t.Context())
	must(t, err)
	for range 2 {
		if _, err := tp.Produce(t.Context(), nil, topic.AnyPartition, []commitlog.Record{rec(0, 0)}, nil); !errors.Is(err, fault.Sealed) {
			t.Errorf("%v; expected Sealed", err)
		}
	}
}

// A caller that gave up during a switch uses its memory again; what it sent is stored as it was.
func TestWhatASwitchStoresLateIsNotWhatTheCallerWroteSince(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t)
		create(t, s.catalog, "a", topic.Config{Partitions: 2})
		tp := open(t, s.catalog, "a")
		_, err := s.catalog.AddStorage(t.Context(), "a", 4)
		must(t, err)
		st, err := tp.Storage(0)
		must(t, err)
		_, err = st.Seal(t.Context())
		must(t, err)
		s.handle.SetLatency(400 * time.Millisecond) // the switch takes its time
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		recs := []commitlog.Record{rec(0, 1)}
		if _, err := tp.Produce(ctx, recs[0].Key, topic.AnyPartition, recs, nil); !errors.Is(err, fault.Unknown) {
			t.Errorf("%v; expected Unknown", err)
		}
		cancel()
		recs[0].Key[0], recs[0].Value[0] = 'x', '9'
		for end := time.Now().Add(30 * time.Second); tp.Document().Produce == 0; {
			if time.Now().After(end) {
				t.Fatal("the switch that the producer began is never done")
			}
			<-time.After(time.Millisecond)
		}
		_, err = tp.Produce(t.Context(), []byte("k1"), topic.AnyPartition, []commitlog.Record{rec(1, 2)}, nil)
		must(t, err)
		if got := values(t, tp)["k0"]; !slices.Equal(got, []int{1}) {
			t.Errorf("stored: %v", got)
		}
	})
}

func replaced(t *testing.T, s, from, to string) string {
	t.Helper()
	if !strings.Contains(s, from) {
		t.Fatalf("%q is not in %s", from, s)
	}
	return strings.Replace(s, from, to, 1)
}

// A topic that nobody produces to is not left half switched either: its consumers finish it.
func TestAFollowerFinishesASwitch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t)
		create(t, s.catalog, "a", topic.Config{Partitions: 2})
		_, err := s.catalog.AddStorage(t.Context(), "a", 4)
		must(t, err)
		tp := open(t, s.catalog, "a")
		ctx, cancel := context.WithCancel(t.Context())
		changed, done := make(chan int, 10), make(chan struct{})
		go func() { // joined below
			defer close(done)
			_ = tp.Follow(ctx, slog.New(slog.DiscardHandler), func() { changed <- tp.Document().Produce })
		}()
		s.seal(t, "a", 0)
		for produce := range changed {
			if produce == 1 {
				break
			}
		}
		cancel()
		<-done
	})
}

// Consumers of one client share the handle of a topic, and so do its producers: whoever reads the
// new definition first must not keep it from the others.
func TestEveryFollowerHearsOfAChangeThatAnotherReadFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t)
		create(t, s.catalog, "a", topic.Config{Partitions: 2})
		tp := open(t, s.catalog, "a")
		ctx, cancel := context.WithCancel(t.Context())
		const followers = 4
		var heard [followers]chan int
		var all sync.WaitGroup
		for i := range heard {
			heard[i] = make(chan int, 100)
			all.Go(func() { _ = tp.Follow(ctx, slog.New(slog.DiscardHandler), func() { heard[i] <- tp.Units() }) }) // joined below
		}
		for added := range 5 {
			_, err := s.catalog.AddStorage(t.Context(), "a", 4)
			must(t, err)
			must(t, tp.Refresh(t.Context()))
			timeout := time.After(20 * time.Second)
			for i := range heard {
				for units := 0; units != 2+4*(added+1); {
					select {
					case units = <-heard[i]:
					case <-timeout:
						t.Fatalf("follower %d knows of %d units; want %d", i, units, 2+4*(added+1))
					}
				}
			}
		}
		cancel()
		all.Wait()
	})
}
