package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/ringfence/ringfence/subscription/core"
)

// plan decides what may happen to the shard set.
func (w *world) plan() {
	if t := rand.New(rand.NewPCG(w.seed, 0x7475726e)); t.IntN(2) == 0 {
		w.turning = t
	}
	w.resets = rand.New(rand.NewPCG(w.seed, 0x7265736574))
	if g := rand.New(rand.NewPCG(w.seed, 0x67726f77)); w.turning != nil && g.IntN(2) == 0 {
		w.grows = g
	}
	w.grown = 1
}

// begin makes the first set: one shard, or one of two where a reshard may come.
func (w *world) begin() {
	w.facts = newFacts()
	w.add(nil, 0)
	for _, s := range w.sets[0] {
		s.claim("the first")
	}
}

// add makes a set whose shards take over from those of the last one.
func (w *world) add(r *reset, storage int) {
	count := 1
	if w.turning != nil {
		count += w.turning.IntN(partitions)
	}
	var all []*shard
	for k := range count {
		s := &shard{world: w, name: fmt.Sprintf("%d.%d", len(w.sets), k), number: k, storage: storage, reset: r}
		for p := range partitions {
			s.parts[storage*partitions+p] = p*count/partitions == k
		}
		s.judge = newJudge(s)
		all = append(all, s)
	}
	if len(w.sets) > 0 {
		w.inheritance(w.sets[len(w.sets)-1], all)
	}
	w.sets = append(w.sets, all)
}

// turnOn begins a reshard now and then, when none is under way.
func (w *world) turnOn() {
	if w.turning == nil || w.turning.IntN(150) != 0 || !w.turned() {
		return
	}
	r, storage := w.resetTo(), w.last().storage
	switch {
	case r != nil:
		storage = r.storage
	case w.grown > storage+1 && w.grows.IntN(2) == 0:
		storage++
	}
	w.turnTo(r, storage)
}

// turnTo begins a reshard.
func (w *world) turnTo(r *reset, storage int) {
	w.counts.Turns++
	w.add(r, storage)
	w.log("a turn begins, to %d shards of storage topic %d", len(w.sets[len(w.sets)-1]), storage)
	for _, s := range w.sets[len(w.sets)-1] {
		s.claim("the first")
	}
}

// turned reports whether no shard of the last set needs another any more.
func (w *world) turned() bool {
	return !slices.ContainsFunc(w.sets[len(w.sets)-1], func(s *shard) bool { return len(s.parents) > 0 && s.reg.ck == nil })
}

// any is a shard for which something happens next.
func (w *world) any() *shard {
	if w.turning == nil {
		return w.sets[0][0]
	}
	g := len(w.sets) - 1
	if g > 0 && (!w.turned() && w.turning.IntN(2) == 0 || !w.healed && w.turning.IntN(10) == 0) {
		g-- // those of the set before, which may have zombies
	}
	return w.sets[g][w.turning.IntN(len(w.sets[g]))]
}

// ended reports whether the journal has ended for good.
func (w *shard) ended() bool {
	_, ok := w.judge.oracle.Ended()
	return ok
}

// final is how far the main records were finished at the end of the journal.
func (w *shard) final() *checkpoint {
	at, _ := w.judge.oracle.Ended()
	return w.journal[at.Place].final
}

// inherited is what the shards before say of the partition of a record; nil: nothing.
func (w *shard) inherited(o core.Origin) *checkpoint {
	for _, p := range w.parents {
		if p.parts[slot(o)] && p.ended() && w.reset.at(slot(o)) < 0 {
			return p.final()
		}
	}
	return nil
}

// close ends the journal when the node has heard that it is to, and nothing is under way.
func (n *node) close() {
	if !n.ending() || !n.started || n.final != nil || !n.st.Drained() || len(n.direct)+len(n.pumped)+len(n.parking)+len(n.copies) > 0 {
		return
	}
	n.final = n.progress()
	n.w.counts.Closings++
	n.w.log("%s node %d closes at %v", n.w.name, n.id, n.next)
	n.st.Close()
	n.effects()
}

// takeOver begins the work of a shard that was never begun, once those before it have ended.
func (n *node) takeOver() {
	if n.begun || !n.alive {
		return
	}
	w := n.w
	for _, p := range w.parents {
		at, ok := p.read().Ended()
		if !ok {
			return
		}
		if n.epoch <= at.By.Epoch {
			n.alive = false
			if w.reg.owner == n.id {
				w.reg.epoch = at.By.Epoch + 1
				w.claim("the token has to grow")
			}
			return
		}
	}
	w.counts.Followed++
	n.begun = true
	n.st.Start()
	n.effects()
}

// read is the journal as an heir reads it.
func (w *shard) read() *core.State {
	from := int64(0)
	if w.reg.ck != nil {
		from = w.reg.ck.from
	}
	if from < w.first && !w.rolled {
		w.fail("%s: the journal was trimmed to %d, and its heir needs it from %d", w.name, w.first, from)
	}
	return w.replay(max(from, w.first), int64(len(w.journal)))
}

// adopt takes over from the shards before.
func (n *node) adopt() {
	var parents []core.Parent
	var next []core.Next
	n.w.inherit()
	n.owed = map[core.ID]core.Verb{}
	for i, p := range n.w.parents {
		st := p.read()
		at, ok := st.Ended()
		if !ok {
			n.w.fail("%s has ended, and has not any more", p.name)
			return
		}
		last := p.journal[at.Place].final
		takes := n.w.takes.Takes(n.w.number, p.number)
		parents = append(parents, core.Parent{Shard: i, State: st, Takes: takes})
		for k := range n.w.reads() {
			if !p.parts[k] || n.w.reset.at(k) >= 0 {
				continue
			}
			n.next[k], n.fin[k] = last.next[k], maps.Clone(last.done[k])
			for o, tries := range last.held {
				if slot(o) == k {
					n.attempts[o] = tries
				}
			}
		}
		n.w.counts.TakenOver += len(st.Items())
		for _, it := range st.Items() {
			if it.Order != 0 && n.w.reset == nil && takes(it.Origin, it.Key) {
				n.owed[it.ID] = it.Order
			}
			if int(it.Storage) < n.w.storage {
				n.w.counts.Carried++
			}
		}
	}
	for k := range n.w.reads() {
		at := core.Next{Storage: k / partitions, Partition: k % partitions, Offset: n.next[k]}
		if start := n.w.reset.at(k); start >= 0 {
			at.Offset, at.Anew, at.Shed = start, true, n.w.reset.shed
			n.next[k] = start
		}
		next = append(next, at)
	}
	n.st.Adopt(parents, next)
	n.effects()
}

// first is the first checkpoint, which has to be stored before a record is handled.
func (n *node) first() {
	if n.storing != nil {
		return
	}
	n.storing = n.progress()
	n.storing.from = n.st.From(n.inputs())
}

// progress is how far the node got.
func (n *node) progress() *checkpoint {
	ck := &checkpoint{next: n.next, held: maps.Clone(n.attempts)}
	for p := range slots {
		ck.done[p] = maps.Clone(n.fin[p])
	}
	return ck
}

func (n *node) inputs() (next []core.Next) {
	for p := range n.w.reads() {
		next = append(next, core.Next{Storage: p / partitions, Partition: p % partitions, Offset: n.next[p]})
	}
	return next
}

// open begins the work after the first checkpoint.
func (n *node) open() {
	if !n.adopted || n.started {
		return
	}
	n.start, n.started = n.w.reg.ck, true
	n.w.counts.Adopted++
	n.w.log("%s node %d has taken over %d items and begins at %v", n.w.name, n.id, len(n.st.Items()), n.next)
	n.st.Open()
	n.fit()
}

// turned judges that one set delivers a record.
func (j *judge) turned(n *node, r *record) {
	for _, p := range j.w.parents {
		if !p.ended() {
			j.w.fail("%s node %d delivers %v, and %s goes on", j.w.name, n.id, r.Origin, p.name)
		}
	}
	if j.w.ended() {
		j.w.fail("%s node %d delivers %v, and the shard has ended", j.w.name, n.id, r.Origin)
	}
}

// heal ends all faults: whatever is under way lands or does not, each shard has one owner, and it gets on.
func (w *world) heal() {
	w.log("healed")
	for _, s := range w.shards() {
		for _, n := range s.nodes {
			if n.alive {
				s.abandon(n)
				n.alive = false
			}
		}
		for _, b := range s.late {
			if w.chance(2) {
				s.land(b)
			}
		}
		s.late = nil
	}
	w.healed, w.paused, w.outage = true, false, false
	for _, s := range w.shards() {
		s.reg.epoch++
		s.claim("healed")
	}
	for i := range 20000 * (len(w.shards()) + 2*storages) {
		if w.any().step(); w.err != nil {
			return
		}
		if i%64 != 63 {
			continue
		}
		w.grown = max(w.grown, w.last().storage+1)
		over := true
		for _, s := range w.sets[len(w.sets)-1] {
			over = over && s.judge.finished()
		}
		if over && w.last().storage < w.grown-1 {
			w.turnTo(nil, w.last().storage+1)
			for _, s := range w.sets[len(w.sets)-2] {
				s.nodes[s.reg.owner].follow()
			}
			continue
		}
		if over {
			w.sets[len(w.sets)-1][0].judge.end()
			w.counts.Discarded += len(w.facts.discarded)
			return
		}
		for _, s := range w.sets[len(w.sets)-1] {
			s.order()
		}
	}
	for _, s := range w.sets[len(w.sets)-1] {
		w.fail("after so many quiet steps it is not finished: %s", s.judge.missing())
	}
}

func (w *world) shards() []*shard { return slices.Concat(w.sets...) }
