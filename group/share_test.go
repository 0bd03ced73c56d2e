package group_test

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/assign"
	"github.com/ringfence/ringfence/group"
)

func TestWeightsAndZonesAreHonoured(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		zones := func(p *proc) {
			p.cfg.Zones = []string{"", "", "", "", "", "", "east", "east"}
			p.cfg.Weight = 1
			p.cfg.Zone = "east"
		}
		a := c.start("a", zones, func(p *proc) { p.cfg.Weight, p.cfg.Zone = 3, "west" })
		b := c.start("b", zones)
		pass(2 * time.Second)
		if got := a.owns(); len(got) != 6 {
			t.Errorf("a of weight 3 runs %v; want 6 of 8 beside b of weight 1", got)
		}
		if got := b.owns(); len(got) != 2 || got[0] != 6 || got[1] != 7 {
			t.Errorf("b runs %v; want 6 and 7, which are in its zone", got)
		}
		c.each(0)
	})
}

func TestEveryAssignorSettles(t *testing.T) {
	t.Parallel()
	for _, rule := range []assign.Assignor{assign.FairShare{}, assign.RoundRobin{}, assign.Sticky{}} {
		t.Run(rule.Name(), func(t *testing.T) {
			bubble(t, func(t *testing.T, c *cluster) {
				with := func(p *proc) { p.cfg.Assignor = rule }
				a, b, d := c.start("a", with), c.start("b", with), c.start("d", with)
				pass(2 * time.Second)
				c.shared(a, b, d)
				if err := b.stop(); err != nil {
					t.Errorf("b left with %v", err)
				}
				pass(2 * time.Second)
				c.shared(a, d)
				c.each(0)
			})
		})
	}
}

func TestMemberWaitsForAStoreThatIsNotThereYet(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		c.store.SetOutage(true)
		a := c.start("a", func(p *proc) { p.h.SetOutage(true) })
		pass(time.Minute)
		c.store.SetOutage(false)
		pass(2 * time.Second)
		c.shared(a)
		if !a.saw("retrying") {
			t.Errorf("a did not say what it waited for: %q", a.events)
		}
	})
}

// A handler that outlives the drain but heeds its context is cancelled, and its record is repeated
// by the next owner.
func TestDrainIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		long := func(p *proc) { p.cfg.DrainTimeout = 2 * time.Second }
		a := c.start("a", long, func(p *proc) {
			p.wait = func(_ *group.Unit, offset int64) time.Duration {
				if offset == 100 {
					return time.Hour
				}
				return pace
			}
		})
		pass(3 * time.Second)
		b := c.start("b", long)
		pass(time.Second)
		if got := b.owns(); len(got) != 0 {
			t.Errorf("b runs %v while a's handlers still have time", got)
		}
		pass(2 * time.Second)
		if got := b.owns(); len(got) != units/2 {
			t.Errorf("b runs %v after a's time to drain was up; want half", got)
		}
		began := time.Now()
		if err := a.stop(); err != nil {
			t.Errorf("a left with %v", err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("a took %s to leave; want its drain time", took)
		}
		pass(time.Second)
		c.shared(b)
		c.each(0)
	})
}
