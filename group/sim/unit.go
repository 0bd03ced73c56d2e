package sim

import (
	"math/rand/v2"
	"strconv"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/history"
)

// unit is what the members share: some partitions of a storage topic.
type unit struct {
	w       *world
	number  int
	storage int
	parts   []*partition   // that it reads
	after   int            // owners that it got after it was finished
	starts  map[int64]int  // of workers, by epoch
	fenced  int64          // the highest epoch that began, even if the store has forgotten it
	other   *rand.Rand     // of that alone: other faults stay as they are
	asked   map[int64]bool // epochs in which an assignment gave the unit to another member
	got     tokens         // of its records, at the receiver
	unheard int            // seeks of units before it that have not fenced its owner yet
}

// partition is one log that a unit reads.
type partition struct {
	unit   *unit
	number int
	done   []bool   // by offset: a handler has finished it
	keys   []string // of its records, by offset; "" is no key
}

// inputs gives each unit its partitions: one, or if asked for up to four.
func (w *world) inputs(several bool) {
	r := rand.New(rand.NewPCG(w.seed, 0x696e70757473)) // of that alone
	if several {
		w.plan.inputs = 2 + r.IntN(3)
	}
	number := 0
	for _, u := range w.units {
		count := 1
		if w.plan.inputs > 1 {
			count += r.IntN(w.plan.inputs) // not all as many: a topic need not divide
		}
		for range count {
			u.parts = append(u.parts, &partition{unit: u, number: number})
			number++
		}
	}
	w.which = r
}

// fill appends the records of the history, most of them while there are faults.
func (u *unit) fill() {
	w := u.w
	for range w.plan.records {
		w.later(w.upTo(w.plan.horizon*9/8), func() { u.taking().any().append() })
	}
}

// any picks one of the partitions.
func (u *unit) any() *partition {
	if len(u.parts) == 1 {
		return u.parts[0]
	}
	return u.parts[u.w.which.IntN(len(u.parts))]
}

// begin is the positions of a unit that was never begun.
func (u *unit) begin() (pos []protocol.Position) {
	for _, p := range u.parts {
		pos = append(pos, protocol.Position{Storage: u.storage, Partition: p.number})
	}
	return pos
}

func (p *partition) append() {
	w, key := p.unit.w, ""
	if k := w.rng.IntN(w.plan.keys + 1); k > 0 {
		key = string(rune('j' + k))
		if len(p.unit.parts) > 1 {
			key += strconv.Itoa(p.number) // a key is in one partition
		}
	}
	p.keys, p.done = append(p.keys, key), append(p.done, false)
	w.tell(history.Event{Kind: history.Produced, Storage: p.unit.storage, Partition: p.number, Offset: int64(len(p.keys) - 1), Key: key})
	for _, n := range w.nodes {
		if k := n.workers[p.unit.number]; k != nil && n.up() {
			n.soon(k.pump)
		}
	}
}

// over reports whether the store has the end of the partition, as it is now.
func (p *partition) over() bool {
	for _, pos := range p.unit.w.store.positions(p.unit.number) {
		if pos.Partition == p.number {
			return pos.Next == int64(len(p.keys))
		}
	}
	return len(p.keys) == 0
}

// beside is the checkpoint of a unit in which one position is another one.
func (s *store) beside(n int, pos protocol.Position) []protocol.Position {
	all := []protocol.Position{pos}
	for _, at := range s.positions(n) {
		if at.Partition != pos.Partition {
			all = append(all, at)
		}
	}
	return all
}
