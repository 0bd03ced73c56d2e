package topic_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/topic"
)

// shyLog does not show one of its topics.
type shyLog struct {
	driver.Log
	hidden string
}

func (l *shyLog) OpenTopic(ctx context.Context, name string) (driver.Topic, error) {
	if name == l.hidden {
		return nil, fault.NotFound
	}
	return l.Log.OpenTopic(ctx, name)
}

func (l *shyLog) Topics(ctx context.Context) ([]driver.TopicConfig, error) {
	all, err := l.Log.Topics(ctx)
	return slices.DeleteFunc(all, func(c driver.TopicConfig) bool { return c.Name == l.hidden }), err
}

// A log that does not show a storage topic for a while gets it noted as retired. Its records are never deleted for that.
func TestAStorageTopicThatWasAwayIsNotDeletedWithItsRecords(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	create(t, s.catalog, "a", topic.Config{Partitions: 2})
	s.records(t, open(t, s.catalog, "a"), 0, 8)
	s.grow(t, 4)
	doc, err := s.catalog.Get(t.Context(), "a")
	must(t, err)
	log := &shyLog{Log: s.logs.Driver(), hidden: doc.Storage[0].Name}
	c := topic.NewCatalog(commitlog.New(log), s.reg, "")
	if doc, err = c.CatchUp(t.Context(), "a"); err != nil || doc.Left() != 1 {
		t.Fatalf("%+v, %v; expected that storage topic 0 is taken for retired", doc, err)
	}
	log.hidden = ""
	if err := c.Resume(t.Context(), "a", ""); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), doc.Storage[0].Name) {
		t.Errorf("%v; expected an error that names the storage topic", err)
	}
	if check, err := c.Check(t.Context(), "a"); err != nil || !strings.Contains(check.Problem, doc.Storage[0].Name) {
		t.Errorf("the check says %+v, %v; expected the same", check, err)
	}
	st, err := s.log.Topic(t.Context(), doc.Storage[0].Name)
	if err != nil {
		t.Fatalf("the records were deleted: %v", err)
	}
	must(t, st.Close())
}

// A log that lacks the newest storage topic, and has others, is an earlier one: what it has may be all that is left.
func TestALogWithoutTheNewestStorageTopicIsNotToBeDeleted(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	create(t, s.catalog, "a", topic.Config{Partitions: 2})
	s.records(t, open(t, s.catalog, "a"), 0, 8)
	s.grow(t, 4)
	doc, err := s.catalog.Get(t.Context(), "a")
	must(t, err)
	must(t, s.log.DeleteTopic(t.Context(), doc.Storage[1].Name))
	if _, err = s.catalog.CatchUp(t.Context(), "a"); !errors.Is(err, fault.NotFound) || strings.Contains(err.Error(), "delete") {
		t.Errorf("%v; expected that the log is an earlier one", err)
	}
}

// An addition that is cut short leaves a storage topic with the retention of its time. A later change holds: it does not
// go back when the storage topic is found.
func TestAnAdditionThatWasCutShortBringsNoRetentionBack(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	create(t, s.catalog, "a", topic.Config{Partitions: 2, RetentionAgeMS: 3_600_000, RetentionForce: true})
	before := s.definition(t, "a")
	_, err := s.catalog.AddStorage(t.Context(), "a", 4)
	must(t, err)
	s.define(t, "a", before) // its last step is missing
	_, err = s.catalog.Alter(t.Context(), "a", "", nil, topic.Retention{})
	must(t, err)
	doc, err := s.catalog.CatchUp(t.Context(), "a")
	if err != nil || len(doc.Storage) != 2 || doc.Retention() != (topic.Retention{}) {
		t.Fatalf("%+v, %v; expected two storage topics that keep all", doc, err)
	}
	must(t, s.catalog.Resume(t.Context(), "a", ""))
	all, err := s.log.Topics(t.Context())
	must(t, err)
	for _, c := range all {
		if c.RetentionAgeMillis != 0 || c.RetentionForce {
			t.Errorf("storage topic %s drops records: %+v", c.Name, c)
		}
	}
}
