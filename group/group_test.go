package group_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
)

func contains(s, sub string) bool { return strings.Contains(s, sub) }

func TestMembersShareTheUnitsAndLeaveWithoutRepeating(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a := c.start("a")
		pass(time.Second)
		c.shared(a)
		b := c.start("b")
		pass(time.Second)
		c.shared(a, b)
		d := c.start("d")
		pass(time.Second)
		c.shared(a, b, d)
		if err := b.stop(); err != nil {
			t.Errorf("b left with %v", err)
		}
		pass(time.Second)
		c.shared(a, d)
		if err := a.stop(); err != nil {
			t.Errorf("a left with %v", err)
		}
		pass(time.Second)
		c.shared(d)
		if err := d.stop(); err != nil {
			t.Errorf("d left with %v", err)
		}
		c.each(0)
	})
}

func TestUnmovedUnitsKeepTheirWorker(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a := c.start("a")
		pass(time.Second)
		b := c.start("b")
		pass(time.Second)
		for _, u := range a.owns() {
			if n := a.startsOf(u); n != 1 {
				t.Errorf("unit %d stayed on a, but its worker was started %d times", u, n)
			}
		}
		b.kill()
		d := c.start("d")
		pass(time.Second)
		c.shared(a, d)
	})
}

func TestKilledMemberIsReplacedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a, b := c.start("a"), c.start("b")
		pass(time.Second)
		c.shared(a, b)
		lost := b.owns()
		b.kill()
		died := time.Now()
		pass(time.Second)
		c.shared(a)
		for _, u := range lost {
			of, i := c.of(u), 0
			for of[i].at.Before(died) || of[i].member == "b" {
				i++
			}
			// The clock of the bubble stands still while the processes work: what is left is
			// the handler's time, and any timer that was waited for.
			if wait := of[i].at.Sub(died); wait > pace {
				t.Errorf("unit %d: the first record after the kill came %s later; want no timer in the way", u, wait)
			}
		}
		c.each(len(lost) * int(100*time.Millisecond/pace+1))
		if !a.saw("b is gone") {
			t.Errorf("a does not say why it took over: %q", a.events)
		}
	})
}

func TestSurplusMembersStandBy(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		var ps []*proc
		for i := range units + 2 {
			ps = append(ps, c.start(string(rune('a'+i))))
		}
		pass(3 * time.Second)
		busy := 0
		for _, p := range ps {
			if len(p.owns()) > 1 {
				t.Errorf("%s runs %v; want at most one", p.name, p.owns())
			}
			busy += len(p.owns())
		}
		if busy != units {
			t.Errorf("%d units run; want %d", busy, units)
		}
		for _, p := range ps {
			if len(p.owns()) == 1 {
				p.kill()
				break
			}
		}
		pass(time.Second)
		busy = 0
		for _, p := range ps {
			busy += len(p.owns())
		}
		if busy != units {
			t.Errorf("%d units run after a kill; want %d: a member on standby takes over", busy, units)
		}
		c.each(units * 11)
	})
}

func TestOutageIsAPause(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a, b := c.start("a"), c.start("b")
		pass(time.Second)
		c.store.SetOutage(true)
		out := time.Now()
		pass(5 * time.Second)
		if got := append(a.owns(), b.owns()...); len(got) > 0 {
			t.Errorf("units %v still run %s into the outage; want none after the lease", got, time.Since(out))
		}
		pass(20 * time.Second)
		c.store.SetOutage(false)
		pass(3 * time.Second)
		c.shared(a, b)
		for u := range units {
			last := c.last(u)
			if time.Since(last.at) > time.Second {
				t.Errorf("unit %d: last record %s ago", u, time.Since(last.at))
			}
		}
		c.each(units * 510)
		if !a.saw("paused") {
			t.Error("a does not say that it pauses")
		}
	})
}

func TestShortOutageStopsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a, b := c.start("a"), c.start("b")
		pass(2 * time.Second)
		before := a.allStarts() + b.allStarts()
		c.store.SetOutage(true)
		pass(2 * time.Second)
		c.store.SetOutage(false)
		pass(2 * time.Second)
		c.shared(a, b)
		if after := a.allStarts() + b.allStarts(); after != before {
			t.Errorf("%d workers were started by an outage shorter than the lease", after-before)
		}
		c.each(0)
	})
}

func TestSecondProcessWithTheSameIDFencesTheFirst(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		one := c.start("a")
		pass(time.Second)
		two := c.start("a")
		<-one.end
		if err := one.err; err == nil || !contains(err.Error(), "started again") {
			t.Errorf("the first ended with %v; want that it was started again", err)
		}
		pass(time.Second)
		c.shared(two)
		c.each(units * 11)
	})
}

func TestMemberWithoutTheStoreStopsBeforeOthersMayTakeOver(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a, b := c.start("a"), c.start("b")
		pass(time.Second)
		mine := b.owns()
		b.h.SetOutage(true)
		cut := time.Now()
		pass(10 * time.Second)
		c.shared(a)
		for _, u := range mine {
			of := c.of(u)
			for i := 1; i < len(of); i++ {
				if x, y := of[i-1], of[i]; x.member == "a" && x.at.After(cut) && y.member == "b" {
					t.Errorf("unit %d: b processed offset %d after a had begun", u, y.offset)
				}
			}
		}
		b.h.SetOutage(false)
		pass(3 * time.Second)
		c.shared(a, b)
		c.each(units * 510)
	})
}

func TestSeekOnALiveGroup(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a := c.start("a")
		pass(time.Second)
		others := a.startsOf(4)
		to := protocol.Checkpoint{Positions: []protocol.Position{{Partition: 3, Next: 5000}}}
		must(t, c.admin.Seek(t.Context(), 3, to, "seek to 5000"))
		pass(time.Second)
		last := c.last(3)
		if last.offset < 5000 || last.epoch != 2 {
			t.Errorf("after the seek unit 3 is at %+v; want past 5000 at epoch 2", last)
		}
		if a.startsOf(4) != others {
			t.Error("the seek of unit 3 restarted unit 4")
		}
	})
}

func TestPauseAndResume(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a, b := c.start("a"), c.start("b")
		pass(time.Second)
		must(t, c.admin.Pause(t.Context(), "test"))
		pass(time.Second)
		if got := append(a.owns(), b.owns()...); len(got) > 0 {
			t.Errorf("units %v run though the group is paused", got)
		}
		must(t, c.admin.Resume(t.Context(), "test"))
		pass(time.Second)
		c.shared(a, b)
		must(t, c.admin.Pause(t.Context(), "test", 5))
		pass(time.Second)
		if got := append(a.owns(), b.owns()...); len(got) != units-1 {
			t.Errorf("units %v run; want all but 5", got)
		}
		a.kill()
		pass(time.Second)
		if got := b.owns(); len(got) != units-1 {
			t.Errorf("units %v run; want all but 5, which is paused, also after a takeover", got)
		}
		c.each(units * 11)
	})
}

func TestHungHandlerMovesItsUnitAway(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		b := c.start("b")
		pass(time.Second)
		a := c.start("a", func(p *proc) {
			p.cfg.ProgressTimeout = 2 * time.Second
			p.hang = func(u *group.Unit, offset int64) bool { return offset == 200 }
		})
		pass(20 * time.Second)
		if n := len(b.owns()); n != units {
			t.Errorf("b runs %d units; want all: each handler of a hangs", n)
		}
		for u := range units {
			if last := c.last(u); time.Since(last.at) > time.Second {
				t.Errorf("unit %d: last record %s ago", u, time.Since(last.at))
			}
		}
		if !a.saw("without progress") {
			t.Errorf("a does not tell of its handlers: %q", a.events)
		}
		c.each(units * 11)
	})
}

func TestStaticMemberKeepsItsUnitsThroughARestart(t *testing.T) {
	static := func(p *proc) { p.cfg.Static, p.cfg.RestartWindow = true, 30*time.Second }
	bubble(t, func(t *testing.T, c *cluster) {
		a, b := c.start("a", static), c.start("b", static)
		pass(time.Second)
		mine := b.owns()
		starts := a.allStarts()
		if err := b.stop(); err != nil {
			t.Errorf("b left with %v", err)
		}
		pass(20 * time.Second)
		if got := a.owns(); len(got) != units/2 || a.allStarts() != starts {
			t.Errorf("a runs %v during b's restart window; want its own half, untouched", got)
		}
		b = c.start("b", static)
		pass(time.Second)
		if got := b.owns(); len(got) != len(mine) || got[0] != mine[0] {
			t.Errorf("b runs %v after its restart; want %v", got, mine)
		}
		c.each(0)
		b.kill()
		pass(31 * time.Second)
		c.shared(a)
		c.each(units * 11)
	})
}

func TestLostRepliesAreRecognised(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a := c.start("a", func(p *proc) { p.h.LoseReplies(3) })
		pass(2 * time.Second)
		c.shared(a)
		a.h.LoseReplies(5)
		b := c.start("b")
		b.h.LoseRequests(2)
		pass(3 * time.Second)
		c.shared(a, b)
		b.h.LoseReplies(4)
		if err := b.stop(); err != nil {
			t.Errorf("b left with %v", err)
		}
		pass(time.Second)
		c.shared(a)
		c.each(0)
	})
}

func TestLeaveIsBoundedWhenTheStoreIsAway(t *testing.T) {
	bubble(t, func(t *testing.T, c *cluster) {
		a := c.start("a")
		pass(time.Second)
		c.store.SetOutage(true)
		began := time.Now()
		if err := a.stop(); err == nil {
			t.Error("a left without an error though it could hand nothing over")
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("the leave took %s", took)
		}
	})
}

func TestConfigReportsEveryFault(t *testing.T) {
	t.Parallel()
	err := group.Run(t.Context(), group.Config{Group: "a b", Units: -1, SessionTTL: 1, Weight: -2}, nil)
	for _, want := range []string{"no Registry", `group "a b"`, `member ""`, "no Topic", "-1 units", "weight -2", "session TTL 1ns"} {
		if err == nil || !contains(err.Error(), want) {
			t.Errorf("the error misses %q: %v", want, err)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
