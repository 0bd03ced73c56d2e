package e2e_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/admin"
	registrypkg "github.com/ringfence/ringfence/registry"
)

// Who can write to the registry can ask for any shard set, at any step of a turn, while it is delivered or
// before: members end with an error that says so.
func TestAShardSetThatCanNotBeSharedIsNoPanic(t *testing.T) {
	t.Parallel()
	for name, sets := range map[string][2]string{"making": {"active", "making"}, "active": {"closing", "active"}} {
		for _, live := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s, rf := newTopic(t, 2)
				_, err := rf.Admin().CreateSubscription(t.Context(), "billing", admin.SubscriptionConfig{Topic: "orders"})
				must(t, err)
				produce(t, rf, "orders", 0, 10, 3)
				reg := s.reg.Open()
				e, err := reg.Get(t.Context(), "subscriptions/billing")
				must(t, errors.Join(err, reg.Close()))
				doc := func(e registrypkg.Entry) string {
					v := string(e.Value)
					v = strings.Replace(v, `"state":"active"`, `"state":"`+sets[0]+`"`, 1)
					return strings.Replace(v, `}]`, `},{"set":1,"id":"haaaaaaa","shards":64,"state":"`+sets[1]+`"}]`, 1)
				}(e)
				if !live {
					forge(t, s, e.Key, doc)
				}
				var d delivered
				h := d.handler(fine)
				over := make(chan error, 1)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				go func() { over <- rf.Subscribe(ctx, "billing", h, nil) }()
				if live {
					eventually(t, "it is delivered", func() bool { return len(d.of("k0")) == 4 })
					forge(t, s, e.Key, doc)
				}
				if err := <-over; !errors.Is(err, ringfence.ErrCorrupt) && !errors.Is(err, ringfence.ErrNotFound) {
					t.Errorf("live: %t: %v; expected damage", live, err)
				}
				if _, err := rf.Admin().DescribeGroup(t.Context(), "billing..haaaaaaa"); !errors.Is(err, ringfence.ErrNotFound) {
					t.Error(err)
				}
			})
		}
	}
}
