package topic_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/topic"
)

type setup struct {
	logs    *memlog.Store
	log     *commitlog.Log
	reg     *registry.Registry
	handle  *memregistry.Handle
	catalog *topic.Catalog
}

func newSetup(t *testing.T) *setup {
	t.Helper()
	logs, h := memlog.NewStore(nil), memregistry.NewStore().Open()
	log := logs.Open()
	t.Cleanup(func() { must(t, errors.Join(log.Close(), h.Registry.Close())) })
	return &setup{logs: logs, log: log, reg: h.Registry, handle: h, catalog: topic.NewCatalog(log, h.Registry, "")}
}

// put writes a definition as a process that died half way would leave it.
func (s *setup) put(t *testing.T, name string, state topic.State, partitions int) {
	t.Helper()
	doc := fmt.Sprintf(`{"format":1,"name":%q,"life":"old","state":%q,"storage":[{"name":"%s..0.old","partitions":%d,"k":1}],"produce":0,"router":"modulo","hash":"xxhash64"}`,
		name, state, name, partitions)
	_, err := s.reg.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "topics/" + name, Value: []byte(doc)}}})
	must(t, err)
}

func TestCreationIsIdempotentAndShapeIsChecked(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	for range 2 {
		must(t, s.catalog.Create(t.Context(), "a", topic.Config{Partitions: 4}))
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
	must(t, s.catalog.Create(t.Context(), "a", topic.Config{Partitions: 4}))
	if _, err := s.catalog.Open(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}

// A topic that is made again under the name of one that was half deleted must not show the old records.
func TestAnInterruptedDeletionIsFinishedBeforeTheNameIsUsedAgain(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	must(t, s.log.CreateTopic(t.Context(), commitlog.TopicConfig{Name: "a..0.old", Partitions: 2}))
	old, err := s.log.Topic(t.Context(), "a..0.old")
	must(t, err)
	_, err = old.Append(t.Context(), 0, []commitlog.Record{{Value: []byte("old")}}, nil)
	must(t, err)
	s.put(t, "a", topic.Deleting, 2)
	must(t, s.catalog.Create(t.Context(), "a", topic.Config{Partitions: 3}))
	tp, err := s.catalog.Open(t.Context(), "a")
	must(t, err)
	st, err := tp.Storage(0)
	must(t, err)
	if b, err := st.Bounds(t.Context(), 0); err != nil || b.Next != 0 || tp.Units() != 3 {
		t.Errorf("bounds %+v, %d units, %v; expected an empty topic of 3", b, tp.Units(), err)
	}
}

func TestDeletionRemovesRecordsAndName(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	must(t, s.catalog.Create(t.Context(), "a", topic.Config{Partitions: 1}))
	must(t, s.catalog.Delete(t.Context(), "a", ""))
	if left, err := s.log.Topics(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("storage topics left: %v, %v", left, err)
	}
	if err := s.catalog.Delete(t.Context(), "a", ""); !errors.Is(err, fault.NotFound) {
		t.Errorf("second delete: %v; expected NotFound", err)
	}
}

func TestDefinitionRefusedInANewerFormatOrDamaged(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	for name, doc := range map[string]string{"newer": `{"format":5,"name":"newer"}`, "damaged": `{"format":`, "hollow": `{"format":1,"name":"hollow","life":"a"}`,
		"formless": `{"format":0,"name":"older"}`, "lifeless": `{"format":1,"name":"lifeless"}`, "nothing": `null`, "nameless": `{"format":5}`} {
		_, err := s.reg.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "topics/" + name, Value: []byte(doc)}}})
		must(t, err)
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
	must(t, s.catalog.Create(t.Context(), "a", topic.Config{Partitions: 4}))
	tp, err := s.catalog.Open(t.Context(), "a")
	must(t, err)
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
		must(t, err)
		catalogs[ns] = topic.NewCatalog(log, h.Registry, ns)
		must(t, catalogs[ns].Create(t.Context(), "p", topic.Config{Partitions: 1, Life: "x"}))
	}
	if topics, err := log.Topics(t.Context()); err != nil || len(topics) != 3 {
		t.Fatalf("storage topics %v, %v; expected three", topics, err)
	}
	must(t, catalogs["b"].Delete(t.Context(), "p", ""))
	for _, ns := range []string{"", "a.b"} {
		if _, err := catalogs[ns].Open(t.Context(), "p"); err != nil {
			t.Errorf("namespace %q: %v", ns, err)
		}
	}
	for _, bad := range []string{"a..b", "a/b", ".a", strings.Repeat("n", topic.MaxNamespaceBytes+1)} {
		if err := topic.CheckNamespace(bad); !errors.Is(err, fault.Invalid) {
			t.Errorf("namespace %q: %v; expected Invalid", bad, err)
		}
	}
}

// A registry that was lost is made again over a log that has the topic still: it goes on in the shape that it had, and
// nothing half made stays behind.
func TestCreationGoesOnWithWhatTheLogHas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t)
		create(t, s.catalog, "p", topic.Config{Partitions: 4})
		tp := open(t, s.catalog, "p")
		_, err := tp.Produce(t.Context(), []byte("k0"), topic.AnyPartition, []commitlog.Record{rec(0, 7)}, nil)
		must(t, err)
		life := tp.Document().Life
		_, err = s.reg.Txn(t.Context(), registry.Txn{Deletes: []string{"topics/p"}})
		must(t, err)
		for _, id := range []string{"", life} {
			err := s.catalog.Create(t.Context(), "p", topic.Config{Partitions: 2, Life: id, Router: topic.RangeRouter})
			if !errors.Is(err, fault.Exists) || !strings.Contains(err.Error(), "4 partitions, router modulo") || !strings.Contains(err.Error(), "asked for 2, range") {
				t.Errorf("another shape: %v; expected Exists, and both shapes", err)
			}
		}
		if _, err := s.catalog.Get(t.Context(), "p"); !errors.Is(err, fault.NotFound) {
			t.Errorf("after the clash: %v; expected NotFound", err)
		}
		create(t, s.catalog, "p", topic.Config{Partitions: 4})
		if v := values(t, open(t, s.catalog, "p")); len(v["k0"]) != 1 {
			t.Errorf("records %v; expected the one that was there", v)
		}
		if err := s.catalog.Create(t.Context(), "p", topic.Config{Partitions: 4, Life: "other"}); !errors.Is(err, fault.Exists) {
			t.Errorf("another life: %v; expected Exists", err)
		}
		if err := s.catalog.Create(t.Context(), "q", topic.Config{Partitions: 4, Life: "Not/One"}); !errors.Is(err, fault.Invalid) {
			t.Errorf("no life: %v; expected Invalid", err)
		}
	})
}

// The name of a storage topic of a bigger name is none of a smaller one's.
func TestNamesOfStorageTopicsAreTold(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"p..0": true, "p..0.k3m9q2xt": true, "p..0.k3m9q2xt..new": true,
		"p..1.k3m9q2xt": false, "p..01.x": false, "e..p..0.x": false, "p..0.k3..0.x": false, "p..0.": false, "p": false,
	} {
		if topic.IsStorage(name, "p..0") != want {
			t.Errorf("%s is one of p..0: %v", name, !want)
		}
	}
	if name := topic.StorageName(strings.Repeat("n", topic.MaxNamespaceBytes), strings.Repeat("t", topic.MaxNameBytes), topic.NewLife(), 9999); len(topic.MovedName(name)) > commitlog.MaxNameBytes {
		t.Errorf("%s has %d bytes", name, len(name))
	}
}

// One definition that can't be used is named in a list, and hides no other.
func TestADamagedDefinitionHidesNoOther(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	for _, name := range []string{"a", "z"} {
		must(t, s.catalog.Create(t.Context(), name, topic.Config{Partitions: 1}))
	}
	s.put(t, "m", topic.Ready, 1<<40)
	s.put(t, "n", topic.Deleting, 1)
	list, err := s.catalog.List(t.Context())
	if err != nil || len(list) != 3 {
		t.Fatalf("%+v, %v; expected three", list, err)
	}
	for i, name := range []string{"a", "m", "z"} {
		l := list[i]
		if bad := name == "m"; l.Name != name || bad != (l.Definition == nil) || bad != errors.Is(l.Err, fault.Corrupt) {
			t.Errorf("topic %s is listed as %+v", name, l)
		}
	}
}

// Whoever opened it would write to another topic's definition, and its storage topics.
func TestADefinitionUnderAnotherNameIsNamedAndSkipped(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	create(t, s.catalog, "a", topic.Config{Partitions: 1})
	create(t, s.catalog, "b", topic.Config{Partitions: 1})
	s.edit(t, "b", `"name":"b"`, `"name":"a"`)
	list, err := s.catalog.List(t.Context())
	if err != nil || len(list) != 2 || list[0].Name != "a" || list[0].Err != nil || list[1].Name != "b" || !errors.Is(list[1].Err, fault.Corrupt) {
		t.Errorf("%+v, %v; expected a, and that b is damaged", list, err)
	}
	for what, f := range map[string]func() error{
		"open":   func() error { _, err := s.catalog.Open(t.Context(), "b"); return err },
		"get":    func() error { _, err := s.catalog.Get(t.Context(), "b"); return err },
		"create": func() error { return s.catalog.Create(t.Context(), "b", topic.Config{Partitions: 1}) },
		"alter": func() error {
			_, err := s.catalog.Alter(t.Context(), "b", "", nil, topic.Retention{Bytes: 1})
			return err
		},
		"delete": func() error { return s.catalog.Delete(t.Context(), "b", "") },
	} {
		if err := f(); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), `"topics/b"`) {
			t.Errorf("%s: %v; expected damage that is named by its key", what, err)
		}
	}
	if doc, err := s.catalog.Get(t.Context(), "a"); err != nil || doc.Retention() != (topic.Retention{}) {
		t.Errorf("the other topic: %+v, %v", doc, err)
	}
}

// Whoever writes to one namespace of a registry would read, seal and delete the records of another.
func TestADefinitionNamesTheRecordsOfNoOtherTopic(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	eu := topic.NewCatalog(s.log, s.reg, "eu") // a registry of its own takes no part in it
	create(t, s.catalog, "a", topic.Config{Partitions: 1})
	doc, err := s.catalog.Get(t.Context(), "a")
	must(t, err)
	own := doc.Storage[0].Name
	for _, other := range []string{
		topic.StorageName("eu", "a", doc.Life, 0), topic.StorageName("", "b", doc.Life, 0),
		topic.StorageName("", "a", "otherone", 0), topic.StorageName("", "a", doc.Life, 1), "../../a", "",
	} {
		if err := s.log.CreateTopic(t.Context(), commitlog.TopicConfig{Name: other, Partitions: 1}); err != nil && commitlog.CheckName(other) == nil {
			t.Fatal(err)
		}
		s.edit(t, "a", `"name":"`+own+`"`, `"name":"`+other+`"`)
		for what, f := range map[string]func() error{
			"open":   func() error { _, err := s.catalog.Open(t.Context(), "a"); return err },
			"delete": func() error { return s.catalog.Delete(t.Context(), "a", "") },
			"list":   func() error { list, err := s.catalog.List(t.Context()); return errors.Join(err, list[0].Err) },
		} {
			if err := f(); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), `"topics/a"`) || !strings.Contains(err.Error(), own) {
				t.Errorf("%s of a topic with the records of %q: %v; expected damage, with the key and what it should be", what, other, err)
			}
		}
		s.edit(t, "a", `"name":"`+other+`"`, `"name":"`+own+`"`)
	}
	if err := eu.Adopt(t.Context(), doc); !errors.Is(err, fault.Corrupt) {
		t.Errorf("adopted by another namespace: %v", err)
	}
	moved := *doc
	moved.Storage[0].Name = topic.MovedName(own) // as a move within one registry calls it
	if err := s.catalog.Adopt(t.Context(), &moved); err != nil {
		t.Error(err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
