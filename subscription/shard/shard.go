package shard

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/subscription/core"
)

// One shard at work: goroutines around a core that none of them owns. do tells the core all that happens, under
// mu, the only lock of a shard, which is held for work in memory only. What the core wants comes back as effects,
// which go to the goroutine whose work it is: the appends, the writer of dead letters, the tail, the trim, the pump.
// Handle and Held, which the engine of the main records calls, run on its workers.
//
// Locks are taken in this order: those of a Limiter, mu, the engine's.

// Config configures one shard.
type Config struct {
	Grant
	Topics
	Checkpoint
	Takeover
	Policy
	Limits
	Handler dispatch.Handler
	Logger  *slog.Logger // nil: discard
}

// Grant says which shard it is, and by which right it writes.
type Grant struct {
	Name   string // of the subscription
	Set    string // the ID of its shard set
	Shard  int
	Epoch  int64  // of the grant
	Run    uint64 // counts the starts under that grant
	Member string
}

// Topics are the internal topics of the shard set, of which only this shard writes its partitions, and the one partition of
// decisions, which all shards of all sets write.
type Topics struct{ Journal, Dead, Decisions *commitlog.Topic }

// Checkpoint is what the unit's checkpoint has of the journal.
type Checkpoint struct {
	From     int64                                // where the journal is read from
	Stored   func(context.Context) (int64, error) // the From that is stored now
	Advanced func()                               // called when From may have moved; may be nil
}

// Takeover makes a shard take over from those of another set before it delivers: Shard.TakeOver, Shard.Open.
type Takeover struct {
	Heir    bool
	Parents *core.Parents // nil: those with its partitions
}

// Policy is what a definition says of its deliveries, and its member.
type Policy struct {
	Terms
	OrderBy       func(key []byte) []byte // as in its engine; nil: the key
	Failed        func(dispatch.Failure)  // gets each failed attempt at a record and what came of it; nil: nothing does
	AnswerTimeout time.Duration           // bounds the wait for an answer to a parked record; then the shard is given up. 0: for ever
}

// Terms are the part of a Policy that changes while the shard is at work, see SetTerms.
type Terms struct {
	Retry       dispatch.Retry
	DeadLetters core.DeadLetters                     // what becomes of a record that is given up
	Filter      func(*dispatch.Record) (bool, error) // a record that it is false of is finished undelivered; nil: none is
}

// Limits are the limiters of the subscription and of its endpoint; nil: none.
type Limits struct{ Own, Endpoint *Limiter }

// Shard delivers the records of one unit: its engine calls Handle and Held, Run does the rest.
type Shard struct {
	cfg     Config
	log     *slog.Logger
	started chan struct{} // what earlier owners left is known
	over    chan struct{} // Run is at its end
	adopted chan struct{} // what an earlier set left is in its journal
	left    []*Left       // what the earlier set left; set before it is asked for
	terms   atomic.Pointer[Terms]
	empty   atomic.Bool       // nothing is parked: every record may be delivered at once
	wake    chan struct{}     // the pump looks again
	batches chan []core.Entry // at most one
	writing chan struct{}     // letters has some
	useless chan struct{}     // some of the journal is useless once that is stored
	slots   slots             // for attempts

	// mu guards all that follows, but for the counters of stats; it is held for work in memory only.
	mu       sync.Mutex
	st       *core.State
	engine   Engine
	paused   pauses
	mainNext bool // what tryOne looks at first
	clock    clock
	pending  map[core.Origin]*parking
	handed   []handout     // to the pump
	hurries  []core.Hurry  // not carried out yet
	letters  []core.Effect // copies and notes for the dead letters, not begun yet
	running  int           // attempts at parked records
	fenced   int64         // where the fence was repeated last, about
	trimmed  int64         // offsets below were dropped, or are about to be
	cut      bool          // the journal began behind the place from which it was needed
	drained  chan struct{} // not nil: no new attempts; closed when all that was begun is written
	err      error         // why it has ended
	final    []byte        // what the last record of the journal says
	stats    stats         // for people
	stop     context.CancelCauseFunc
}

// Writes returns the topics that must be durable before the unit's progress is stored.
func (s *Shard) Writes() []*commitlog.Topic { return []*commitlog.Topic{s.cfg.Journal, s.cfg.Dead} }

// New makes a shard and starts nothing.
func New(c Config) *Shard {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Shard{
		cfg: c, log: c.Logger.With("subscription", c.Name, "shard", c.Shard),
		useless: make(chan struct{}, 1), trimmed: c.From,
		started: make(chan struct{}), over: make(chan struct{}), adopted: make(chan struct{}), wake: make(chan struct{}, 1),
		batches: make(chan []core.Entry, 1), writing: make(chan struct{}, 1),
		st: core.New(core.Config{
			Set: c.Set, Member: c.Member, From: c.From, Now: time.Now().UnixMilli(),
			Tenure:   core.Tenure{Epoch: c.Epoch, Run: c.Run, Token: rand.Uint64()},
			MaxPause: c.Retry.Longest().Milliseconds(), DeadLetters: c.DeadLetters, Heir: c.Heir,
		}),
		pending: map[core.Origin]*parking{},
	}
	s.terms.Store(&c.Terms)
	return s
}

const (
	// refenceAfter is after how many records of the journal its fence is repeated, so that From can move on.
	refenceAfter = 256
	// trimAfter is how many useless records are dropped at once.
	trimAfter = 256
	// tidyAtOnce is how many live records are appended once more in a commit interval.
	tidyAtOnce = 64
)

// From returns the offset from which an heir that starts at these positions has to read the journal.
func (s *Shard) From(at []protocol.Position) int64 {
	next := Nexts(at)
	var from int64
	s.do(func(st *core.State) {
		if from = st.From(next); st.End()-s.fenced >= refenceAfter {
			s.fenced = st.End()
			st.Refence()
		}
		st.Tidy(tidyAtOnce)
		if s.cut {
			from = s.cfg.From // stays as the evidence, until a reset
		}
		if from-s.trimmed >= trimAfter {
			signal(s.useless)
		}
	})
	return from
}

// Number is the shard's number in its set.
func (s *Shard) Number() int { return s.cfg.Shard }

// Started is closed when the engine may begin.
func (s *Shard) Started() <-chan struct{} { return s.started }

// Run keeps the journal and delivers parked records, until ctx ends (nil), or the shard has another owner
// (fault.Fenced; a group.Outrun says above which epoch to claim it), or its journal can't be read (fault.Corrupt …).
// It joins what it started.
func (s *Shard) Run(ctx context.Context) error {
	defer close(s.over)
	inner, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s.mu.Lock()
	s.stop = stop
	s.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { s.appendAll(inner) })
	wg.Go(func() { s.writeDead(inner) })
	wg.Go(func() { s.tail(inner) })
	wg.Go(func() { s.trim(inner) })
	wg.Go(func() { s.pump(inner, &wg) })
	s.do(func(st *core.State) { st.Start() })
	wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.handed {
		s.handed[i].permit.release()
	}
	return s.err
}

// Drain begins no new attempts at parked records, waits for those under way and for the journal, and ends
// Run. After patience it does so anyway, and the next owner repeats what was under way.
func (s *Shard) Drain(ctx context.Context, patience time.Duration) {
	drained := s.quiesce()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-drained:
	case <-late.C:
	case <-ctx.Done():
	case <-s.over:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		s.stop(context.Canceled)
	}
}

// signalDrained wakes Drain once nothing is under way; the caller holds mu.
func (s *Shard) signalDrained() {
	if s.drained == nil || s.running > 0 || !s.st.Drained() {
		return
	}
	select {
	case <-s.drained:
	default:
		close(s.drained)
	}
}

// end stops the shard because of err.
func (s *Shard) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(err)
}

func (s *Shard) endLocked(err error) {
	if s.err == nil {
		s.err = fmt.Errorf("subscription %q, shard %d: %w", s.cfg.Name, s.cfg.Shard, err)
	}
	s.stop(s.err)
}

// do calls f with the core, and passes on the effects that it wants.
func (s *Shard) do(f func(*core.State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.st)
	for _, e := range s.st.Effects() {
		switch e := e.(type) {
		case core.Append:
			s.batches <- e.Entries // never two at a time
		case core.Copy, core.Note:
			s.letters = append(s.letters, e)
			signal(s.writing)
		case core.Hurry:
			s.hurries = append(s.hurries, e)
		case core.Settle:
			if p := s.pending[e.Origin]; p != nil {
				delete(s.pending, e.Origin)
				close(p.done)
			}
		case core.Started:
			close(s.started)
		case core.Adopted:
			close(s.adopted)
		case core.Closed:
			s.endLocked(ErrEnded)
		case core.Trim:
			s.trimmed = max(s.trimmed, e.Before)
		case core.Behind:
			s.endLocked(behind{e.Seen.Epoch})
		}
	}
	s.empty.Store(s.st.Empty())
	s.signalDrained()
	signal(s.wake)
}

// signal sets a flag that one goroutine waits for.
func signal(flag chan<- struct{}) {
	select {
	case flag <- struct{}{}:
	default:
	}
}
