package topic_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/topic"
)

type setup struct {
	log     *commitlog.Log
	reg     *registry.Registry
	handle  *memregistry.Handle
	catalog *topic.Catalog
}

func newSetup(t *testing.T) *setup {
	t.Helper()
	log, h := memlog.New(), memregistry.NewStore().Open()
	t.Cleanup(func() {
		if err := errors.Join(log.Close(), h.Registry.Close()); err != nil {
			t.Error(err)
		}
	})
	return &setup{log: log, reg: h.Registry, handle: h, catalog: topic.NewCatalog(log, h.Registry, "")}
}

// put writes a definition as a process that died half way would leave it.
func (s *setup) put(t *testing.T, name string, state topic.State, partitions int) {
	t.Helper()
	doc := fmt.Sprintf(`{"format":1,"name":%q,"state":%q,"storage":[{"name":"%s..0","partitions":%d,"k":1}],"produce":0,"router":"modulo","hash":"xxhash64"}`,
		name, state, name, partitions)
	if _, err := s.reg.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "topics/" + name, Value: []byte(doc)}}}); err != nil {
		t.Fatal(err)
	}
}

func TestCreationIsIdempotentAndShapeIsChecked(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	for range 2 {
		if err := s.catalog.Create(t.Context(), "a", topic.Config{Partitions: 4}); err != nil {
			t.Fatal(err)
		}
	}
	for _, cfg := range []topic.Config{{Partitions: 5}, {Partitions: 4, Router: topic.RangeRouter}} {
		if err := s.catalog.Create(t.Context(), "a", cfg); !errors.Is(err, fault.Exists) {
			t.Errorf("%+v: %v; expected Exists", cfg, err)
		}
	}
	err := s.catalog.Create(t.Context(), "b", topic.Config{Partitions: 0, Router: "zigzag", Hash: "crc", RetentionBytes: -1})
	for _, want := range []string{"0 partitions", "zigzag", "crc", "negative"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not tell of %q", err, want)
		}
	}
}

func TestManyCreatorsMakeOneTopic(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := s.catalog.Create(t.Context(), "a", topic.Config{Partitions: 4}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	docs, err := s.catalog.List(t.Context())
	if err != nil || len(docs) != 1 {
		t.Errorf("%d topics, %v; expected one", len(docs), err)
	}
}

func TestAnInterruptedCreationIsFinished(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	s.put(t, "a", topic.Creating, 4)
	if _, err := s.catalog.Open(t.Context(), "a"); !errors.Is(err, fault.NotFound) {
		t.Errorf("half created: %v; expected NotFound", err)
	}
	if err := s.catalog.Create(t.Context(), "a", topic.Config{Partitions: 4}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.catalog.Open(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}

// A topic that is made again under the name of one that was half deleted must not show the old records.
func TestAnInterruptedDeletionIsFinishedBeforeTheNameIsUsedAgain(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	if err := s.log.CreateTopic(t.Context(), commitlog.TopicConfig{Name: "a..0", Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	old, err := s.log.Topic(t.Context(), "a..0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Append(t.Context(), 0, []commitlog.Record{{Value: []byte("old")}}, nil); err != nil {
		t.Fatal(err)
	}
	s.put(t, "a", topic.Deleting, 2)
	if err := s.catalog.Create(t.Context(), "a", topic.Config{Partitions: 3}); err != nil {
		t.Fatal(err)
	}
	tp, err := s.catalog.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	st, err := tp.Storage(0)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := st.Bounds(t.Context(), 0); err != nil || b.Next != 0 || tp.Units() != 3 {
		t.Errorf("bounds %+v, %d units, %v; expected an empty topic of 3", b, tp.Units(), err)
	}
}

func TestDeletionRemovesRecordsAndName(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	if err := s.catalog.Create(t.Context(), "a", topic.Config{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	if err := s.catalog.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if left, err := s.log.Topics(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("storage topics left: %v, %v", left, err)
	}
	if err := s.catalog.Delete(t.Context(), "a"); !errors.Is(err, fault.NotFound) {
		t.Errorf("second delete: %v; expected NotFound", err)
	}
}

func TestDefinitionsOfANewerFormatAreRefused(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	for name, doc := range map[string]string{"newer": `{"format":3,"name":"newer"}`, "damaged": `{"format":`, "hollow": `{"format":1,"name":"hollow"}`} {
		if _, err := s.reg.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "topics/" + name, Value: []byte(doc)}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.catalog.Open(t.Context(), name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v; expected an error that names it", name, err)
		}
	}
	if _, err := s.catalog.Open(t.Context(), "newer"); !strings.Contains(err.Error(), "upgrade") {
		t.Errorf("%v; expected what to do", err)
	}
}

func TestRecordsWithoutAKeyGoRoundRobin(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	if err := s.catalog.Create(t.Context(), "a", topic.Config{Partitions: 4}); err != nil {
		t.Fatal(err)
	}
	tp, err := s.catalog.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	var count [4]int
	for range 40 {
		_, p := tp.Route(nil)
		count[p]++
	}
	if count != [4]int{10, 10, 10, 10} {
		t.Errorf("40 records were spread as %v", count)
	}
}

// A log knows no namespaces: what keeps them apart is the storage topics' names.
func TestNamespacesDoNotShareRecords(t *testing.T) {
	t.Parallel()
	log, store := memlog.New(), memregistry.NewStore()
	catalogs := make(map[string]*topic.Catalog)
	for _, ns := range []string{"", "b", "a.b"} {
		h, err := store.OpenOptions(driver.Options{Namespace: ns})
		if err != nil {
			t.Fatal(err)
		}
		catalogs[ns] = topic.NewCatalog(log, h.Registry, ns)
		if err := catalogs[ns].Create(t.Context(), "p", topic.Config{Partitions: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if topics, err := log.Topics(t.Context()); err != nil || len(topics) != 3 {
		t.Fatalf("storage topics %v, %v; expected three", topics, err)
	}
	if err := catalogs["b"].Delete(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	for _, ns := range []string{"", "a.b"} {
		if _, err := catalogs[ns].Open(t.Context(), "p"); err != nil {
			t.Errorf("namespace %q: %v", ns, err)
		}
	}
	for _, bad := range []string{"a..b", "a/b", ".a", strings.Repeat("n", 61)} {
		if err := topic.CheckNamespace(bad); !errors.Is(err, fault.Invalid) {
			t.Errorf("namespace %q: %v; expected Invalid", bad, err)
		}
	}
}

// A registry that was lost is made again over a log that has the records still.
func TestACreationThatClashesWithTheLogLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	if err := s.log.CreateTopic(t.Context(), commitlog.TopicConfig{Name: "p..0", Partitions: 4}); err != nil {
		t.Fatal(err)
	}
	if err := s.catalog.Create(t.Context(), "p", topic.Config{Partitions: 2}); !errors.Is(err, fault.Exists) || !strings.Contains(err.Error(), "adopt") {
		t.Fatalf("another shape: %v; expected Exists and what to do", err)
	}
	if _, err := s.catalog.Get(t.Context(), "p"); !errors.Is(err, fault.NotFound) {
		t.Errorf("after the clash: %v; expected NotFound", err)
	}
	if err := s.catalog.Create(t.Context(), "p", topic.Config{Partitions: 4}); err != nil {
		t.Errorf("the same shape: %v; expected the records to be adopted", err)
	}
}
