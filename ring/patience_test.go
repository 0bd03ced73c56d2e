package ring_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
	"github.com/ringfence/ringfence/registry/memregistry"
	"github.com/ringfence/ringfence/ring"
)

// blunt is a store that notices a death by nothing but the TTL.
type blunt struct {
	*registry.Registry
	mu    sync.Mutex
	asked []time.Duration
}

func (*blunt) SessionTTL() time.Duration { return 1900 * time.Millisecond }

func (b *blunt) OpenSession(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	b.mu.Lock()
	b.asked = append(b.asked, ttl)
	b.mu.Unlock()
	return b.Registry.OpenSession(ctx, ttl)
}

// Members ask for the TTL that the store is for, when nobody says another: where a death is noticed
// by nothing else, it is how long a takeover takes. A ring of slots is a group.
func TestMembersAskForTheTTLOfTheStore(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, mode ring.Mode) {
		for asked, want := range map[time.Duration]time.Duration{0: 1900 * time.Millisecond, 7 * time.Second: 7 * time.Second} {
			h := memregistry.NewStore().Open()
			t.Cleanup(func() { _ = h.Close() })
			b := &blunt{Registry: h.Registry}
			join(t, registry.New(b), mode, "m", func(c *ring.Config) { c.TTL = asked })
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, got := range b.asked {
				if got != want {
					t.Errorf("asked for %s, a member opened a session with a TTL of %s; expected %s", asked, got, want)
				}
			}
		}
	})
}
