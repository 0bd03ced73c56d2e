package subscription

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/topic"
)

// The registry has forgotten a reshard, of which the log has the journals of both sets. The older one goes on, as its end
// names the next; and a deletion removes both.
func TestForgottenSetIsFoundAndDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, reg := memlog.New(), memregistry.New()
		defer log.Close()
		defer reg.Close()
		topics := topic.NewCatalog(log, reg, "")
		_, err := topics.Ensure(t.Context(), "orders", topic.Config{Partitions: 2})
		if err != nil {
			t.Fatal(err)
		}
		c := NewCatalog(reg, topics)
		d, err := c.Ensure(t.Context(), Document{Name: "billing", Topic: "orders"})
		if err != nil {
			t.Fatal(err)
		}
		first := d.Set()
		newer := *d
		newer.Sets = append(slices.Clone(d.Sets), Set{Set: 1, ID: "newerset", Shards: 1, State: active})
		newer.Sets[0].State = retired
		if err := c.takeUp(t.Context(), &newer); err != nil {
			t.Fatal(err)
		}
		if _, err := reg.Txn(t.Context(), registry.Txn{Deletes: []string{prefix + "billing"}}); err != nil {
			t.Fatal(err)
		}
		if d, err = c.Ensure(t.Context(), Document{Name: "billing", Topic: "orders"}); err != nil || d.Set().ID != first.ID {
			t.Errorf("%+v, %v; expected that set %s goes on", d, err, first.ID)
		}
		freely := func(context.Context, *Document) error { return nil }
		if err := c.Delete(t.Context(), "billing", freely, freely); err != nil {
			t.Fatal(err)
		}
		if all, err := log.Topics(t.Context()); err != nil || len(all) != 1 {
			t.Errorf("the log has %+v, %v; expected the main topic alone", all, err)
		}
	})
}
