package sim

import (
	"slices"

	"github.com/ringfence/ringfence/subscription/core"
)

// step lets one thing happen.
func (w *shard) step() {
	w.steps++
	if w.strange && !w.healed && w.other.IntN(100) == 0 {
		w.stranger()
	}
	if !w.healed && w.trouble() {
		return
	}
	n := w.someone()
	if n == nil {
		if !w.ended() {
			w.claim("no node is alive")
		}
		return
	}
	switch k := w.rnd.IntN(20); {
	case k < 4:
		n.read()
	case k < 7:
		n.send()
	case k < 8:
		n.copyOut()
		n.noteOut()
	case k < 9:
		w.now += int64(w.rnd.IntN(15))
	case !n.started: // the rest needs the inputs
		n.takeOver()
		n.read()
		if n.adopted && k >= 17 {
			n.first()
			w.store(n)
		}
	case k < 13:
		n.takeNext(w.line())
	case k < 15 && len(n.direct) > 0:
		n.answer(w.rnd.IntN(len(n.direct)))
	case k < 16:
		n.pump()
	case k < 18 && len(n.pumped) > 0:
		n.outcome(w.rnd.IntN(len(n.pumped)))
	case k < 19:
		n.checkpoint()
		n.close()
	default:
		w.store(n)
	}
}

// trouble causes a fault, if it is time for one.
func (w *shard) trouble() bool {
	n := w.someone()
	switch k := w.rnd.IntN(160); {
	case n == nil:
		return false
	case k == 0: // the owner dies
		w.log("node %d dies", n.id)
		w.abandon(n)
		n.alive = false
		if w.reg.owner == n.id {
			w.reg.epoch++
			w.claim("the owner died")
			w.counts.Takeovers++
		}
	case k == 1: // the owner is taken for dead, and is not
		if w.current(n) {
			w.reg.epoch++
			w.claim("the owner was taken for dead")
			w.counts.Zombies++
		}
	case k == 2: // the worker is started again under the same grant
		if w.current(n) {
			w.abandon(n)
			n.alive = false
			w.claim("the worker ended by itself")
			w.counts.Restarts++
		}
	case k == 3 && len(w.before) > 2 && w.chance(3): // the store goes back, with its epochs
		w.reg = w.before[w.rnd.IntN(len(w.before))]
		w.rolled = true
		w.log("the store goes back to epoch %d", w.reg.epoch)
		if w.chance(2) {
			w.reg.epoch++
		}
		w.claim("the store went back")
		w.counts.Rollbacks++
	case k < 8 && len(w.late) > 0: // a batch that was given up long ago arrives
		i := w.rnd.IntN(len(w.late))
		w.log("a late batch lands")
		w.land(w.late[i])
		w.late = slices.Delete(w.late, i, i+1)
	case k < 12:
		w.order()
	case k < 14 && n.started:
		n.st.Refence()
		n.effects()
	case k == 14 && w.chance(3):
		w.paused = !w.paused
		w.counts.Paused++
		w.log("paused: %t", w.paused)
	case k == 15:
		n.follow()
	case k == 18 && w.chance(3):
		w.outage = !w.outage
		w.log("outage: %t", w.outage)
	case k < 18 && n.started:
		n.st.Tidy(1 + w.rnd.IntN(3))
		n.effects()
	default:
		return false
	}
	return true
}

// spares reports whether an attempt counts for nothing: in an outage all do, once the circuit is open.
func (w *world) spares() bool {
	if !w.outage || w.chance(4) {
		return false
	}
	w.counts.Spared++
	return true
}

// stranger is a foreign producer: it writes to the journal that records of a key are finished which do not
// exist.
func (w *shard) stranger() {
	w.reg.epoch++
	by := core.Tenure{Epoch: w.reg.epoch, Run: 1, Token: 1}
	r := core.Record{Set: set, Kind: core.Fence, At: w.now, By: by, Seq: 1}
	known := core.Record{Set: set, Kind: core.Known, At: w.now, By: by, Seq: 2, Key: []byte{byte('a' + w.other.IntN(3))}}
	p := w.storage*partitions + w.other.IntN(partitions)
	known.ID.Origin = place(p, int64(len(w.main[p]))+w.other.Int64N(1000))
	w.log("a stranger says that %v is finished", known.ID)
	w.counts.Strangers++
	w.rolled = true // what was finished may come again
	w.land([]stored{{header: core.Encode(&r, r.Key)}, {header: core.Encode(&known, known.Key), key: known.Key}})
}

// abandon leaves a node's work under way to the network.
func (w *shard) abandon(n *node) {
	if len(n.batch) > 0 {
		w.late = append(w.late, n.batch[:1+w.rnd.IntN(len(n.batch))])
	}
}

func (w *shard) claim(why string) {
	if w.reg.epoch == 0 {
		w.reg.epoch = 1
	}
	w.newNode(why)
	w.before = append(w.before, w.reg)
}

// behind handles a node that met a higher fence: if it has the grant, it claims anew, above that.
func (w *shard) behind(n *node, seen core.Tenure) {
	w.log("node %d is behind %v", n.id, seen)
	w.counts.Behind++
	n.alive = false
	if w.reg.owner == n.id {
		w.reg.epoch = max(w.reg.epoch, seen.Epoch) + 1
		w.claim("the owner was behind")
	}
}

func (w *shard) someone() *node {
	if owner := w.nodes[w.reg.owner]; owner.alive && !w.chance(4) {
		return owner
	}
	alive := slices.DeleteFunc(slices.Clone(w.nodes), func(n *node) bool { return !n.alive })
	if len(alive) == 0 {
		return nil
	}
	return alive[w.rnd.IntN(len(alive))]
}

func (w *shard) line() string {
	p := w.storage*partitions + w.rnd.IntN(partitions)
	if len(w.main[p]) == 0 || !w.parts[p] {
		p ^= 1
	}
	if len(w.main[p]) == 0 || !w.parts[p] {
		return ""
	}
	return w.main[p][w.rnd.IntN(len(w.main[p]))].line
}

// store ends the storing of a checkpoint.
func (w *shard) store(n *node) {
	ck := n.storing
	if ck == nil {
		return
	}
	n.storing = nil
	if w.reg.owner != n.id {
		w.log("node %d is fenced by the registry", n.id)
		n.alive = w.chance(2) && !w.healed // it may take a while to hear of it
		return
	}
	fate := w.rnd.IntN(4)
	if fate == 0 && !w.healed {
		return // it did not get there
	}
	if n.adopted && !n.started && w.reg.ck != nil { // an earlier try got there
		w.claim("its first checkpoint was stored before")
		n.alive = false
		return
	}
	w.reg.ck = ck
	w.before = append(w.before, w.reg)
	w.log("node %d stores %v, from %d", n.id, ck.next, ck.from)
	w.judge.checkpoint(n, ck)
	if fate != 1 || w.healed { // else the answer is lost
		n.open()
		n.st.Stored(ck.from)
		n.effects()
	}
}

// trim drops the beginning of the journal.
func (w *shard) trim(n *node, before int64) {
	if before <= w.first {
		return
	}
	w.log("node %d trims the journal to %d", n.id, before)
	w.counts.Trimmed++
	if ck := w.reg.ck; !w.rolled && (ck == nil || ck.from < before) {
		w.fail("node %d trims the journal to %d, the stored checkpoint needs it from %v", n.id, before, ck)
	}
	w.first = before
}
