package topic_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/kafkalog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/testserver"
	"github.com/ringfence/ringfence/topic"
)

func sequence(home int, id uint64, n int64) *topic.ProduceOptions {
	return &topic.ProduceOptions{Producer: commitlog.Producer{ID: id, Sequence: n}, Home: home}
}

// sendNumbered sends message n of key 0 and waits.
func sendNumbered(t *testing.T, tp *topic.Topic, n int, opts *topic.ProduceOptions) (topic.Position, error) {
	t.Helper()
	r := rec(0, n)
	return tp.Produce(t.Context(), r.Key, topic.AnyPartition, []commitlog.Record{r}, opts)
}

// A producer that does not know whether a message was stored sends it again: it must not be stored
// twice, whoever sends it and however often the topic was switched meanwhile.
func TestAMessageSentAgainAfterASwitchIsStoredOnce(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]func(*testing.T) func(*setup) *topic.Catalog{
		"memory": func(*testing.T) func(*setup) *topic.Catalog {
			return func(s *setup) *topic.Catalog { return topic.NewCatalog(s.log, s.reg, "") }
		},
		"disk": func(t *testing.T) func(*setup) *topic.Catalog {
			dir := t.TempDir()
			return func(s *setup) *topic.Catalog { return onDisk(t, s, dir) }
		},
		"kafka": onKafka,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repeatAcrossSwitches(t, store(t))
		})
	}
}

// onKafka opens a log of the test's own on the server, anew each time.
func onKafka(t *testing.T) func(*setup) *topic.Catalog {
	u, err := url.Parse(testserver.URL(t, "kafka"))
	must(t, err)
	config := kafkalog.Config{Brokers: strings.Split(u.Host, ","), Prefix: fmt.Sprintf("topic-%x.", rand.Uint32())}
	open := func(ctx context.Context) *commitlog.Log {
		l, err := kafkalog.Open(ctx, config)
		must(t, err)
		return l
	}
	t.Cleanup(func() {
		l := open(context.Background())
		all, _ := l.Topics(context.Background()) // of this prefix
		for _, st := range all {
			_ = l.DeleteTopic(context.Background(), st.Name)
		}
		_ = l.Close()
	})
	return func(s *setup) *topic.Catalog {
		l := open(t.Context())
		t.Cleanup(func() { _ = l.Close() })
		return topic.NewCatalog(l, s.reg, "")
	}
}

func repeatAcrossSwitches(t *testing.T, another func(*setup) *topic.Catalog) {
	s := newSetup(t)
	create(t, another(s), "a", topic.Config{Partitions: 2})
	before := open(t, another(s), "a")
	for n := range 5 {
		_, err := sendNumbered(t, before, n, sequence(0, 7, int64(n)))
		must(t, err)
	}
	for i, partitions := range []int{4, 3} {
		grow(t, another(s), "a", partitions)
		for _, tp := range []*topic.Topic{before, open(t, another(s), "a")} { // one that lives through it, and one that is started anew
			for n := 4; n >= 0; n-- { // the first one too, which looks like that of a new producer
				if at, err := sendNumbered(t, tp, n, sequence(0, 7, int64(n))); err != nil || at.Storage != 0 || at.Offset != int64(n) {
					t.Errorf("sequence %d again: %+v, %v; expected where it is", n, at, err)
				}
			}
			for n := 5; n < 8; n++ {
				if at, err := sendNumbered(t, tp, n, sequence(0, 7, int64(n))); !errors.Is(err, fault.Sealed) {
					t.Errorf("sequence %d, which the home does not have: %+v, %v; expected Sealed", n, at, err)
				}
			}
			if home, err := tp.Home(t.Context()); err != nil || home != i+1 {
				t.Errorf("new producers begin in %d, %v; expected %d", home, err, i+1)
			}
			if at, err := sendNumbered(t, tp, 5+i, sequence(i+1, 8+uint64(i), 0)); err != nil || at.Storage != i+1 || at.Offset != 0 { //nolint:gosec // small
				t.Errorf("under a new ID: %+v, %v", at, err)
			}
		}
	}
	last := open(t, another(s), "a")
	if got := values(t, last)["k0"]; !slices.Equal(got, []int{0, 1, 2, 3, 4, 5, 6}) {
		t.Errorf("stored: %v", got)
	}
}

// A switch goes through a window of numbered messages: what is behind the first that is refused is
// refused in the same way, though a log may call it a gap.
func TestASwitchRefusesTheRestOfAWindow(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(*setup) *topic.Catalog{
		"memory": func(s *setup) *topic.Catalog { return s.catalog },
		"disk":   func(s *setup) *topic.Catalog { return onDisk(t, s, t.TempDir()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetup(t)
			c := make(s)
			create(t, c, "a", topic.Config{Partitions: 2})
			tp := open(t, c, "a")
			var acks, switched sync.WaitGroup
			var refused atomic.Bool
			var errs []*error
			for n, more := 0, 1000; more > 0; n++ { // and so many behind the first that is refused
				if n == 1000 {
					switched.Go(func() { grow(t, c, "a", 4) })
				}
				if refused.Load() {
					more--
				}
				answer := new(error)
				errs = append(errs, answer)
				acks.Add(1)
				tp.ProduceAsync(t.Context(), 1, rec(0, n), sequence(0, 9, int64(n)), func(_ topic.Position, err error) {
					if *answer = err; err != nil {
						refused.Store(true)
					}
					acks.Done()
				})
			}
			acks.Wait()
			switched.Wait()
			stored := slices.IndexFunc(errs, func(err *error) bool { return *err != nil })
			for n, err := range errs[stored:] {
				if !errors.Is(*err, fault.Sealed) {
					t.Fatalf("message %d behind the first that was refused: %v; expected Sealed", stored+n, *err)
				}
			}
			if got := values(t, tp)["k0"]; len(got) != stored || !slices.IsSorted(got) {
				t.Errorf("%d messages are stored and %d acknowledged", len(got), stored)
			}
		})
	}
}

// Sent again, it would go to another partition, which knows nothing of it.
func TestANumberedMessageNeedsAPlace(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	create(t, s.catalog, "a", topic.Config{Partitions: 2})
	tp := open(t, s.catalog, "a")
	r := []commitlog.Record{{Value: []byte("x")}}
	for want, send := range map[string]struct {
		partition int
		key       string
		home      int
	}{
		"neither key nor partition": {partition: topic.AnyPartition},
		"partitions 0 to 1":         {partition: 2},
		"storage topics 0 to 0":     {partition: 1, home: 1},
		"-1, where producer 7":      {partition: 1, home: -1},
	} {
		if _, err := tp.Produce(t.Context(), nil, send.partition, r, sequence(send.home, 7, 0)); !errors.Is(err, fault.Invalid) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v; expected Invalid with %q", err, want)
		}
	}
	_, err := s.catalog.AddStorage(t.Context(), "a", 4)
	must(t, err)
	must(t, tp.Refresh(t.Context()))
	if _, err := sendNumbered(t, tp, 0, sequence(1, 7, 0)); !errors.Is(err, fault.NotDone) {
		t.Errorf("to a storage topic that takes no records yet: %v; expected NotDone", err)
	}
}

// What belongs to the storage topic that takes over waits for what is being carried there.
func TestAProducerOfTheNextStorageTopicOvertakesNothing(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	create(t, s.catalog, "a", topic.Config{Partitions: 1})
	tp := open(t, s.catalog, "a")
	for n := range 20 {
		grow(t, s.catalog, "a", 1+n%2)
		var acks sync.WaitGroup
		acks.Add(2)
		done := func(_ topic.Position, err error) {
			if err != nil {
				t.Error(err)
			}
			acks.Done()
		}
		tp.ProduceAsync(t.Context(), topic.AnyPartition, rec(0, 2*n), nil, done)
		home, err := tp.Home(t.Context())
		must(t, err)
		tp.ProduceAsync(t.Context(), topic.AnyPartition, rec(0, 2*n+1), sequence(home, uint64(n)+1, 0), done) //nolint:gosec // small
		acks.Wait()
	}
	if got := values(t, tp)["k0"]; len(got) != 40 || !slices.IsSorted(got) {
		t.Errorf("stored: %v", got)
	}
}

// Home finishes the switch that somebody died over.
func TestAProducerBeginsBehindAnInterruptedSwitch(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	create(t, s.catalog, "a", topic.Config{Partitions: 1})
	_, err := s.catalog.AddStorage(t.Context(), "a", 2)
	must(t, err)
	s.seal(t, "a", 0)
	tp := open(t, s.catalog, "a")
	home, err := tp.Home(t.Context())
	if err != nil || home != 1 {
		t.Fatalf("home %d, %v; expected 1", home, err)
	}
	if at, err := sendNumbered(t, tp, 0, sequence(home, 7, 0)); err != nil || at.Storage != 1 {
		t.Errorf("%+v, %v", at, err)
	}
}
