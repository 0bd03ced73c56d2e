package group

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/registry"
	"github.com/ringfence/ringfence/registry/driver"
)

// blunt is a store that notices a death by nothing but the TTL.
type blunt struct{ driver.Registry }

func (blunt) SessionTTL() time.Duration { return 1900 * time.Millisecond }

func TestTheTTLOfTheStoreIsTheDefault(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg  Config
		want time.Duration
	}{
		{Config{}, 5 * time.Second},
		{Config{Registry: registry.New(nil)}, 5 * time.Second},
		{Config{Registry: registry.New(blunt{})}, 1900 * time.Millisecond},
		{Config{Registry: registry.New(blunt{}), SessionTTL: time.Second}, time.Second},
	} {
		if got := c.cfg.withDefaults().SessionTTL; got != c.want {
			t.Errorf("%+v: a TTL of %s; expected %s", c.cfg, got, c.want)
		}
	}
}
