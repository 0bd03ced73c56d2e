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
	if _, err := c.Pause(t.Context(), "billing", Pausing{Life: lives[0], Reason: "gone", By: "ann@host"}); !errors.Is(err, fault.NotFound) {
		t.Errorf("the first life was paused after its deletion: %v", err)
	}
	if d, err := c.Get(t.Context(), "billing"); err != nil || d.Paused != nil {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err := c.Pause(t.Context(), "billing", Pausing{Life: lives[1], Reason: "gone", By: ByEndpoint}); err != nil || d.Paused == nil || *d.Paused != (Pause{Since: d.Paused.Since, Reason: "gone", By: ByEndpoint}) {
		t.Errorf("%+v, %v", d, err)
	}
}

// A change that began with one subscription doesn't reach the next of its name, nor does what is known of one endpoint
// count for another.
func TestAChangeIsOfOneSubscriptionAndOneEndpoint(t *testing.T) {
	t.Parallel()
	log, reg := memlog.New(), memregistry.New()
	defer log.Close()
	defer reg.Close()
	topics := topic.NewCatalog(log, reg, "")
	if _, err := topics.Ensure(t.Context(), "orders", topic.Config{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	c := NewCatalog(reg, topics)
	anew := func() *Document {
		d, err := c.Ensure(t.Context(), Document{Name: "billing", Topic: "orders", Endpoint: &Endpoint{URL: "http://a.example.com"}})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := anew()
	if err := c.NoteTaken(t.Context(), "billing", d.Life(), "http://a.example.com"); err != nil {
		t.Fatal(err)
	}
	for url, taken := range map[string]bool{"http://a.example.com": true, "http://b.example.com": false} {
		got, err := c.Alter(t.Context(), "billing", func(now Document) (Document, error) {
			now.Endpoint = &Endpoint{URL: url, TimeoutMS: 77}
			return now, nil
		})
		if err != nil || (got.TakenAt != 0) != taken {
			t.Errorf("altered to %s: %+v, %v; expected that it has taken records: %t", url, got, err, taken)
		}
		if _, err := c.Alter(t.Context(), "billing", func(Document) (Document, error) { return *d, nil }); err != nil {
			t.Fatal(err)
		}
		if err := c.NoteTaken(t.Context(), "billing", d.Life(), "http://a.example.com"); err != nil {
			t.Fatal(err)
		}
	}
	if d, err := c.Pause(t.Context(), "billing", Pausing{Reason: "401", By: ByEndpoint, Untaken: true}); err != nil || d.Paused != nil {
		t.Errorf("an endpoint that has taken records pauses the subscription: %+v, %v", d, err)
	}
	freely := func(context.Context, *Document) error { return nil }
	again := false
	_, err := c.change(t.Context(), "billing", func(d *Document) (bool, error) {
		if !again {
			again = true
			if err := c.Delete(t.Context(), "billing", freely, freely); err != nil {
				t.Fatal(err)
			}
			anew()
		}
		d.Paused = &Pause{Since: 1}
		return true, nil
	})
	if d, also := c.Get(t.Context(), "billing"); !errors.Is(err, fault.NotFound) || also != nil || d.Paused != nil {
		t.Errorf("%v; the next subscription of the name is %+v, %v", err, d, also)
	}
}
