package shard

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
)

// An outage is told at once, and how many attempts there are once a second: in between it stays what it was.
func TestTheRateThatWasToldOutlastsTheOpeningOfTheBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &circuit{}
		s := within(&Limiter{circuit: b}, nil, nil)
		_ = s.Deliveries()
		s.stats.begun.Add(14)
		time.Sleep(2 * statsEvery)
		if d := s.Deliveries(); d == nil || d.Rate != 7 || d.HeldBack != nil {
			t.Fatalf("14 attempts in 2 s are told as %+v", d)
		}
		b.why, b.since = "away", time.Now()
		b.period.Add(1)
		want := protocol.Deliveries{At: time.Now().UnixMilli(), Rate: 7, HeldBack: &protocol.HeldBack{Since: time.Now().UnixMilli(), Why: "away"}}
		if d := s.Deliveries(); d == nil || !d.Same(&want) || d.Rate != want.Rate {
			t.Errorf("in an outage it is told %+v; expected %+v", d, want)
		}
	})
}
