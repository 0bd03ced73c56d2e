package topic_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/topic"
)

// The registry has forgotten a part, and the log has records of several topics that may have been it. None of
// them is chosen.
func TestAPartOfWhichSeveralAreLeftIsNotTakenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, reg := memlog.New(), memregistry.NewStore().Open()
		defer func() {
			if err := errors.Join(log.Close(), reg.Close()); err != nil {
				t.Error(err)
			}
		}()
		c := topic.NewCatalog(log, reg.Registry, "")
		leave := func(name, life string) {
			storage := topic.StorageName("", name, life, 0)
			must(t, log.CreateTopic(t.Context(), commitlog.TopicConfig{Name: storage, Partitions: 1, Card: topic.Card{Router: topic.Modulo, Hash: topic.XXHash64, Partitions: []int{1}, Internal: "owner"}.Encode()}))
			tp, err := log.Topic(t.Context(), storage)
			if err == nil {
				_, err = tp.Append(t.Context(), 0, []commitlog.Record{{Value: []byte(life)}}, nil)
			}
			must(t, err)
		}
		leave("one", "aaa")
		leave("two", "aaa")
		leave("two", "bbb")
		parts := c.Parts("owner")
		if d, err := parts.Ensure(t.Context(), "one", topic.Config{Partitions: 1}); err != nil || d.Life != "aaa" {
			t.Errorf("what is left of it alone is not taken up: %+v, %v", d, err)
		}
		if d, err := parts.Ensure(t.Context(), "two", topic.Config{Partitions: 1}); !errors.Is(err, fault.Exists) {
			t.Errorf("taken up: %+v, %v; expected ErrExists", d, err)
		}
		if d, err := c.Get(t.Context(), "two"); !errors.Is(err, fault.NotFound) {
			t.Errorf("it is defined as %+v, %v", d, err)
		}
	})
}

// The registry has forgotten a part: the log tells of it, and a deletion removes what the log has.
func TestAForgottenPartIsListedAndDeleted(t *testing.T) {
	t.Parallel()
	log, reg := memlog.New(), memregistry.NewStore()
	was := reg.Open()
	defer func() { must(t, errors.Join(log.Close(), was.Close())) }()
	_, err := topic.NewCatalog(log, was.Registry, "eu").Parts("owner").Ensure(t.Context(), "part", topic.Config{Partitions: 1, Note: "a note"})
	must(t, err)
	_, err = topic.NewCatalog(log, was.Registry, "eu").Parts("another").Ensure(t.Context(), "other", topic.Config{Partitions: 1})
	must(t, err)

	anew := memregistry.NewStore().Open()
	defer func() { must(t, anew.Close()) }()
	for namespace, n := range map[string]int{"": 0, "us": 0, "eu": 1} {
		if all, err := topic.NewCatalog(log, anew.Registry, namespace).Parts("owner").List(t.Context()); err != nil || len(all) != n {
			t.Errorf("in namespace %q: %+v, %v; expected %d", namespace, all, err, n)
		}
	}
	gone := func() {
		t.Helper()
		if all, err := log.Topics(t.Context()); err != nil || len(all) != 1 {
			t.Errorf("the log has %+v, %v; expected the part of the other owner", all, err)
		}
	}
	parts := topic.NewCatalog(log, anew.Registry, "eu").Parts("owner")
	if all, err := parts.List(t.Context()); err != nil || len(all) != 1 || all[0] != (topic.Part{Name: "part", Note: "a note", InLog: true}) {
		t.Errorf("%+v, %v", all, err)
	}
	if err := parts.Delete(t.Context(), "other"); !errors.Is(err, fault.NotFound) {
		t.Errorf("the part of another owner: %v; expected ErrNotFound", err)
	}
	must(t, parts.Delete(t.Context(), "part"))
	gone()

	known := topic.NewCatalog(log, was.Registry, "eu").Parts("owner")
	for _, life := range []string{"older", "newer"} { // beside the one that the registry knows
		must(t, log.CreateTopic(t.Context(), commitlog.TopicConfig{
			Name: topic.StorageName("eu", "part", life, 0), Partitions: 1, Card: topic.Card{Router: topic.Modulo, Hash: topic.XXHash64, Partitions: []int{1}, Internal: "owner"}.Encode(),
		}))
	}
	must(t, known.Delete(t.Context(), "part"))
	gone()
}
