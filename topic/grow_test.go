package topic_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/topic"
)

// Who resumes a switch that somebody else finishes meanwhile must not begin the next one.
func TestResumingSwitchesNoFurtherThanAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, log := memregistry.NewStore(), memlog.New()
		slow, fast := store.Open(), store.Open()
		late := topic.NewCatalog(log, slow.Registry, "")
		s := &setup{log: log, reg: fast.Registry, handle: fast, catalog: topic.NewCatalog(log, fast.Registry, "")}
		create(t, s.catalog, "a", topic.Config{Partitions: 2})
		for _, n := range []int{4, 8} {
			_, err := s.catalog.AddStorage(t.Context(), "a", n)
			must(t, err)
		}
		s.seal(t, "a", 0)
		slow.SetLatency(100 * time.Millisecond)
		var wg sync.WaitGroup
		for i := range 10 { // some of them read before the switch below, and go on after it
			wg.Go(func() {
				<-time.After(time.Duration(i) * 20 * time.Millisecond)
				if err := late.Resume(t.Context(), "a", ""); err != nil {
					t.Error(err)
				}
			})
		}
		<-time.After(150 * time.Millisecond)
		must(t, s.catalog.Resume(t.Context(), "a", ""))
		wg.Wait()
		if doc, err := s.catalog.Get(t.Context(), "a"); err != nil || doc.Produce != 1 {
			t.Errorf("one switch was asked for; the definition is %+v, %v", doc, err)
		}
	})
}

func TestOneAdditionIsOneStorageTopicThoughAnswersAreLost(t *testing.T) {
	t.Parallel()
	for lost := range 4 {
		s := newSetup(t)
		create(t, s.catalog, "a", topic.Config{Partitions: 2})
		s.handle.LoseReplies(lost)
		if doc, err := s.catalog.AddStorage(t.Context(), "a", 4); err != nil || len(doc.Storage) != 2 {
			t.Errorf("%d answers lost: one addition made %+v, %v", lost, doc, err)
		}
	}
}

// A switch finishes the addition before it, between the two writes of whoever began that.
func TestOneAdditionIsOneStorageTopicThoughSomebodyElseFinishesIt(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	create(t, s.catalog, "a", topic.Config{Partitions: 2})
	other := topic.NewCatalog(s.log, s.reg, "")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			_, _ = other.Switch(ctx, "a") // most times there is nothing to switch to
		}
	})
	const additions = 50
	for range additions {
		_, err := s.catalog.AddStorage(t.Context(), "a", 4)
		must(t, err)
	}
	cancel()
	wg.Wait()
	if doc, err := s.catalog.Get(t.Context(), "a"); err != nil || len(doc.Storage) != 1+additions {
		t.Errorf("%d additions made %d storage topics, %v", additions, len(doc.Storage)-1, err)
	}
}
