package dispatch

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
)

// The life of an engine. Its phase only ever rises: it reads and runs (active); its source has failed and what
// was read is still handled (ending); it waits only for running handlers (draining); or nothing that finishes
// counts any more (stopped). Each change calls enter, which takes back claimed records that were not started,
// and wakes each worker that may then leave. Workers come and go by themselves (worker.go). Run keeps no list
// of things to do but one timer, and ends when the last worker has left, or without those that are stuck.
//
// A decision of a method under mu may require another worker: so the method ends with unlock, which looks.

// phase is how far an engine is in its life.
type phase uint8

const (
	idle     phase = iota // Run was not called
	active                // reads and runs
	ending                // the source failed: what was read is still handled
	draining              // it waits only for running handlers
	stopped               // progress is frozen
)

// Engine runs one unit. Its methods may be called from any goroutine.
type Engine struct {
	cfg  Config
	log  *slog.Logger
	seed maphash.Seed
	kick chan struct{} // makes Run set its timer anew
	gone chan struct{} // closed when the last worker has left
	last chan struct{} // closed when no further handler is started

	// mu guards all that follows. It is held for bounded work in memory only: never while reading,
	// waiting, logging, sending or handling.
	mu         sync.Mutex
	phase      phase
	closed     bool // gone is
	expelled   bool // the handlers' context was cancelled because a drain took too long
	abandoned  bool // Run has ended, or is about to, without the workers that have not left
	paused     bool
	one        bool  // while it is paused: one handler may start
	look       bool  // while it is paused: one read may
	fate       error // what Run will return
	sched      schedule
	pool       nodePool
	inputs     []*input
	turn       int                 // where the search for an input to read begins
	others     []protocol.Position // of partitions that are no input
	workers    []*worker           // started, and not left
	resting    []*worker           // of them, those with nothing to do; the last to rest is woken first
	running    int                 // handlers
	blocked    int                 // of them, those known to be slow
	outs       outs                // records that wait for an answer, and count as handlers
	permits    int                 // records that workers may send out beyond outs; they count as handlers too
	most       int                 // bounds them at once, see Limit; 0: as configured
	start      func(*worker)       // starts a worker's goroutine
	lost       func() bool         // the unit is no longer owned
	stopRead   context.CancelFunc  // ends the reads and waits under way
	cancel     context.CancelCauseFunc
	armed      time.Time // when Run's timer fires; zero: never
	drainBy    time.Time // zero: no limit
	wasStalled bool      // as it was last logged
	pace       pace
	retained   int64  // bytes of memory in flight
	compacted  uint64 // done at the last compaction of memory
	done       uint64 // records finished
	failed     uint64 // attempts failed
	version    uint64 // of the progress
}

// New makes an engine and starts nothing. The error lists every fault of the configuration and is
// fault.Invalid.
func New(c Config) (*Engine, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Engine{
		cfg: c, log: c.Logger.With("unit", c.Name), seed: maphash.MakeSeed(),
		sched: schedule{leaders: table{orderBy: c.OrderBy}},
		kick:  make(chan struct{}, 1), gone: make(chan struct{}), last: make(chan struct{}),
		pace: newPace(c.Concurrency, runtime.GOMAXPROCS(0)),
	}
	e.addInputs()
	return e, nil
}

// addInputs gives each input its start position.
func (e *Engine) addInputs() {
	used := make([]bool, len(e.cfg.Start))
	for _, c := range e.cfg.Inputs {
		in := &input{source: c.Source, storage: c.Storage, partition: c.Partition, compacted: c.Compacted, tracker: tracker{storage: c.Storage, partition: c.Partition}}
		for i, p := range e.cfg.Start {
			if p.Storage == c.Storage && p.Partition == c.Partition {
				in.tracker.begin(p)
				in.placed, in.given, in.unchecked, used[i] = true, p, p.Highest() > p.Next || p.Last.Known(), true
			}
		}
		e.inputs = append(e.inputs, in)
	}
	for i, p := range e.cfg.Start {
		if !used[i] {
			e.others = append(e.others, p)
		}
	}
}

// Run reads and handles records until the engine is drained (nil), ctx ends (its cause: the unit
// has another owner, and nothing that finishes later counts), the source fails for good
// (fault.Corrupt, fault.OutOfRange, fault.NotFound …), or a handler is stuck (StuckError). It is
// called once. It joins every goroutine it started, except those of stuck handlers.
func (e *Engine) Run(ctx context.Context) error {
	hctx, cancel := context.WithCancelCause(ctx)
	hctx = context.WithValue(hctx, lastKey{}, e.last)
	defer cancel(nil)
	rctx, stopRead := context.WithCancel(hctx)
	defer stopRead()
	lost := func() bool { return ctx.Err() != nil }
	if err := e.open(hctx, rctx, cancel, stopRead, lost); err != nil {
		return err
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	over := ctx.Done()
	for {
		select {
		case <-e.gone:
			return e.result()
		case <-over:
			over = nil
			e.abort(fmt.Errorf("unit %s: stopped: %w", e.cfg.Name, context.Cause(ctx)))
		case <-e.kick:
		case <-timer.C:
		}
		wait, abandoned := e.tick(time.Now())
		if abandoned {
			e.disown()
			return e.result()
		}
		e.warnOfStall()
		timer.Reset(wait)
	}
}

func (e *Engine) open(hctx, rctx context.Context, cancel context.CancelCauseFunc, stopRead context.CancelFunc, lost func() bool) error {
	e.mu.Lock()
	defer e.unlock()
	if e.start != nil {
		return fmt.Errorf("unit %s: Run was called twice: %w", e.cfg.Name, fault.Invalid)
	}
	e.cancel, e.stopRead, e.lost = cancel, stopRead, lost
	e.start = func(w *worker) {
		go e.work(hctx, rctx, w) // joined by e.gone, in Run
	}
	if e.phase != idle { // drained before it ran
		e.closeIfOver()
		return nil
	}
	e.phase = active
	return nil
}

func (e *Engine) result() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.phase = stopped
	return e.fate
}

// Drain makes Run stop reading, start no further handler, wait for the running ones, and return
// nil. It does not wait. Handlers that run longer than Config.DrainTimeout are cancelled; what they
// finish still counts.
func (e *Engine) Drain() {
	e.mu.Lock()
	defer e.unlock()
	if e.phase >= draining {
		return
	}
	if e.phase != idle && e.cfg.DrainTimeout > 0 {
		e.drainBy = time.Now().Add(e.cfg.DrainTimeout)
		e.arm(e.drainBy)
	}
	e.enter(draining)
}

// abort stops the unit at once: its progress stays as it is.
func (e *Engine) abort(why error) {
	e.mu.Lock()
	defer e.unlock()
	if e.phase == stopped {
		return
	}
	if e.fate == nil || !errors.Is(why, context.Canceled) {
		e.fate = why
	}
	e.enter(stopped)
	e.drainBy = time.Now().Add(e.cfg.AbandonAfter)
	e.arm(e.drainBy)
}

// enter moves on to a later phase: it takes back claims that were not started, ends reads, and
// wakes every resting worker, which may leave.
func (e *Engine) enter(p phase) {
	was := e.phase
	for _, w := range e.workers {
		e.reclaim(w, time.Now())
	}
	if was < draining && p >= draining {
		close(e.last)
	}
	e.phase = p
	if e.stopRead != nil {
		e.stopRead()
	}
	if was != idle {
		e.closeIfOver()
	}
}

type lastKey struct{}

// Last is closed when the engine that has called a handler with ctx starts no further one: waiting for more
// is in vain. It is nil without an engine.
func Last(ctx context.Context) <-chan struct{} {
	last, _ := ctx.Value(lastKey{}).(chan struct{})
	return last
}

// Pause stops reading and starting handlers; running ones go on. Resume ends it.
func (e *Engine) Pause() {
	e.mu.Lock()
	defer e.unlock()
	e.paused, e.one, e.look = true, false, false
	for _, w := range e.workers {
		e.reclaim(w, time.Now())
	}
}

// Resume ends a Pause.
func (e *Engine) Resume() {
	e.mu.Lock()
	defer e.unlock()
	e.paused = false
}

// Limit bounds the handlers that run at the same time from now on, below Config.Concurrency; 0:
// ends the bound. Running handlers go on to the end of their records.
func (e *Engine) Limit(atOnce int) {
	e.mu.Lock()
	defer e.unlock()
	e.most = atOnce
	if e.atWork() > e.atOnce() {
		for _, w := range e.workers {
			e.reclaim(w, time.Now())
		}
	}
}

// SetRetry changes the policy for failing records: it decides about attempts that end from then on. A pause that has
// begun stays as it is.
func (e *Engine) SetRetry(r Retry) {
	e.mu.Lock()
	defer e.unlock()
	e.cfg.Retry = r.withDefaults()
}

// Hurry ends the pauses of failing records that are meant: their next attempts begin as soon as they may.
func (e *Engine) Hurry(meant func(*Record) bool) {
	e.mu.Lock()
	defer e.unlock()
	now := time.Now()
	for _, n := range slices.Clone(e.sched.retries) {
		if n.fail.why == "" && n.fail.due.After(now) && meant(&n.rec) {
			n.fail.due = now
			heap.Fix(&e.sched.retries, n.fail.index)
			e.arm(now)
		}
	}
}

// TryOne lets one record be handled while the engine is paused, the one that has waited the longest.
// False: there is none, or it is not paused; then one read may bring some, for the next time.
func (e *Engine) TryOne() bool {
	e.mu.Lock()
	defer e.unlock()
	e.one = e.paused && e.sched.ready > 0
	e.look = e.paused && e.sched.unfinished == 0
	return e.one
}
