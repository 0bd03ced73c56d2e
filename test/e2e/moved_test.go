package e2e_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/topic"
)

// A topic moves to another log, within one registry, under a consumer of the old one: that ends. Nor
// can the old log's client begin another, or delete the topic.
func TestAClientOfTheOldLogLetsGoOfATopicThatMoved(t *testing.T) {
	t.Parallel()
	s := newStores()
	rf := s.open(t)
	must := func(err error) {
		t.Helper()
		must(t, err)
	}
	must(rf.EnsureTopic(t.Context(), "orders", ringfence.TopicConfig{Partitions: 1}))
	produce(t, rf, "orders", 0, 5, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	r := newRecorder()
	go func() { ended <- rf.Consume(ctx, "orders", "billing", r.handle, nil) }()
	<-r.more
	log, reg := memlog.New(), s.reg.Open()
	catalog := topic.NewCatalog(log, reg.Registry, "")
	doc, err := catalog.Get(t.Context(), "orders")
	must(err)
	doc.Storage[0].Name = topic.MovedName(doc.Storage[0].Name)
	must(log.CreateTopic(t.Context(), commitlog.TopicConfig{Name: doc.Storage[0].Name, Partitions: 1}))
	must(catalog.Adopt(t.Context(), doc))
	if err := <-ended; !errors.Is(err, ringfence.ErrConflict) {
		t.Errorf("the consumer that ran ended with %v", err)
	}
	if err := rf.Consume(ctx, "orders", "billing", r.handle, nil); !errors.Is(err, ringfence.ErrConflict) {
		t.Errorf("a consumer that begins ended with %v", err)
	}
	if err := rf.Admin().DeleteTopic(ctx, "orders", &admin.DeleteTopicOptions{Force: true}); !errors.Is(err, ringfence.ErrConflict) {
		t.Errorf("the topic is deleted: %v", err)
	}
	must(errors.Join(log.Close(), reg.Close()))
}
