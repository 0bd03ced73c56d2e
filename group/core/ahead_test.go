package core

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/registry"
)

// A member may hear of a growth after the group did. It makes no room for units that no topic can have
// got meanwhile.
func TestAGroupFarAheadOfItsTopicIsRefused(t *testing.T) {
	t.Parallel()
	for units, refused := range map[int]bool{2: false, 3: false, 2 + maxAhead: false, 3 + maxAhead: true, registry.MaxUnits: true} {
		w := newWorld(t)
		s := New(Config{Group: w.group, Topic: "t", Units: 2, Layout: two(-1, -1), Assignor: w.start("a").s.cfg.Assignor, SessionTTL: time.Second})
		err := s.checkMeta(&registry.Meta{Format: 1, Topic: "t", Units: units, Assignor: s.cfg.Assignor.Name()})
		if refused != errors.Is(err, fault.Corrupt) || err != nil && !strings.Contains(err.Error(), w.group.MetaKey()) {
			t.Errorf("%d units: %v; refused should be %v", units, err, refused)
		}
	}
}
