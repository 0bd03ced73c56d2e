package nemesis

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/ringfence/ringfence/api"
	"github.com/ringfence/ringfence/internal/harness"
	"github.com/ringfence/ringfence/internal/history"
	"github.com/ringfence/ringfence/internal/testserver"
)

// troubles are all ways to hurt the world.
var troubles = []trouble{
	{Trouble: harness.Trouble{Name: "kill -9 a member", Hurts: aMember, Hold: upToASecond}, begin: killMember},
	{Trouble: harness.Trouble{Name: "stop a member beyond its lease", Hurts: aMember, Alone: true, Hold: [2]time.Duration{ttl, ttl + 500*time.Millisecond}}, begin: stopMember},
	{Trouble: harness.Trouble{Name: "a crowd of members comes and goes", Hurts: aMember, Hold: upToASecond}, begin: crowd},
	{Trouble: harness.Trouble{Name: "a member leaves", Hurts: aMember, Hold: upToASecond}, begin: leave},

	{Trouble: harness.Trouble{Name: "kill the server", Hurts: theServer, Hold: upToASecond}, begin: silence((*testserver.Server).Kill, (*testserver.Server).Restart)},
	{Trouble: harness.Trouble{Name: "stop the server", Hurts: theServer, Hold: [2]time.Duration{time.Second, 2 * time.Second}}, soak: time.Minute, begin: silence((*testserver.Server).Stop, (*testserver.Server).Restart)},
	{Trouble: harness.Trouble{Name: "freeze the server", Hurts: theServer, Hold: [2]time.Duration{0, ttl + time.Second}}, begin: silence((*testserver.Server).Freeze, (*testserver.Server).Thaw)},

	{Trouble: harness.Trouble{Name: "lose replies", Hurts: aNetwork, Hold: aWhile}, begin: network(func(p *testserver.Proxy) { p.Down(testserver.Fault{Drop: true}) }, lostReplies)},
	{Trouble: harness.Trouble{Name: "cut a reply in the middle", Hurts: aNetwork, Hold: upToASecond}, begin: network(func(p *testserver.Proxy) { p.Down(testserver.Fault{Drop: true, After: 100}) }, lostReplies)},
	{Trouble: harness.Trouble{Name: "lose requests", Hurts: aNetwork, Hold: aWhile}, begin: network(func(p *testserver.Proxy) { p.Up(testserver.Fault{Drop: true}) }, lostRequests)},
	{Trouble: harness.Trouble{Name: "pull the cable", Hurts: aNetwork, Hold: aWhile}, begin: network((*testserver.Proxy).Blackhole, lostAnything)},
	{Trouble: harness.Trouble{Name: "swallow connections", Hurts: aNetwork, Hold: aWhile}, begin: network((*testserver.Proxy).Swallow, lostAnything)},
	{Trouble: harness.Trouble{Name: "refuse connections", Hurts: aNetwork, Hold: upToASecond}, begin: network((*testserver.Proxy).Refuse, wasReset)},
	{Trouble: harness.Trouble{Name: "reset connections", Hurts: aNetwork}, begin: network((*testserver.Proxy).Reset, wasReset)},
	{Trouble: harness.Trouble{Name: "slow network", Hurts: aNetwork, Hold: aWhile}, begin: network(func(p *testserver.Proxy) {
		p.Up(testserver.Fault{Delay: 100 * time.Millisecond})
		p.Down(testserver.Fault{Delay: 50 * time.Millisecond})
	}, wasDelayed)},
}

var (
	upToASecond = [2]time.Duration{0, time.Second}
	aWhile      = [2]time.Duration{500 * time.Millisecond, ttl + 500*time.Millisecond}
)

// network breaks one of the proxies, so that some members are not touched, and waits until it
// shows in what the proxy counts. What hurts the connections of one moment only is done again until
// then: those of the first moment may all have been over, or idle for as long as the test waits.
func network(harm func(*testserver.Proxy), shows func(before, after testserver.Harm) bool) func(*world, int) func() {
	return func(w *world, pick int) func() {
		p := w.proxies[pick%len(w.proxies)]
		w.until("somebody is connected", func() bool { return p.Connections() > 0 })
		before := p.Harm()
		w.until("the network is seen to be broken", func() bool {
			harm(p)
			return shows(before, p.Harm())
		})
		return p.Heal
	}
}

func lostReplies(a, b testserver.Harm) bool  { return b.LostDown > a.LostDown }
func lostRequests(a, b testserver.Harm) bool { return b.LostUp > a.LostUp }
func lostAnything(a, b testserver.Harm) bool { return lostReplies(a, b) || lostRequests(a, b) }
func wasReset(a, b testserver.Harm) bool     { return b.Reset > a.Reset || b.Refused > a.Refused }
func wasDelayed(a, b testserver.Harm) bool   { return b.Delayed > a.Delayed }

// silence takes the server away, and waits until it does not answer.
func silence(take, giveBack func(*testserver.Server)) func(*world, int) func() {
	return func(w *world, _ int) func() {
		take(w.server)
		w.until("the server is silent", func() bool {
			ctx, cancel := context.WithTimeout(w.t.Context(), 300*time.Millisecond)
			defer cancel()
			_, err := w.clients[0].Admin().DescribeGroup(ctx, scenes[0].group)
			return err != nil
		})
		return func() {
			giveBack(w.server)
			if w.store.prepare != nil {
				w.store.prepare(w.t, w.server.URL())
			}
		}
	}
}

func killMember(w *world, pick int) func() {
	who := regular(pick % regulars)
	p := w.remove(who, (*harness.Process).Kill)
	w.until(who+" was killed", func() bool { return p.Ended() && p.EndedBy(syscall.SIGKILL) })
	return func() { w.start(who) }
}

func leave(w *world, pick int) func() {
	who := regular(pick % regulars)
	w.remove(who, (*harness.Process).Leave) // how it ended is looked at in the end
	return func() { w.start(who) }
}

// crowd starts members until there are ten; then half of them are killed and half leave.
func crowd(w *world, _ int) func() {
	var names []string
	for i := range 10 - len(w.members) {
		names = append(names, fmt.Sprintf("crowd-%d", w.starts))
		w.start(names[i])
	}
	return func() { w.disperse(names) }
}

func (w *world) disperse(names []string) {
	for i, name := range names {
		w.remove(name, []func(*harness.Process) error{(*harness.Process).Kill, (*harness.Process).Leave}[i%2])
	}
}

// stopMember stops a member that has committed for a unit it owns, lets it go on when others have
// all of its units, and waits until it was told that its commits are refused. That none was
// accepted is for the judge.
//
// Where a process that is stopped amid a transaction keeps all others out, until it goes on or
// dies, it is stopped while there is nothing to process. When it nevertheless keeps them out, it
// goes on and the next one is tried.
func stopMember(w *world, pick int) func() {
	who := regular(pick % regulars)
	p := w.freeze(who)
	return func() {
		for !w.bereft(who) {
			w.t.Logf("%s was stopped amid a transaction: it goes on, and the next one is stopped", who)
			w.must(p.Thaw())
			pick++
			who = regular(pick % regulars)
			p = w.freeze(who)
		}
		continued := history.Now()
		w.must(p.Thaw())
		w.until("a commit of "+who+" is refused", func() bool { return w.commits(p, continued, history.Refused, anyUnit) })
		w.refused++
	}
}

// freeze stops a member once it has committed for a unit that it owns.
func (w *world) freeze(who string) *process {
	var p *process
	w.until(who+" has committed for a unit that it owns", func() bool {
		p = w.members[who] // a start that ended because the store was away is made again meanwhile
		owned := w.owned(who)
		return w.commits(p, 0, history.Accepted, func(e *history.Event) bool { return slices.Contains(owned, unit(scenes[0], e.Unit)) })
	})
	if w.store.waits {
		w.idle.Store(true)
		defer w.idle.Store(false)
		w.await("everything is processed", func(_ scene, g api.Group) bool { return g.Lag == 0 })
	}
	w.must(p.Freeze(w.t.Context()))
	return p
}

// bereft waits until a stopped member has no unit any more. False: it keeps the others out.
func (w *world) bereft(who string) bool {
	patience := time.Now().Add(max(3*time.Second, w.store.patience))
	gaveUp := false
	w.until("others own what "+who+" had", func() bool {
		owned := w.owned(who)
		gaveUp = w.store.waits && time.Now().After(patience)
		return owned != nil && len(owned) == 0 || gaveUp
	})
	return !gaveUp
}

// owned are the units of a member in all scenes that are not finished; nil: the store does not tell.
func (w *world) owned(who string) []string {
	owned := []string{}
	for i, s := range scenes {
		ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
		g, err := w.clients[i].Admin().DescribeGroup(ctx, s.group)
		cancel()
		if err != nil {
			return nil
		}
		for _, u := range g.Units {
			if u.Owner == who && u.Phase != api.Finished {
				owned = append(owned, unit(s, u.Unit))
			}
		}
	}
	return owned
}

func unit(s scene, number int) string { return fmt.Sprintf("%s/%d", s, number) }

func anyUnit(*history.Event) bool { return true }

// commits says whether a member was told of a commit with that outcome after a moment, in the
// first scene, that is fit.
func (w *world) commits(p *process, after int64, outcome history.Outcome, fit func(*history.Event) bool) bool {
	events, err := read(p.path(scenes[0]))
	w.must(err)
	for _, e := range events {
		if e.Kind == history.Committed && e.Outcome == outcome && e.At > after && fit(&e) {
			return true
		}
	}
	return false
}

// hurt lets troubles happen until the time is up and each kind has come once.
func (w *world) hurt(kinds []trouble, length time.Duration, full bool) {
	w.t.Helper()
	began := time.Now()
	for s := range plan(w.seed, kinds, full) {
		if s.Round > 0 && time.Since(began) >= length {
			return
		}
		w.await("the regular members are there", func(_ scene, g api.Group) bool { return has(g, regulars) })
		var hold time.Duration
		var ends []func()
		for _, x := range s.Injections {
			w.t.Logf("%6.2f s: %s, for %s", time.Since(began).Seconds(), x.Name, x.Hold.Round(time.Millisecond))
			ends = append(ends, named(kinds, x.Name).begin(w, x.Pick))
			hold = max(hold, x.Hold)
			w.happened[x.Name]++
		}
		time.Sleep(hold) // the fault itself
		for _, end := range ends {
			if end != nil {
				end()
			}
		}
		w.growing.Wait()
		time.Sleep(s.Calm) // calm between faults
	}
}

func has(g api.Group, members int) bool { return len(g.Members) >= members }
