package sim

import (
	"math"
	"time"

	"github.com/ringfence/ringfence/group/core"
)

// clock is the node's monotonic time. It stands still while the host is suspended.
func (n *node) clock() time.Duration {
	return n.base + time.Duration(float64(n.w.now)*n.rate)
}

// worldly is how long it takes until the node's clock shows at.
func (n *node) worldly(at time.Duration) time.Duration {
	return max(0, time.Duration(math.Ceil(float64(at-n.clock())/n.rate)))
}

// when runs f in the process when its clock shows at.
func (n *node) when(at time.Duration, f func()) {
	n.in(n.worldly(at), func() {
		if n.clock() < at { // it stood still
			n.when(at, f)
			return
		}
		f()
	})
}

// asked is the last good renewal of a session: when it was sent, and how long the host had been
// suspended by then.
type asked struct{ at, slept time.Duration }

// deadline is until when the session certainly lives, according to the driver.
func (n *node) deadline() time.Duration {
	return n.renewed.at + n.w.plan.ttl - (n.slept - n.renewed.slept)
}

// certain reports whether a handler may be started: the shell asks before each.
func (n *node) certain() bool { return n.session != "" && n.clock() < n.deadline() }

// wake ends a suspension without a notice; the member looks at its deadline when it collects the
// progress of running handlers.
func (n *node) wake() {
	d := time.Duration(float64(n.w.now-n.asleep) * n.rate)
	n.base -= d
	n.slept += d
	n.asleep, n.waking = 0, true
	n.in(n.w.plan.commit, func() {
		n.look()
		w := n.w
		w.later(50*time.Millisecond, func() {
			n.waking = false
			for _, k := range n.workers {
				if k != nil && k.running > 0 && !k.cancelled && n.up() && !n.frozen && !n.certain() {
					w.fail("%s still works on unit %d though its session ended while its host was suspended", n, k.unit)
				}
			}
		})
	})
}

// look feeds the core with the deadline when that has moved, as the shell does before each event.
func (n *node) look() {
	if d := n.deadline(); n.session != "" && d != n.told {
		n.told = d
		n.feed(core.Renewed{Session: n.session, Lease: d})
	}
}
