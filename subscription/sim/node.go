package sim

import (
	"maps"
	"slices"

	"github.com/ringfence/ringfence/subscription/core"
)

// node is one start of the shard's worker, with the little of dispatch that matters: it admits one
// record of a key at a time, holds failing ones, and knows what is finished.
type node struct {
	id     int
	w      *shard
	epoch  int64
	run    uint64
	tenure core.Tenure
	st     *core.State
	alive  bool

	handouts *int // of its process: one that is started again under its grant is in the same

	started  bool
	paused   bool // as it has heard
	start    *checkpoint
	next     [slots]int64
	fin      [slots]map[int64]bool
	attempts map[core.Origin]int    // at what is held, those of earlier owners too
	tried    map[core.Origin]int    // by this start
	leaders  map[string]core.Origin // admitted and not finished, by line
	direct   []core.Origin          // being delivered
	parking  map[core.Origin]bool

	begun   bool // its fence was sent
	closing bool // as it has heard
	adopted bool // all was taken over, and the first checkpoint is to be stored
	final   *checkpoint

	batch   []stored // on its way
	copies  []core.Copy
	notes   []core.Note
	owed    map[core.ID]core.Verb // ordered of what is to be taken over: it is noted before
	pumped  []core.Deliver
	storing *checkpoint
}

func (w *shard) newNode(why string) *node {
	w.runs++
	n := &node{
		id: len(w.nodes), w: w, epoch: w.reg.epoch, run: w.runs, alive: true, start: w.reg.ck, handouts: new(int),
		attempts: map[core.Origin]int{}, tried: map[core.Origin]int{}, leaders: map[string]core.Origin{}, parking: map[core.Origin]bool{},
	}
	if n.id > 0 && w.nodes[w.reg.owner].epoch == n.epoch {
		n.handouts = w.nodes[w.reg.owner].handouts
	}
	from := int64(0)
	for p := range slots {
		n.fin[p] = map[int64]bool{}
	}
	if n.start != nil {
		for p, done := range n.start.done {
			maps.Copy(n.fin[p], done)
		}
		n.next, from = n.start.next, n.start.from
		maps.Copy(n.attempts, n.start.held)
		w.counts.Recalled += len(n.start.held)
	}
	if from < w.first {
		if !w.rolled {
			w.fail("the journal was trimmed to %d, and the checkpoint needs it from %d", w.first, from)
		}
		from = w.first
	}
	n.tenure = core.Tenure{Epoch: n.epoch, Run: n.run, Token: w.rnd.Uint64()}
	n.st = core.New(core.Config{
		Set: set, Tenure: n.tenure, Member: "m", From: from, Now: w.now,
		Heir:     n.start == nil && len(w.parents) > 0,
		MaxPause: 20, DeadLetters: w.policy, Batch: 1 + w.rnd.IntN(3), Tidy: 1 + w.rnd.Int64N(16),
	})
	n.follow()
	w.nodes = append(w.nodes, n)
	w.reg.owner = n.id
	w.log("%s node %d starts in epoch %d, run %d, from %d: %s", w.name, n.id, n.epoch, n.run, from, why)
	if n.start == nil && len(w.parents) > 0 {
		n.takeOver()
		return n
	}
	n.begun = true
	n.st.Start()
	n.effects()
	return n
}

// follow hears the present definition of the subscription.
func (n *node) follow() {
	n.closing = n.closing || n.w.closing
	if n.paused != n.w.paused {
		n.paused = n.w.paused
		n.w.log("node %d hears that it is paused: %t", n.id, n.paused)
		n.st.SetPaused(n.paused)
	}
}

func (w *shard) current(n *node) bool { return w.reg.owner == n.id && n.alive }

// effects carries out what the core wants, or puts it aside for a later step.
func (n *node) effects() {
	for _, e := range n.st.Effects() {
		switch e := e.(type) {
		case core.Append:
			n.batch, _ = n.w.encode(n, e.Entries)
		case core.Copy:
			n.copies = append(n.copies, e)
		case core.Note:
			n.notes = append(n.notes, e)
		case core.Deliver:
			n.pumped = append(n.pumped, e)
		case core.Settle:
			n.finish(e.Origin)
		case core.Started:
			if n.start == nil && len(n.w.parents) > 0 {
				n.adopt()
				continue
			}
			n.started = true
			n.w.log("node %d has rebuilt %d items", n.id, len(n.st.Items()))
			n.w.judge.rebuilt(n)
			n.fit()
		case core.Trim:
			n.w.trim(n, e.Before)
		case core.Adopted:
			for id, verb := range n.owed {
				if n.w.judge.noted[id] != verb && !n.w.rolled {
					n.w.fail("%s node %d has taken over, and of %v is noted %d; ordered was %d", n.w.name, n.id, id, n.w.judge.noted[id], verb)
				}
			}
			n.adopted = true
			n.first()
		case core.Closed:
			n.w.log("%s node %d: the journal has ended", n.w.name, n.id)
			n.alive = false
			return
		case core.Behind:
			n.w.behind(n, e.Seen)
			return
		}
	}
}

func (n *node) finish(o core.Origin) {
	n.fin[slot(o)][o.Offset] = true
	for n.fin[slot(o)][n.next[slot(o)]] {
		n.next[slot(o)]++
	}
	delete(n.parking, o)
	delete(n.leaders, n.w.at(o).line)
	delete(n.attempts, o)
}

func (n *node) finished(o core.Origin) bool {
	return o.Offset < n.next[slot(o)] || n.fin[slot(o)][o.Offset]
}

// fit compares the journal with what there is.
func (n *node) fit() {
	for p := range slots {
		end := place(p, int64(len(n.w.main[p])))
		if n.st.Beyond(end).Any() {
			n.w.counts.Cut++
			n.st.Bound(end)
		}
	}
}

// takeNext takes the next record of a line, or the held one again.
func (n *node) takeNext(line string) {
	w := n.w
	if n.paused || n.ending() {
		w.counts.Waited++
		return
	}
	for _, r := range w.byKey[line] {
		if n.finished(r.Origin) || !w.parts[slot(r.Origin)] {
			continue
		}
		if _, parking := n.parking[r.Origin]; parking || slices.Contains(n.direct, r.Origin) {
			return
		}
		n.leaders[line] = r.Origin
		switch n.st.Admit(r.key, r.Origin) {
		case core.Past:
			w.counts.Past++
			w.log("node %d: %v is known", n.id, r.Origin)
			n.finish(r.Origin)
		case core.Divert:
			n.park(&r, false, false)
		case core.Direct:
			w.judge.delivers(n, &r, nil)
			n.tried[r.Origin]++
			n.direct = append(n.direct, r.Origin)
		}
		return
	}
}

// answer ends a direct delivery.
func (n *node) answer(i int) {
	o := n.direct[i]
	n.direct = slices.Delete(n.direct, i, i+1)
	r := n.w.at(o)
	if n.w.spares() {
		n.w.log("node %d: direct %v does not count", n.id, o)
		n.st.Left(o)
		n.tried[o]--
		return
	}
	ok := n.w.judge.attempt(r, 0)
	n.w.log("node %d: direct %v: %t", n.id, o, ok)
	n.st.Left(o)
	if ok {
		n.finish(o)
		return
	}
	n.attempts[o]++
	switch gone := n.attempts[o] >= maxAttempts; {
	case gone || r.permanent:
		n.park(r, true, r.permanent)
	case n.w.chance(2):
		n.park(r, false, false)
	}
}

func (n *node) park(r *record, dead, permanent bool) {
	n.parking[r.Origin] = dead
	h := core.Held{Origin: r.Origin, Key: r.key, Attempts: n.attempts[r.Origin], Dead: dead, Reason: core.Attempts, Now: n.w.now}
	if permanent {
		h.Reason = core.Permanent
	}
	if h.Attempts > 0 {
		h.Due, h.Since, h.Answer = n.w.now+int64(n.w.rnd.IntN(20)), n.w.now, "no"
	}
	if dead && n.w.policy == core.Drop {
		n.w.judge.dropped[r.Origin] = true
	}
	n.w.judge.held[heldBy{r.Origin, n.tenure}] = h.Attempts
	n.w.log("node %d parks %v after %d attempts, dead: %t", n.id, r.Origin, h.Attempts, dead)
	n.st.Park(h)
	n.effects()
}

// outcome ends an attempt of the pump.
func (n *node) outcome(i int) {
	d := n.pumped[i]
	n.pumped = slices.Delete(n.pumped, i, i+1)
	r := n.w.at(d.ID.Origin)
	if n.w.spares() {
		n.w.log("node %d: pump %v does not count", n.id, d.ID)
		if n.w.chance(2) {
			n.st.Spared(d.ID, n.w.now)
		} else {
			n.st.Attempted(d.ID, core.Outcome{Spared: true, Answer: "away", Now: n.w.now, Due: n.w.now})
		}
		n.effects()
		return
	}
	o := core.Outcome{Now: n.w.now, Due: n.w.now + int64(n.w.rnd.IntN(20)), Answer: "no"}
	o.Done = n.w.judge.attempt(r, d.ID.Round)
	switch {
	case o.Done:
	case r.permanent:
		o.GiveUp = core.Permanent
	case d.Attempt >= maxAttempts:
		o.GiveUp = core.Attempts
	}
	n.w.log("node %d: pump %v: %t", n.id, d.ID, o.Done)
	if o.GiveUp != 0 && n.w.policy == core.Drop {
		n.w.judge.dropped[r.Origin] = true
	}
	n.st.Attempted(d.ID, o)
	n.effects()
}

// pump asks for what is due.
func (n *node) pump() {
	if n.ending() {
		return
	}
	n.st.Due(n.w.now, 1+n.w.rnd.IntN(2))
	k := len(n.pumped)
	n.effects()
	for _, d := range n.pumped[k:] {
		r := n.w.at(d.ID.Origin)
		n.w.payload(n, core.Payload{From: core.InJournal, Place: d.Place}, d.ID.Origin)
		n.w.judge.delivers(n, r, &d)
	}
}

// send decides the outcome of the batch under way.
func (n *node) send() {
	if len(n.batch) == 0 {
		return
	}
	w := n.w
	b := n.batch
	switch k := w.rnd.IntN(10); {
	case k == 0 && !w.healed: // lost
	case k == 1 && !w.healed: // outcome unknown; it may come late
		w.late = append(w.late, b)
		w.counts.Late++
	case k == 2 && !w.healed: // stored, outcome unknown: it is sent again
		w.land(b[:1+w.rnd.IntN(len(b))])
		w.counts.Twins++
	default:
		n.batch = nil
		w.land(b)
	}
}

// copyOut decides the outcome of a copy for the dead letters.
func (n *node) copyOut() {
	if len(n.copies) == 0 {
		return
	}
	w := n.w
	c := n.copies[0]
	o, ok := w.payload(n, c.Payload, c.ID.Origin)
	if !ok || !w.healed && w.chance(6) {
		return
	}
	w.dead = append(w.dead, o)
	if !w.healed && w.chance(6) {
		return // outcome unknown: it is stored once more
	}
	n.copies = n.copies[1:]
	n.st.Copied(c, int64(len(w.dead)-1))
	n.effects()
}

// read takes the next record of the journal.
func (n *node) read() {
	if !n.begun {
		return
	}
	at := n.st.End()
	if at >= int64(len(n.w.journal)) {
		return
	}
	if at < n.w.first {
		if n.w.current(n) {
			n.w.fail("node %d reads the journal at %d, which is trimmed to %d", n.id, at, n.w.first)
		}
		n.alive = false
		return
	}
	n.st.Clock(n.w.now)
	n.st.Read(at, n.w.decode(n.w.journal[at]))
	n.effects()
}

// checkpoint begins to store how far the node got.
func (n *node) checkpoint() {
	if n.storing != nil || !n.started {
		return
	}
	ck := &checkpoint{next: n.next, held: maps.Clone(n.attempts)}
	for o, dead := range n.parking {
		if dead { // its last attempt counts when its mark does
			ck.held[o]--
		}
	}
	for p := range slots {
		ck.done[p] = map[int64]bool{}
		if n.w.chance(2) { // else the ranges were too many
			for o := range n.fin[p] {
				if o >= n.next[p] {
					ck.done[p][o] = true
				}
			}
		}
	}
	ck.from = n.st.From(n.inputs())
	n.storing = ck
}
