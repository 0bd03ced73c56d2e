package nemesis

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/ringfence/ringfence"
	"github.com/ringfence/ringfence/internal/halt"
	"github.com/ringfence/ringfence/internal/history"
	"github.com/ringfence/ringfence/internal/testserver"
)

// troubles are all ways to hurt the world.
var troubles = []trouble{
	{name: "kill -9 a member", hurts: aMember, hold: upToASecond, begin: killMember},
	{name: "stop a member beyond its lease", hurts: aMember, alone: true, hold: [2]time.Duration{ttl, ttl + 500*time.Millisecond}, begin: stopMember},
	{name: "a crowd of members comes and goes", hurts: aMember, hold: upToASecond, begin: crowd},
	{name: "a member leaves", hurts: aMember, hold: upToASecond, begin: leave},

	{name: "kill the server", hurts: theServer, hold: upToASecond, begin: silence((*testserver.Server).Kill, (*testserver.Server).Restart)},
	{name: "stop the server", hurts: theServer, hold: [2]time.Duration{time.Second, 2 * time.Second}, soak: time.Minute, begin: silence((*testserver.Server).Halt, (*testserver.Server).Restart)},
	{name: "freeze the server", hurts: theServer, hold: [2]time.Duration{0, ttl + time.Second}, begin: silence((*testserver.Server).Freeze, (*testserver.Server).Thaw)},

	{name: "lose replies", hurts: aNetwork, hold: aWhile, begin: network(func(p *testserver.Proxy) { p.Down(testserver.Fault{Drop: true}) }, lostReplies)},
	{name: "cut a reply in the middle", hurts: aNetwork, hold: upToASecond, begin: network(func(p *testserver.Proxy) { p.Down(testserver.Fault{Drop: true, After: 100}) }, lostReplies)},
	{name: "lose requests", hurts: aNetwork, hold: aWhile, begin: network(func(p *testserver.Proxy) { p.Up(testserver.Fault{Drop: true}) }, lostRequests)},
	{name: "pull the cable", hurts: aNetwork, hold: aWhile, begin: network((*testserver.Proxy).Blackhole, lostAnything)},
	{name: "swallow connections", hurts: aNetwork, hold: aWhile, begin: network((*testserver.Proxy).Swallow, lostAnything)},
	{name: "refuse connections", hurts: aNetwork, hold: upToASecond, begin: network((*testserver.Proxy).Refuse, wasReset)},
	{name: "reset connections", hurts: aNetwork, begin: network((*testserver.Proxy).Reset, wasReset)},
	{name: "slow network", hurts: aNetwork, hold: aWhile, begin: network(func(p *testserver.Proxy) {
		p.Up(testserver.Fault{Delay: 100 * time.Millisecond})
		p.Down(testserver.Fault{Delay: 50 * time.Millisecond})
	}, wasDelayed)},
}

var (
	upToASecond = [2]time.Duration{0, time.Second}
	aWhile      = [2]time.Duration{500 * time.Millisecond, ttl + 500*time.Millisecond}
)

// network breaks one of the proxies, so that some members are not touched, and waits until it
// shows in what the proxy counts.
func network(harm func(*testserver.Proxy), shows func(before, after testserver.Harm) bool) func(*world, int) func() {
	return func(w *world, pick int) func() {
		p := w.proxies[pick%len(w.proxies)]
		w.until("somebody is connected", func() bool { return p.Connections() > 0 })
		before := p.Harm()
		harm(p)
		w.until("the network is seen to be broken", func() bool { return shows(before, p.Harm()) })
		return p.Heal
	}
}

func lostReplies(a, b testserver.Harm) bool  { return b.LostDown > a.LostDown }
func lostRequests(a, b testserver.Harm) bool { return b.LostUp > a.LostUp }
func lostAnything(a, b testserver.Harm) bool { return lostReplies(a, b) || lostRequests(a, b) }
func wasReset(a, b testserver.Harm) bool     { return b.Reset > a.Reset }
func wasDelayed(a, b testserver.Harm) bool   { return b.Delayed > a.Delayed }

// silence takes the server away, and waits until it does not answer.
func silence(take, giveBack func(*testserver.Server)) func(*world, int) func() {
	return func(w *world, _ int) func() {
		take(w.server)
		w.until("the server is silent", func() bool {
			ctx, cancel := context.WithTimeout(w.t.Context(), 300*time.Millisecond)
			defer cancel()
			_, err := w.clients[0].DescribeGroup(ctx, scenes[0].group)
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
	p := w.remove(who, syscall.SIGKILL)
	w.until(who+" was killed", func() bool { return p.ended() && p.endedBy(syscall.SIGKILL) })
	return func() { w.start(who) }
}

func leave(w *world, pick int) func() {
	who := regular(pick % regulars)
	w.remove(who, syscall.SIGTERM) // how it ended is looked at in the end
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
		w.remove(name, []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}[i%2])
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
			p.signal(syscall.SIGCONT)
			pick++
			who = regular(pick % regulars)
			p = w.freeze(who)
		}
		continued := history.Now()
		p.signal(syscall.SIGCONT)
		w.until("a commit of "+who+" is refused", func() bool { return w.commits(p, continued, history.Refused) })
		w.refused++
	}
}

// freeze stops a member once it has committed for a unit that it owns.
func (w *world) freeze(who string) *process {
	p := w.members[who]
	w.until(who+" has committed for a unit that it owns", func() bool {
		return w.commits(p, 0, history.Accepted) && len(w.owned(who)) > 0
	})
	if w.store.waits {
		w.idle.Store(true)
		defer w.idle.Store(false)
		w.await("everything is processed", func(_ scene, g ringfence.GroupInfo) bool { return g.Lag == 0 })
	}
	w.must(halt.Process(w.t.Context(), p.cmd.Process))
	return p
}

// bereft waits until a stopped member has no unit any more. False: it keeps the others out.
func (w *world) bereft(who string) bool {
	patience := time.Now().Add(3 * time.Second)
	gaveUp := false
	w.until("others own what "+who+" had", func() bool {
		owned := w.owned(who)
		gaveUp = w.store.waits && time.Now().After(patience)
		return owned != nil && len(owned) == 0 || gaveUp
	})
	return !gaveUp
}

// owned are the units of a member in all scenes; nil: the store does not tell.
func (w *world) owned(who string) []string {
	owned := []string{}
	for i, s := range scenes {
		ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
		g, err := w.clients[i].DescribeGroup(ctx, s.group)
		cancel()
		if err != nil {
			return nil
		}
		for _, u := range g.Units {
			if u.Owner == who {
				owned = append(owned, fmt.Sprintf("%s/%d", s, u.Unit))
			}
		}
	}
	return owned
}

// commits says whether a member was told of a commit with that outcome after a moment, in the
// first scene.
func (w *world) commits(p *process, after int64, outcome history.Outcome) bool {
	events, err := read(p.path(scenes[0]))
	w.must(err)
	for _, e := range events {
		if e.Kind == history.Committed && e.Outcome == outcome && e.At > after {
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
		if s.round > 0 && time.Since(began) >= length {
			return
		}
		w.await("the regular members are there", func(_ scene, g ringfence.GroupInfo) bool { return has(g, regulars) })
		var hold time.Duration
		var ends []func()
		for _, x := range s.ills {
			w.t.Logf("%6.2f s: %s, for %s", time.Since(began).Seconds(), x.name, x.hold.Round(time.Millisecond))
			ends = append(ends, x.begin(w, x.pick))
			hold = max(hold, x.hold)
			w.happened[x.name]++
		}
		time.Sleep(hold) // the fault itself
		for _, end := range ends {
			if end != nil {
				end()
			}
		}
		time.Sleep(s.calm)
	}
}

func has(g ringfence.GroupInfo, members int) bool { return len(g.Members) >= members }
