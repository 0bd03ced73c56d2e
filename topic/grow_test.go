package topic_test

import (
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/topic"
)

// Who resumes a switch that somebody else finishes meanwhile must not begin the next one.
func TestResumingSwitchesNoFurtherThanAsked(t *testing.T) {
	t.Parallel()
	store, log := memregistry.NewStore(), memlog.New()
	slow, fast := store.Open(), store.Open()
	late := topic.NewCatalog(log, slow.Registry, "")
	s := &setup{log: log, reg: fast.Registry, handle: fast, catalog: topic.NewCatalog(log, fast.Registry, "")}
	create(t, s.catalog, "a", topic.Config{Partitions: 2})
	for _, n := range []int{4, 8} {
		if _, err := s.catalog.AddStorage(t.Context(), "a", n); err != nil {
			t.Fatal(err)
		}
	}
	s.edit(t, "a", `"produce":0`, `"produce":0,"switching":true`)
	slow.SetLatency(100 * time.Millisecond)
	var wg sync.WaitGroup
	for i := range 10 { // some of them read before the switch below, and go on after it
		wg.Go(func() {
			time.Sleep(time.Duration(i) * 20 * time.Millisecond)
			if err := late.Resume(t.Context(), "a"); err != nil {
				t.Error(err)
			}
		})
	}
	time.Sleep(150 * time.Millisecond)
	if err := s.catalog.Resume(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if doc, err := s.catalog.Get(t.Context(), "a"); err != nil || doc.Produce != 1 || doc.Switching {
		t.Errorf("one switch was asked for; the definition is %+v, %v", doc, err)
	}
}
