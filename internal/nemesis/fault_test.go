package nemesis

import (
	"fmt"
	"syscall"
	"time"

	"github.com/ringfence/ringfence/internal/testserver"
)

// trouble is one way to hurt the world. begin returns what ends it; nil: it ended at once.
type trouble struct {
	name   string
	server bool // it needs a server
	hold   [2]time.Duration
	begin  func(*world) (end func())
}

var all = []trouble{
	{name: "kill -9 a member", hold: [2]time.Duration{0, time.Second}, begin: killMember},
	{name: "stop a member beyond its lease", hold: [2]time.Duration{ttl + time.Second, ttl + 2*time.Second}, begin: stopMember},
	{name: "a crowd of members comes and goes", hold: [2]time.Duration{0, 2 * time.Second}, begin: crowd},
	{name: "a member leaves", hold: [2]time.Duration{0, time.Second}, begin: leave},
	{name: "kill the server", server: true, hold: [2]time.Duration{0, 2 * time.Second}, begin: func(w *world) func() {
		w.server.Kill()
		return w.server.Restart
	}},
	{name: "freeze the server", server: true, hold: [2]time.Duration{0, ttl + time.Second}, begin: func(w *world) func() {
		w.server.Freeze()
		return w.server.Thaw
	}},
	{name: "lose replies", server: true, hold: [2]time.Duration{time.Second, 3 * time.Second}, begin: network(func(p *testserver.Proxy) { p.Down(testserver.Fault{Drop: true}) })},
	{name: "lose requests", server: true, hold: [2]time.Duration{time.Second, 3 * time.Second}, begin: network(func(p *testserver.Proxy) { p.Up(testserver.Fault{Drop: true}) })},
	{name: "pull the cable", server: true, hold: [2]time.Duration{time.Second, 3 * time.Second}, begin: network((*testserver.Proxy).Blackhole)},
	{name: "swallow connections", server: true, hold: [2]time.Duration{3 * time.Second, 5 * time.Second}, begin: network((*testserver.Proxy).Swallow)},
	{name: "refuse connections", server: true, hold: [2]time.Duration{0, 2 * time.Second}, begin: network((*testserver.Proxy).Refuse)},
	{name: "reset connections", server: true, begin: network((*testserver.Proxy).Reset)},
	{name: "slow network", server: true, hold: [2]time.Duration{time.Second, 2 * time.Second}, begin: network(func(p *testserver.Proxy) {
		p.Up(testserver.Fault{Delay: 100 * time.Millisecond})
		p.Down(testserver.Fault{Delay: 50 * time.Millisecond})
	})},
}

// network does it to one of the proxies, so that some members are not touched.
func network(harm func(*testserver.Proxy)) func(*world) func() {
	return func(w *world) func() {
		p := w.proxies[w.random.IntN(len(w.proxies))]
		harm(p)
		return p.Heal
	}
}

// victim is a regular member that should run now. Two faults at once leave one.
func (w *world) victim() string {
	for {
		if who := regular(w.random.IntN(regulars)); w.members[who] != nil {
			return who
		}
	}
}

func killMember(w *world) func() {
	who := w.victim()
	w.remove(who, syscall.SIGKILL)
	return func() { w.start(who) }
}

func leave(w *world) func() {
	who := w.victim()
	w.remove(who, syscall.SIGTERM)
	return func() { w.start(who) }
}

func stopMember(w *world) func() {
	p := w.members[w.victim()]
	p.signal(syscall.SIGSTOP)
	return func() { p.signal(syscall.SIGCONT) }
}

// crowd starts members until there are twenty; then half of them are killed and half leave.
func crowd(w *world) func() {
	var names []string
	for i := range 20 - len(w.members) {
		names = append(names, fmt.Sprintf("crowd-%d", w.starts))
		w.start(names[i])
	}
	return func() {
		for i, name := range names {
			if i%2 == 0 {
				w.remove(name, syscall.SIGKILL)
			} else {
				w.remove(name, syscall.SIGTERM)
			}
		}
	}
}

// hurt lets faults happen for a while, at times two at once. Each kind comes once before any
// comes again.
func (w *world) hurt(faults []trouble, length time.Duration) {
	w.t.Helper()
	began := time.Now()
	var bag []trouble
	draw := func() trouble {
		if len(bag) == 0 {
			bag = append(bag, faults...)
			w.random.Shuffle(len(bag), func(i, j int) { bag[i], bag[j] = bag[j], bag[i] })
		}
		f := bag[0]
		bag = bag[1:]
		return f
	}
	for time.Since(began) < length {
		w.revive()
		f := draw()
		end, hold := w.begin(f, began)
		if w.random.IntN(3) == 0 {
			second, more := w.begin(draw(), began)
			hold = max(hold, more)
			first := end
			end = func() { second(); first() }
		}
		time.Sleep(hold) // the fault itself
		end()
		time.Sleep(time.Duration(w.random.Int64N(int64(time.Second)))) // a calmer moment
	}
}

func (w *world) begin(f trouble, began time.Time) (end func(), hold time.Duration) {
	hold = f.hold[0]
	if span := f.hold[1] - f.hold[0]; span > 0 {
		hold += time.Duration(w.random.Int64N(int64(span)))
	}
	w.t.Logf("%6.2f s: %s, for %s", time.Since(began).Seconds(), f.name, hold.Round(time.Millisecond))
	if end = f.begin(w); end == nil {
		end = func() {}
	}
	return end, hold
}
