package push_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/driver"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/registry"
	registrydriver "github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/memregistry"
)

// blinded is a registry that answers all but the question which subscriptions there are, while it is blind.
type blinded struct {
	registrydriver.Registry
	blind   atomic.Bool
	refused atomic.Int64 // so many times
}

func (b *blinded) List(ctx context.Context, prefix string) (registrydriver.Snapshot, error) {
	if prefix == "subscriptions/" && b.blind.Load() {
		b.refused.Add(1)
		return registrydriver.Snapshot{}, registrydriver.ErrUnavailable
	}
	return b.Registry.List(ctx, prefix)
}

func blindable(t *testing.T) (*ringfence.Client, *blinded) {
	t.Helper()
	log, reg := memlog.NewStore(nil), &blinded{Registry: memregistry.New()}
	rf, err := ringfence.Open(t.Context(), ringfence.Config{Log: "blind:", Registry: "blind:", Backends: []ringfence.Backend{{
		Scheme:  "blind",
		OpenLog: func(context.Context, *url.URL, driver.Options) (*commitlog.Log, error) { return log.Open(), nil },
		OpenRegistry: func(context.Context, *url.URL, registrydriver.Options) (*registry.Registry, error) {
			return registry.New(reg), nil
		},
	}}})
	must(t, err)
	t.Cleanup(func() { must(t, rf.Close()) })
	must(t, rf.EnsureTopic(t.Context(), "payments", ringfence.TopicConfig{Partitions: 1}))
	return rf, reg
}

// A daemon that was about to deliver a subscription, and stood still meanwhile, has read where it goes to. The next
// one of its name goes elsewhere, and what is its is nobody else's business.
func TestAnEndpointGetsNothingOfTheNextSubscriptionOfTheName(t *testing.T) {
	t.Parallel()
	rf, reg := blindable(t)
	var old, next inbox
	there := receiver(t, next.ServeHTTP)
	subscribed(t, rf, "billing", receiver(t, old.ServeHTTP))
	var once sync.Once
	daemonTelling(t, rf, slog.New(slog.NewTextHandler(writer(func(line []byte) {
		switch {
		case bytes.Contains(line, []byte("the subscription is delivered")):
			once.Do(func() {
				reg.blind.Store(true) // before, or the daemon sees that it is gone, and stops
				err := rf.Admin().DeleteSubscription(t.Context(), "billing", &admin.DeleteSubscriptionOptions{Force: true})
				if err != nil {
					t.Error(err)
				}
				subscribed(t, rf, "billing", there)
				produce(t, rf, "payments", "k", "1")
			})
		case bytes.Contains(line, []byte("not delivered any more")):
			reg.blind.Store(false)
		}
	}), nil)))
	eventually(t, "the record", func() bool { return len(old.has("billing/k"))+len(next.has("billing/k")) > 0 })
	if got := old.has("billing/k"); len(got) > 0 {
		t.Errorf("the endpoint of the subscription that is gone got %q", got)
	}
}
