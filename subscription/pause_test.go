package subscription

import (
	"context"
	"errors"
	"testing"

	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/topic"
)

func TestAPauseOfOneLifeDoesNotHitTheNext(t *testing.T) {
	t.Parallel()
	log, reg := memlog.New(), memregistry.New()
	defer log.Close()
	defer reg.Close()
	topics := topic.NewCatalog(log, reg, "")
	if _, err := topics.Ensure(t.Context(), "orders", topic.Config{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	c := NewCatalog(reg, topics)
	freely := func(context.Context, *Document) error { return nil }
	var lives []string
	for range 2 {
		d, err := c.Ensure(t.Context(), Document{Name: "billing", Topic: "orders"})
		if err != nil {
			t.Fatal(err)
		}
		if lives = append(lives, d.Life()); len(lives) == 2 {
			break
		}
		if err := c.Delete(t.Context(), "billing", freely, freely); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Pause(t.Context(), "billing", lives[0], "gone", "ann@host", false); !errors.Is(err, fault.NotFound) {
		t.Errorf("the first life was paused after its deletion: %v", err)
	}
	if d, err := c.Get(t.Context(), "billing"); err != nil || d.Paused != nil {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err := c.Pause(t.Context(), "billing", lives[1], "gone", ByEndpoint, false); err != nil || d.Paused == nil || *d.Paused != (Pause{Since: d.Paused.Since, Reason: "gone", By: ByEndpoint}) {
		t.Errorf("%+v, %v", d, err)
	}
}
