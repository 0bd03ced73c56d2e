// Package sim runs one shard of a subscription through seeded histories full of faults, and judges
// each.
//
// The shard is the real core; imagined are the log, whose appends get lost, land twice, or land long
// after their sender is dead; the registry, with takeovers, zombies, and a store that goes back; a
// dispatch that holds; and an endpoint that fails. One random source drives all of it, so that a seed
// gives the same history each time.
//
// A history has two parts. In the first everything goes wrong. Then all is healed, one owner is left,
// every dead letter is redriven, and soon all must have been delivered.
package sim

import (
	"fmt"
	"io"
	"iter"
	"math/rand/v2"

	"github.com/ringfence/ringfence/subscription/core"
)

// Config is what to run.
type Config struct {
	Seed  uint64
	Trace io.Writer // gets a line for each thing that happens; nil: nothing
}

// Result is the outcome of a history.
type Result struct {
	Seed   uint64
	Steps  int
	Counts Counts
	Err    error // nil: every promise was kept
}

// Counts counts what happened, so that a test sees that the faults bite.
type Counts struct {
	Takeovers, Zombies, Restarts, Rollbacks, Behind  int
	Twins, Late, Void                                int
	Parked, Dead, Redriven, Discarded, Past, Trimmed int
	Recalled, Paused, Waited, Spared, Strangers, Cut int
	Turns, Closings, Adopted, TakenOver, Followed    int
	Skipped, Edited, Renoted                         int
	Resets, Again, Passed, Shed                      int
	Growths, Carried, Crossed                        int
}

// Run runs one history.
func Run(c Config) Result {
	w := newWorld(c)
	steps := 400 // of the first part
	if w.turning != nil {
		steps *= 2 // for several shards
	}
	for range steps {
		w.grow()
		w.turnOn()
		w.any().step()
		if w.err != nil {
			return w.result()
		}
	}
	w.heal()
	return w.result()
}

func (w *world) result() Result {
	if w.err != nil {
		w.err = fmt.Errorf("seed %d, step %d: %w", w.seed, w.steps, w.err)
	}
	return Result{Seed: w.seed, Steps: w.steps, Counts: w.counts, Err: w.err}
}

// record is a record of the main topic, and how the endpoint takes it.
type record struct {
	core.Origin
	key       []byte
	line      string // what is delivered in order: the records of a key in a partition
	fails     int    // so many attempts fail
	permanent bool   // they fail for good
	heals     bool   // not once it was redriven
}

// stored is a record of the journal.
type stored struct {
	header  []byte
	key     []byte
	payload *copied     // that lies here
	final   *checkpoint // of a Close
}

// copied is a copy of a main record, with its value (0) or with that of an edit.
type copied struct {
	core.Origin
	value int
}

// checkpoint is what the registry keeps of the shard.
type checkpoint struct {
	next [slots]int64
	done [slots]map[int64]bool
	from int64
	held map[core.Origin]int // attempts at what is held
}

// registry is the owner entry and the checkpoint.
type registry struct {
	owner int // the node
	epoch int64
	ck    *checkpoint
}

const (
	partitions  = 2 // of a storage topic
	storages    = 3 // at most
	slots       = storages * partitions
	maxAttempts = 3
	set         = "s1"
)

// world is everything outside of the shards' owners.
type world struct {
	seed   uint64
	rnd    *rand.Rand
	trace  io.Writer
	steps  int
	err    error
	counts Counts
	now    int64
	policy core.DeadLetters

	main  [slots][]record // by storage topic and partition; those that are not there yet too
	byKey map[string][]record

	sets    [][]*shard // of each set its shards
	turning *rand.Rand // of the turns alone; nil: there is none
	facts   *facts     // of the last set
	resets  *rand.Rand // of the resets alone
	grows   *rand.Rand // of the growth alone; nil: the topic does not grow
	grown   int        // so many storage topics there are, and all but the last are sealed
	edits   int
	rolled  bool
	healed  bool
	outage  bool       // the endpoint does not work
	strange bool       // a foreign producer writes to the journal
	other   *rand.Rand // of that alone: the other histories stay as they are
	paused  bool       // by its definition; owners hear of it later
}

// shard is one shard without its owners.
type shard struct {
	*world
	name    string
	number  int
	storage int         // of what it reads
	parts   [slots]bool // those that it reads
	parents []*shard
	takes   *core.Parents // from those
	growth  bool          // when it is closing: it reads all before
	reset   *reset        // what it begins with; nil: with what those before have left
	closing bool          // by the definition; owners hear of it later

	journal []stored
	first   int64 // what is not trimmed
	dead    []copied
	late    [][]stored // batches on the way from nodes that may be dead
	reg     registry
	before  []registry // what it was, for a store that goes back
	nodes   []*node
	runs    uint64

	judge judge
}

// reads are the slots of the partitions that it reads.
func (w *shard) reads() iter.Seq[int] {
	return func(yield func(int) bool) {
		for p, reads := range w.parts {
			if reads && !yield(p) {
				return
			}
		}
	}
}

func newWorld(c Config) *world {
	w := &world{seed: c.Seed, rnd: rand.New(rand.NewPCG(c.Seed, 14)), trace: c.Trace, byKey: map[string][]record{}}
	w.other = rand.New(rand.NewPCG(c.Seed, 0x737472616e6765))
	w.strange = w.other.IntN(8) == 0
	w.policy = []core.DeadLetters{core.Block, core.Block, core.Skip, core.Drop}[w.rnd.IntN(4)]
	w.plan()
	for range 5 + w.rnd.IntN(10) {
		w.produce(w.rnd, 0)
	}
	for storage := 1; storage < storages && w.grows != nil; storage++ {
		for range 2 + w.grows.IntN(6) {
			w.produce(w.grows, storage)
		}
	}
	w.begin()
	return w
}

// produce adds a record to a storage topic.
func (w *world) produce(rnd *rand.Rand, storage int) {
	p, k := rnd.IntN(partitions), rnd.IntN(4)
	r := record{}
	if k < 3 {
		r.key = []byte{byte('a' + k)}
		if w.grows != nil {
			p = route(r.key, storage)
		}
	}
	at := &w.main[storage*partitions+p]
	r.Origin = core.Origin{Storage: int32(storage), Partition: int32(p), Offset: int64(len(*at))}
	switch rnd.IntN(5) {
	case 0, 1:
		r.fails = 1 + rnd.IntN(3)
	case 2:
		r.fails, r.heals, r.permanent = 1000, true, rnd.IntN(3) == 0
	}
	switch {
	case r.key == nil:
		r.line = fmt.Sprint(r.Origin)
	case w.grows != nil:
		r.line = string(r.key)
	default:
		r.line = fmt.Sprintf("%s/%d", r.key, r.Partition)
	}
	*at = append(*at, r)
	w.byKey[r.line] = append(w.byKey[r.line], r)
}

// slot is the place of a partition among those of all storage topics.
func slot(o core.Origin) int { return int(o.Storage)*partitions + int(o.Partition) }

// place is an origin in one of them.
func place(slot int, offset int64) core.Origin {
	return core.Origin{Storage: int32(slot / partitions), Partition: int32(slot % partitions), Offset: offset}
}

func (w *world) at(o core.Origin) *record { return &w.main[slot(o)][o.Offset] }

func (w *world) log(format string, args ...any) {
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%4d "+format+"\n", append([]any{w.steps}, args...)...)
	}
}

func (w *world) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
		w.log("VIOLATION: %v", w.err)
	}
}

// chance is true once in n.
func (w *world) chance(n int) bool { return w.rnd.IntN(n) == 0 }
