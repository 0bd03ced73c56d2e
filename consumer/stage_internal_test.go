package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/filelog"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/fileregistry"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/topic"
)

// pairs makes one unit of two partitions each, those of a storage topic after all of the one before.
var pairs = Layout{Name: "pairs", Of: func(doc *topic.Document) (l group.Layout) {
	first := 0
	for storage, s := range doc.Storage {
		before := len(l)
		for p := 0; p < s.Partitions; p += 2 {
			u := group.LayoutUnit{From: first, To: before, Step: 1}
			for q := p; q < min(p+2, s.Partitions); q++ {
				u.Inputs = append(u.Inputs, group.UnitInput{Storage: storage, Partition: q, End: doc.End(storage, q)})
			}
			l = append(l, u)
		}
		first = before
	}
	return l
}}

// of is how a test opens a pair of stores, as a process of its own each time.
type of func(t *testing.T) (*commitlog.Log, *registry.Registry)

func inMemory() of {
	log, reg := memlog.NewStore(nil), memregistry.NewStore()
	return func(*testing.T) (*commitlog.Log, *registry.Registry) { return log.Open(), reg.Open().Registry }
}

func inDirectory(t *testing.T) of {
	t.Helper()
	dir := t.TempDir()
	return func(t *testing.T) (*commitlog.Log, *registry.Registry) {
		t.Helper()
		log, err := filelog.Open(t.Context(), filelog.Config{Dir: dir})
		must(t, err)
		reg, err := fileregistry.Open(t.Context(), fileregistry.Config{Dir: dir})
		must(t, err)
		return log, reg
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stage is a topic of some stores, and a look at the group that consumes it.
type stage struct {
	*testing.T
	open    of
	log     *commitlog.Log
	reg     *registry.Registry
	catalog *topic.Catalog
	top     *topic.Topic
	g       *protocol.Group
}

func newStage(t *testing.T, open of, partitions int) *stage {
	t.Helper()
	s := &stage{T: t, open: open}
	s.log, s.reg, s.catalog, s.top = s.process()
	must(t, s.catalog.Create(t.Context(), "orders", topic.Config{Partitions: partitions}))
	var err error
	s.top, err = s.catalog.Open(t.Context(), "orders")
	must(t, err)
	t.Cleanup(func() { _ = s.top.Close() })
	s.g, err = protocol.NewGroup(s.reg, "g")
	must(t, err)
	return s
}

// process opens the stores once more, and the topic when it is there.
func (s *stage) process() (*commitlog.Log, *registry.Registry, *topic.Catalog, *topic.Topic) {
	s.Helper()
	log, reg := s.open(s.T)
	s.Cleanup(func() { _ = errors.Join(log.Close(), reg.Close()) })
	catalog := topic.NewCatalog(log, reg, "test")
	top, err := catalog.Open(s.Context(), "orders")
	if err == nil {
		s.Cleanup(func() { _ = top.Close() })
	}
	return log, reg, catalog, top
}

// produce appends so many records to each of the partitions that are produced to.
func (s *stage) produce(count int, partitions ...int) {
	s.Helper()
	must(s.T, s.top.Refresh(s.Context()))
	for _, p := range partitions {
		for range count {
			key := fmt.Appendf(nil, "key%d", p)
			_, err := s.top.Produce(s.Context(), key, p, []commitlog.Record{{Key: key}}, nil)
			must(s.T, err)
		}
	}
}

// config is that of a member in a process of its own.
func (s *stage) config(id string, l Layout, h func(u *group.Unit, r *dispatch.Record) error) *Config {
	s.Helper()
	log, reg, catalog, top := s.process()
	c := &Config{
		Group: group.Config{Registry: reg, Group: "g", Member: id, CommitInterval: 5 * time.Millisecond, SessionTTL: time.Minute},
		Topic: top, Catalog: catalog, Log: log, Layout: l, Logger: slog.New(slog.DiscardHandler),
		Handler: func(u *group.Unit) dispatch.Handler {
			return func(_ context.Context, r *dispatch.Record) error { return h(u, r) }
		},
	}
	l.LayOut(&c.Group, top.Document())
	return c
}

// member runs a member until the returned function is called, which returns what run did.
func (s *stage) member(c *Config) (stop func() error) {
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, c) }() // joined by stop
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	s.Cleanup(func() { _ = stop() })
	return stop
}

// await waits until the units are as ok wants them.
func (s *stage) await(what string, ok func(units []protocol.Unit) bool) {
	s.Helper()
	s.until(what, func() (string, bool) {
		st, err := s.g.Load(s.Context(), true)
		if err != nil || st.Meta == nil {
			return fmt.Sprint(err), false
		}
		return fmt.Sprintf("%+v", st.Units), ok(st.Units)
	})
}

// until waits until ok says so, or for a while.
func (s *stage) until(what string, ok func() (string, bool)) {
	s.Helper()
	last := ""
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(40 * time.Second); time.Now().Before(end); <-look.C {
		now, done := ok()
		if done {
			return
		}
		last = now
	}
	s.Fatalf("the group did not come to %s: %s", what, last)
}

// at says whether a unit has just these positions in partitions of one storage topic, from the first on.
func at(units []protocol.Unit, unit, storage, first int, next ...int64) bool {
	if unit >= len(units) || units[unit].Checkpoint == nil || len(units[unit].Checkpoint.Positions) != len(next) {
		return false
	}
	for i, n := range next {
		if p := units[unit].Checkpoint.Position(storage, first+i); p == nil || p.Next != n {
			return false
		}
	}
	return true
}

// seen are the records that were handled, by partition.
type seen struct {
	mu sync.Mutex
	of map[partitionID][]int64
}

func (s *seen) handle(_ *group.Unit, r *dispatch.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[partitionID][]int64{}
	}
	at := partitionID{r.Storage, r.Partition}
	s.of[at] = append(s.of[at], r.Offset)
	return nil
}

// expect says which offsets of a partition were handled, in their order.
func (s *seen) expect(t *testing.T, storage, partition int, from, to int64) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var want []int64
	for o := from; o < to; o++ {
		want = append(want, o)
	}
	if got := s.of[partitionID{storage, partition}]; !slices.Equal(got, want) {
		t.Errorf("of partition %d of storage topic %d %v were handled; expected %d to %d", partition, storage, got, from, to-1)
	}
}
