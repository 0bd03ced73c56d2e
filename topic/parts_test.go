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
