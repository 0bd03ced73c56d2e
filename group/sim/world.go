package sim

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/history"
	"github.com/ringfence/ringfence/registry"
)

// maxSteps is far above what a history needs; more is a storm of messages.
const maxSteps = 200_000

// world is everything in one history.
type world struct {
	seed   uint64
	plan   scenario
	rng    *rand.Rand
	now    time.Duration
	queue  []entry // the next one last
	steps  int
	outrun int  // workers that met a higher epoch than theirs
	still  bool // the store's time of day
	stale  int  // records that a worker handed out which had no right to
	seq    uint64
	hash   uint64
	trace  io.Writer
	err    error

	check  *history.Checker
	moment int64 // of the last event reported to the checker

	group *protocol.Group
	store *store
	units []*unit // of all storage topics, also of those that are not there yet
	nodes []*node // all that ever were, in order of their start
	heals bool    // the faults are over

	storages []storage
	which    *rand.Rand // says which input of several
	shown    int        // how many there are
	current  int        // which takes the records

	stops []func() // of operators

	forced int // claims from owners that live but were too slow
}

func newWorld(cfg Config) *world {
	w := &world{
		seed: cfg.Seed,
		rng:  rand.New(rand.NewPCG(cfg.Seed, 0x72696e6766656e63)), hash: 14695981039346656037, trace: cfg.Trace,
		check: history.New(history.Config{Exact: true}), now: time.Hour,
	}
	w.plan = choose(w.rng)
	group, err := protocol.NewGroup(registry.New(nil), "g")
	if err != nil {
		panic(err) // a valid name
	}
	w.group = group
	w.still = cfg.Seed%4 == 0 && !w.hasAny(Rollback, Deletion) // they need it
	w.addStorages(cfg.Inputs)
	w.store = newStore(w)
	return w
}

// run lives through the faults, and then waits for the good end.
func (w *world) run() {
	w.tracef("scenario: %s", w.plan)
	defer func() {
		for _, stop := range w.stops {
			stop()
		}
	}()
	for range w.plan.members {
		w.later(w.upTo(time.Second), func() { w.newNode("") })
	}
	for _, u := range w.units[:w.plan.units] {
		u.fill()
	}
	start := w.now
	w.schedule()
	w.until(start+w.plan.horizon, func() bool { return false })
	w.heal()
	patience := 2*(w.plan.ttl+w.plan.drain+2*w.plan.grace) + w.plan.window + 40*time.Second
	if w.rests(w.now + patience) {
		w.leave()
	} else if w.err == nil {
		w.err = fmt.Errorf("%s after the last fault the group has not come to rest: %s", patience, w.unsettled())
	}
}

// rests waits until the group is settled and writes nothing for two leases.
func (w *world) rests(end time.Duration) bool {
	for w.until(end, w.settled) && w.now < end {
		writes := w.store.count
		w.until(w.now+2*w.plan.ttl, func() bool { return false })
		if w.store.count == writes && w.settled() {
			return true
		}
	}
	return false
}

// until runs the queue until the moment comes or done, which it calls now and then, is true.
func (w *world) until(end time.Duration, done func() bool) bool {
	const glance = 250 * time.Millisecond
	next := w.now
	for w.err == nil {
		if w.now >= next {
			if done() {
				return true
			}
			next = w.now + glance
		}
		last := len(w.queue) - 1
		if last < 0 || w.queue[last].at > end {
			w.now = end
			return done()
		}
		e := w.queue[last]
		w.queue = slices.Delete(w.queue, last, last+1)
		w.now = e.at
		w.mix(uint64(e.at), e.seq)
		if w.steps++; w.steps > maxSteps {
			w.err = fmt.Errorf("more than %d events: the members keep each other busy", maxSteps)
		}
		e.do()
	}
	return false
}

// later runs f after a while. Things that happen at the same moment happen in the order asked for.
func (w *world) later(d time.Duration, f func()) {
	w.seq++
	i, _ := slices.BinarySearchFunc(w.queue, w.now+d, func(e entry, at time.Duration) int { return cmp.Compare(at, e.at) })
	w.queue = slices.Insert(w.queue, i, entry{at: w.now + d, seq: w.seq, do: f})
}

// tell gives an event to the checker.
func (w *world) tell(e history.Event) {
	w.moment++
	e.At = w.moment
	w.mix(uint64(e.Unit), uint64(e.Epoch), uint64(e.Offset), uint64(len(e.Kind)))
	if w.trace != nil {
		w.tracef("%s", e)
	}
	w.check.Add(e)
	if r := w.check.Report(); r.Violated > 0 && w.err == nil {
		w.err = fmt.Errorf("a promise was broken %s into the history", w.now-time.Hour)
		w.tracef("BROKEN PROMISE: %s", r.Violations[0])
	}
}

// mix adds to the hash of the history (FNV-1a, a word at a time).
func (w *world) mix(words ...uint64) {
	for _, x := range words {
		w.hash = (w.hash ^ x) * 1099511628211
	}
}

func (w *world) tracef(format string, args ...any) {
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%12.6fs  %s\n", (w.now - time.Hour).Seconds(), fmt.Sprintf(format, args...))
	}
}

// chance is true with a probability of one in n.
func (w *world) chance(n int) bool { return w.rng.IntN(n) == 0 }

func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d) + 1)) }

// brief is a delay as between machines or threads: mostly far below a millisecond, now and then 20.
func (w *world) brief() time.Duration {
	return 20*time.Microsecond + w.upTo(time.Millisecond<<w.rng.IntN(5)>>w.rng.IntN(5))
}

type entry struct {
	at  time.Duration
	seq uint64
	do  func()
}
