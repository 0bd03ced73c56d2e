package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
)

// plan is one generated history: a log, handlers that take time and fail, and lives of the unit
// that end by a drain or a crash.
type plan struct {
	Seed        uint64
	Records     int
	Keys        int // besides records without one
	MaxGap      int
	FailPercent int
	MaxFails    int
	MaxTime     time.Duration // of one handler call
	LatePercent int           // of the calls are answered after the handler has returned, or just before
	Concurrency int
	MaxInFlight int
	MaxBytes    int64
	MaxRanges   int
	Lives       []life
}

type life struct {
	For   time.Duration
	Crash bool          // else a drain
	Lag   time.Duration // a crash loses the progress since then
	Pause bool
}

func drawPlan(t *rapid.T) plan {
	return plan{
		Seed:        rapid.Uint64().Draw(t, "seed"),
		Records:     rapid.IntRange(0, 400).Draw(t, "records"),
		Keys:        rapid.SampledFrom([]int{0, 1, 3, 20, 400}).Draw(t, "keys"),
		MaxGap:      rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "gap"),
		FailPercent: rapid.SampledFrom([]int{0, 5, 60}).Draw(t, "fail"),
		MaxFails:    rapid.IntRange(1, 3).Draw(t, "fails"),
		MaxTime:     rapid.SampledFrom([]time.Duration{0, 20 * time.Microsecond, 3 * time.Millisecond, time.Second}).Draw(t, "time"),
		LatePercent: rapid.SampledFrom([]int{0, 10, 100}).Draw(t, "late"),
		Concurrency: rapid.SampledFrom([]int{1, 2, 16}).Draw(t, "concurrency"),
		MaxInFlight: rapid.SampledFrom([]int{1, 7, 64, 8192}).Draw(t, "inflight"),
		MaxBytes:    rapid.SampledFrom([]int64{1, 4 << 10, 16 << 20}).Draw(t, "bytes"),
		MaxRanges:   rapid.SampledFrom([]int{1, 5, 1000}).Draw(t, "ranges"),
		Lives: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) life {
			return life{
				For:   time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond,
				Crash: rapid.Bool().Draw(t, "crash"),
				Lag:   time.Duration(rapid.IntRange(0, 300).Draw(t, "lag")) * time.Millisecond,
				Pause: rapid.Bool().Draw(t, "pause"),
			}
		}), 0, 4).Draw(t, "lives"),
	}
}

// observer is the simple model: what was called, and what must never happen.
type observer struct {
	plan
	mu       sync.Mutex
	rng      *rand.Rand
	log      *fakeLog
	keyOf    map[int64]string
	before   map[int64]int64 // the record before it of its key
	fails    map[int64]int   // still to come
	finished map[int64]bool  // as the engine of this life must know it
	settled  map[int64]bool  // in the checkpoint that the life began with
	busy     map[string]int64
	running  int
	frozen   bool      // it crashes
	since    time.Time // when it began to; what begins at that moment may have been on its way
	wrong    []string
}

func newObserver(p plan) *observer {
	o := &observer{
		plan: p, rng: rand.New(rand.NewPCG(p.Seed, 1)), log: newFakeLog(), keyOf: map[int64]string{}, before: map[int64]int64{},
		fails: map[int64]int{}, finished: map[int64]bool{}, settled: map[int64]bool{}, busy: map[string]int64{},
	}
	last := map[string]int64{}
	for i := range p.Records {
		key := ""
		if k := o.rng.IntN(p.Keys + 1); k > 0 {
			key = fmt.Sprint("k", k)
		}
		off := o.log.add(key, fmt.Sprint(i), int64(o.rng.IntN(p.MaxGap+1)))
		o.keyOf[off], o.before[off] = key, -1
		if prev, ok := last[key]; ok && (key != "" || p.Concurrency == 1) {
			o.before[off] = prev
		}
		last[key] = off
		if o.rng.IntN(100) < p.FailPercent {
			o.fails[off] = 1 + o.rng.IntN(p.MaxFails)
		}
	}
	return o
}

func (o *observer) fault(format string, args ...any) {
	if len(o.wrong) < 10 {
		o.wrong = append(o.wrong, fmt.Sprintf(format, args...))
	}
}

var errPlanned = errors.New("planned")

func (o *observer) handle(ctx context.Context, r *Record) error {
	fails, takes := o.begin(r.Offset)
	if rand.IntN(100) < o.LatePercent {
		l := NewLater(r)
		r.AnswerLater(l)
		offset := r.Offset
		if rand.IntN(3) == 0 {
			_ = l.Answer(o.end(offset, fails)) // before the handler returns, which decides whether it counts
			return nil
		}
		go func() { // the engine waits for the answer
			if takes > 0 {
				time.Sleep(takes)
			}
			o.answer(ctx, l, offset, fails)
		}()
		return nil
	}
	if takes > 0 {
		time.Sleep(takes)
	}
	return o.end(r.Offset, fails)
}

// answer answers later, and then once more.
func (o *observer) answer(ctx context.Context, l *Later, offset int64, fails bool) {
	lost := ctx.Err() != nil
	err := l.Answer(o.end(offset, fails))
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case errors.Is(err, fault.Fenced) && ctx.Err() != nil && o.frozen:
	case err == nil && !lost:
	default:
		o.fault("the answer for %d was taken as: %v (lost before: %v)", offset, err, lost)
	}
	if again := l.Answer(errPlanned); !errors.Is(again, fault.Conflict) {
		o.fault("a second answer for %d was taken as: %v", offset, again)
	}
}

// end notes that a record is not at work any more, and returns how that went.
func (o *observer) end(offset int64, fails bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running--
	if key := o.keyOf[offset]; key != "" {
		delete(o.busy, key)
	}
	if fails {
		return errPlanned
	}
	o.finished[offset] = true // also when it crashes: nothing asks before the next life
	return nil
}

func (o *observer) begin(off int64) (fails bool, takes time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := o.keyOf[off]
	if other, ok := o.busy[key]; ok && key != "" {
		o.fault("%d of key %s began while %d ran", off, key, other)
	}
	if prev := o.before[off]; prev >= 0 && !o.finished[prev] {
		o.fault("%d of key %q began before %d was finished", off, key, prev)
	}
	if o.settled[off] {
		o.fault("%d was handled again although the checkpoint has it", off)
	}
	o.running++
	if o.running > o.Concurrency {
		o.fault("%d handlers at the same time", o.running)
	}
	if o.frozen && time.Now().After(o.since) {
		o.fault("%d began after the end", off)
	}
	o.busy[key] = off
	if fails = o.fails[off] > 0; fails {
		o.fails[off]--
	}
	if o.MaxTime > 0 {
		takes = rand.N(o.MaxTime) // not seeded: the order of calls isn't either
	}
	return fails, takes
}

// run lives one life from a checkpoint and returns the next one.
func (o *observer) run(t *testing.T, l life, start []protocol.Position) []protocol.Position {
	o.settle(start)
	e := mustNew(t, Config{
		Inputs: o.log.input(), Handler: o.handle, Start: start, Concurrency: o.Concurrency, MaxInFlight: o.MaxInFlight,
		MaxBytes: o.MaxBytes, MaxRanges: o.MaxRanges, Retry: Retry{Initial: 50 * time.Millisecond, Max: time.Second},
	})
	stop := launch(t, e)
	if l.Pause {
		time.Sleep(l.For / 2)
		e.Pause()
		time.Sleep(time.Second)
		e.Resume()
	}
	time.Sleep(l.For)
	if !l.Crash {
		drain(t, e, stop)
		p := e.Final().Positions
		o.compare(p)
		return p
	}
	p := e.Progress().Positions
	time.Sleep(l.Lag)
	o.mu.Lock()
	o.frozen, o.since = true, time.Now()
	o.mu.Unlock()
	if err := stop(); err == nil {
		o.fault("a cancelled life ended without an error")
	}
	o.mu.Lock()
	o.frozen = false
	o.mu.Unlock()
	return p
}

func covers(ps []protocol.Position, off int64) bool {
	for _, p := range ps {
		if off < p.Next {
			return true
		}
		for _, r := range p.Done {
			if off >= r[0] && off < r[1] {
				return true
			}
		}
	}
	return false
}

func (o *observer) settle(ps []protocol.Position) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for off := range o.keyOf {
		if o.settled[off] = covers(ps, off); o.settled[off] && !o.finished[off] {
			o.fault("%d is in the checkpoint %v and was never finished", off, ps)
		}
		o.finished[off] = o.settled[off] // what was finished after the checkpoint is repeated, in order
	}
}

// compare demands that a checkpoint holds what is finished, exactly.
func (o *observer) compare(ps []protocol.Position) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for off := range o.keyOf {
		if covers(ps, off) != o.finished[off] {
			o.fault("%d: finished %v, but the checkpoint is %v", off, o.finished[off], ps)
		}
	}
}

func TestAnyHistoryHandlesEveryRecordInOrderAndRepeatsOnlyTheUnfinished(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan(rt)
		var o *observer
		synctest.Test(t, func(t *testing.T) {
			o = newObserver(p) // its channels must belong to the bubble
			var at []protocol.Position
			for _, l := range p.Lives {
				at = o.run(t, l, at)
			}
			at = o.run(t, life{For: 24 * time.Hour}, at)
			if p.Records > 0 && (len(at) != 1 || at[0].Next != o.log.next || at[0].Done != nil) {
				o.fault("at the end the checkpoint is %v; the log ends at %d", at, o.log.next)
			}
		})
		if len(o.wrong) > 0 {
			rt.Fatalf("%q", o.wrong)
		}
	})
}
