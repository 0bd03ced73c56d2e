package sim

import (
	"fmt"
	"reflect"

	"github.com/ringfence/ringfence/subscription/core"
)

// judge watches from outside. Its oracle has read the whole journal, as if nothing were ever trimmed.
type judge struct {
	*facts
	w       *shard
	oracle  *core.State
	due     map[core.Origin]int64
	letters map[core.ID]int64
	held    map[heldBy]int // the attempts with which a node parks a record
	retries []*core.Record // orders to retry, while it takes over
}

// facts are its knowledge of all shards, since the last reset.
type facts struct {
	tries     map[core.Origin]int
	delivered map[core.Origin]int
	discarded map[core.Origin]bool
	dropped   map[core.Origin]bool
	everDead  map[core.Origin]bool
	over      map[core.Origin]bool  // its Done counts
	tokens    map[string]handed     // the highest of a line
	value     map[core.ID]int       // which one of a round is to be delivered; 0: that of the topic
	noted     map[core.ID]core.Verb // what became of dead letters
}

func newFacts() *facts {
	return &facts{
		tries: map[core.Origin]int{}, delivered: map[core.Origin]int{}, discarded: map[core.Origin]bool{}, dropped: map[core.Origin]bool{},
		everDead: map[core.Origin]bool{}, over: map[core.Origin]bool{}, tokens: map[string]handed{}, value: map[core.ID]int{}, noted: map[core.ID]core.Verb{},
	}
}

// heldBy is a main record and the node that parks it.
type heldBy struct {
	core.Origin
	by core.Tenure
}

func newJudge(w *shard) judge {
	return judge{
		facts: w.facts, w: w, oracle: core.New(core.Config{Set: set}), due: map[core.Origin]int64{}, letters: map[core.ID]int64{}, held: map[heldBy]int{},
	}
}

// item is what the oracle knows of a record.
func (j *judge) item(o core.Origin) *core.Item {
	it, ok := j.oracle.Item(o)
	if !ok {
		return nil
	}
	return &it
}

// landed notes what a record of the journal changes.
func (j *judge) landed(at int64, s stored) {
	r := j.w.decode(s)
	before := j.item(r.ID.Origin)
	j.oracle.Read(at, r)
	after := j.item(r.ID.Origin)
	j.w.log("  journal %d: kind %d %v seq %d by %d/%d attempts %d", at, r.Kind, r.ID, r.Seq, r.By.Epoch, r.By.Run, r.Attempts)
	if r.Kind == core.Fence || r.Kind == core.Order || r.Kind == core.Ends || r.Kind == core.Close {
		j.ordered(at, s, r)
		return
	}
	j.decided(before, after)
	switch {
	case before != nil && after == nil:
		j.over[r.ID.Origin] = true
	case after == nil || before != nil && sameOf(before) == sameOf(after):
		j.w.counts.Void++
		return
	case before == nil && j.over[r.ID.Origin] && !j.w.rolled: // after that the main record may come again
		j.w.fail("%v is finished, and comes to life again at %d of the journal", r.ID, at)
	}
	if after == nil {
		return
	}
	if n, held := j.held[heldBy{r.ID.Origin, r.By}]; held && before == nil && after.Attempts != n {
		j.w.fail("%v was tried %d times, and is parked with %d attempts", r.ID, n, after.Attempts)
	}
	j.due[r.ID.Origin] = r.Due
	if before == nil && j.retried(after) {
		j.due[r.ID.Origin] = 0
	}
	j.valued(after)
	if !after.Dead {
		j.w.counts.Parked++
		return
	}
	j.everDead[after.Origin] = true
	if first, ok := j.letters[after.ID]; !ok {
		j.w.counts.Dead++
		j.letters[after.ID] = after.Copy
	} else if first != after.Copy && !j.w.rolled {
		j.w.fail("%v has two dead letters, %d and %d", after.ID, first, after.Copy)
	}
	if after.Copy >= int64(len(j.w.dead)) || j.w.dead[after.Copy].Origin != after.Origin {
		j.w.fail("%v is marked as a dead letter, and its copy %d is not there", after.ID, after.Copy)
	}
}

type same struct {
	id       core.ID
	dead     bool
	place    int64
	attempts int
}

func sameOf(it *core.Item) same { return same{it.ID, it.Dead, it.Place, it.Attempts} }

// passed reports whether later records of a key may be delivered though r was not.
func (j *judge) passed(o core.Origin) bool {
	return j.delivered[o] > 0 || j.discarded[o] || j.dropped[o] || j.w.policy == core.Skip && j.everDead[o]
}

// delivers judges the beginning of an attempt.
func (j *judge) delivers(n *node, r *record, d *core.Deliver) {
	w := j.w
	w.log("node %d delivers %v (pump: %t)", n.id, r.Origin, d != nil)
	if n.paused {
		w.fail("node %d delivers %v, and knows that all is paused", n.id, r.Origin)
	}
	j.handOut(n, r)
	for _, e := range w.byKey[r.line] {
		if e.Compare(r.Origin) < 0 && !j.passed(e.Origin) {
			w.fail("node %d delivers %v before %v of its key", n.id, r.Origin, e.Origin)
		}
		if e.Compare(r.Origin) < 0 && d == nil && w.current(n) && !w.rolled && w.policy == core.Block && j.item(e.Origin) != nil {
			w.fail("node %d delivers %v from main, though %v of its key is parked or dead", n.id, r.Origin, e.Origin)
		}
		if e.Compare(r.Origin) > 0 && w.current(n) && !w.rolled && w.policy == core.Block && (j.over[e.Origin] || j.stored(e.Origin)) && !j.discarded[e.Origin] {
			w.fail("node %d delivers %v though %v of its key is finished for good", n.id, r.Origin, e.Origin)
		}
	}
	for _, o := range n.direct {
		if o != r.Origin && w.at(o).line == r.line {
			w.fail("node %d delivers %v while %v of its key is being delivered", n.id, r.Origin, o)
		}
	}
	for _, p := range n.pumped {
		if p.ID.Origin != r.Origin && w.at(p.ID.Origin).line == r.line {
			w.fail("node %d delivers %v while %v of its key is being delivered", n.id, r.Origin, p.ID)
		}
	}
	if !w.current(n) || w.rolled {
		return
	}
	j.turned(n, r)
	j.counted(n, r, d)
	if j.over[r.Origin] {
		w.fail("node %d delivers %v, which is finished for good", n.id, r.Origin)
	}
	if d == nil && w.reg.ck != nil && r.Offset < w.reg.ck.next[slot(r.Origin)] {
		w.fail("node %d delivers %v from main, which is below the checkpoint", n.id, r.Origin)
	}
	if it := j.item(r.Origin); d == nil && it != nil {
		w.fail("node %d delivers %v from main, which is parked", n.id, r.Origin)
	} else if it != nil && it.Dead {
		w.fail("node %d delivers the dead letter %v", n.id, r.Origin)
	}
	if d != nil && w.now < j.due[r.Origin] {
		w.fail("node %d delivers %v at %d, it is due at %d", n.id, r.Origin, w.now, j.due[r.Origin])
	}
}

// counted judges how often a record is delivered. An attempt is lost only with an owner that had not
// stored it yet.
func (j *judge) counted(n *node, r *record, d *core.Deliver) {
	if d == nil {
		known := 0
		if n.start != nil {
			known = n.start.held[r.Origin]
		}
		if k := n.tried[r.Origin]; known+k >= maxAttempts {
			j.w.fail("node %d delivers %v once more after %d attempts, and %d that were stored", n.id, r.Origin, k, known)
		}
		return
	}
	if it := j.item(r.Origin); it != nil && it.Round == d.ID.Round && d.Attempt != it.Attempts+1 {
		j.w.fail("node %d makes attempt %d at %v, which has failed %d times", n.id, d.Attempt, d.ID, it.Attempts)
	}
}

// stored reports whether the checkpoint says that o is finished, and no journal says that it is not.
func (j *judge) stored(o core.Origin) bool {
	ck := j.w.reg.ck
	if ck == nil {
		ck = j.w.inherited(o)
	}
	return ck != nil && o.Offset < ck.next[slot(o)] && j.item(o) == nil && j.delivered[o] > 0
}

// attempt is the answer of the endpoint.
func (j *judge) attempt(r *record, round int) bool {
	j.tries[r.Origin]++
	ok := j.w.healed || j.tries[r.Origin] > r.fails || r.heals && round > 0
	if ok {
		j.delivered[r.Origin]++
	}
	return ok
}

// rebuilt compares what a start has read with what there is.
func (j *judge) rebuilt(n *node) {
	j.equal(fmt.Sprintf("node %d has rebuilt", n.id), n.st.Items(), j.w.replay(0, n.st.End()).Items())
}

// checkpoint judges one that was stored: all below is accounted for, and an heir knows what we know.
func (j *judge) checkpoint(n *node, ck *checkpoint) {
	for p := range j.w.reads() {
		for o := range j.w.main[p] {
			at := place(p, int64(o))
			if (int64(o) < ck.next[p] || ck.done[p][int64(o)]) && !j.passed(at) && j.item(at) == nil {
				j.w.fail("the checkpoint is past %v, which was neither delivered nor parked", at)
			}
		}
	}
	if j.w.rolled || ck.from > n.st.End() {
		return
	}
	heir := j.w.replay(ck.from, n.st.End())
	all := j.w.replay(0, n.st.End())
	j.equal(fmt.Sprintf("an heir from %d to %d", ck.from, n.st.End()), heir.Items(), all.Items())
	j.equal(fmt.Sprintf("node %d", n.id), n.st.Items(), all.Items())
	for p := range j.w.reads() {
		for o := ck.next[p]; o < int64(len(j.w.main[p])); o++ {
			r := &j.w.main[p][o]
			if a, b := heir.Admit(r.key, r.Origin) == core.Past, all.Admit(r.key, r.Origin) == core.Past; a != b {
				j.w.fail("an heir from %d takes %v for finished: %t; it is so: %t", ck.from, r.Origin, a, b)
			}
		}
	}
}

func (j *judge) equal(who string, have, want []core.Item) {
	for _, all := range [][]core.Item{have, want} {
		for i := range all {
			all[i].Due = 0 // depends on the reader's clock
		}
	}
	if len(have)+len(want) > 0 && !reflect.DeepEqual(have, want) {
		j.w.fail("%s: %+v; the journal says %+v", who, have, want)
	}
}

// finished reports whether nothing is left to do.
func (j *judge) finished() bool {
	n := j.w.nodes[j.w.reg.owner]
	if !n.alive || !n.started || len(j.oracle.Items()) > 0 {
		return false
	}
	return n.atEnd() && len(n.batch) == 0 && len(n.copies)+len(n.notes) == 0 && n.st.End() == int64(len(j.w.journal))
}

// end judges a finished history.
func (j *judge) end() {
	for p := range j.w.grown * partitions {
		for o := range j.w.main[p] {
			at := place(p, int64(o))
			if j.delivered[at] == 0 && !j.discarded[at] && !j.dropped[at] {
				j.w.fail("%v was never delivered", at)
			}
		}
	}
}

func (j *judge) missing() string {
	n := j.w.nodes[j.w.reg.owner]
	return fmt.Sprintf(j.w.name+" node %d (alive %t, started %t) is at %v, the journal at %d of %d, live: %+v", n.id, n.alive, n.started, n.next, n.st.End(), len(j.w.journal), j.oracle.Items())
}
