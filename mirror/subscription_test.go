package mirror_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/subscription"
	"github.com/ringfence/ringfence/topic"
)

// What a subscription has parked is named by places of the source.
func TestACutOverLeavesTheTopicOfASubscriptionWhereItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.produce(0, 20)
	c := subscription.NewCatalog(w.from.Registry, topic.NewCatalog(w.from.Log, w.from.Registry, ""))
	_, err := c.Ensure(t.Context(), subscription.Document{Name: "billing", Topic: name})
	w.must(err)
	refused := func(what, whose string) {
		t.Helper()
		if _, err := w.mirror(false).CutOver(t.Context()); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), whose) {
			t.Errorf("%s: %v; expected fault.Conflict and %s", what, err, whose)
		}
		w.produce(100, 1) // it was not sealed
	}
	refused("a subscription", `"billing"`)
	_, err = w.from.Registry.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "subscriptions/damaged", Value: []byte("?")}}, Deletes: []string{"subscriptions/billing"}})
	w.must(err)
	refused("one that can't be read", `"damaged"`)
	_, err = w.from.Registry.Txn(t.Context(), registry.Txn{Deletes: []string{"subscriptions/damaged"}})
	w.must(err)
	_, err = w.mirror(false).CutOver(t.Context())
	w.must(err)
}
