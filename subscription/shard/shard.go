package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription/core"
)

// One shard at work: goroutines around a core that none of them owns. All that happens is told the core by do,
// under one lock that is held for work in memory only; what the core wants comes back as effects, which go to the
// goroutine whose work it is: appends, copies, notes, the tail, the pump. Handle and Held, which the engine of
// the main records calls, are in admit.go, the end of a journal in take.go.
//
// Locks are taken in this order: those of a Limiter, gate, the engine's, mu.

// Config is one shard.
type Config struct {
	Name        string // of the subscription
	Set         string // the ID of its shard set
	Retry       dispatch.Retry
	DeadLetters core.DeadLetters // what becomes of a record that is given up
	Journal     *commitlog.Topic // its partition Shard is written by this shard alone
	Dead        *commitlog.Topic
	Shard       int
	From        int64  // where the journal is read from, as the checkpoint says
	Epoch       int64  // of the grant
	Run         uint64 // counts the starts under that grant
	Member      string
	Stored      func(context.Context) (int64, error) // the From of the checkpoint as it is stored now
	Advanced    func()                               // is told that From may have moved; nil: nobody is
	Heir        bool                                 // it takes over before it delivers: Shard.TakeOver, Shard.Open
	Heritage    *core.Heritage                       // and from whom what; nil: what is of its partitions
	Handler     dispatch.Handler
	Filter      func(*dispatch.Record) (bool, error) // what it is false of is finished undelivered; nil: nothing is
	OrderBy     func(key []byte) []byte              // as that of its engine; nil: the key
	Limits      *Limiter                             // of the subscription; nil: none
	Endpoint    *Limiter                             // of what it goes to; nil: none
	// Concurrency is how many parked records are delivered at once; default 8.
	Concurrency int
	// AnswerTimeout is how long an answer for a parked record may take before the shard is given up; 0: for ever.
	AnswerTimeout time.Duration
	Logger        *slog.Logger
}

// Shard delivers the records of one unit: Handle and Held are what its engine calls, Run does the rest.
type Shard struct {
	cfg     Config
	log     *slog.Logger
	started chan struct{}     // what earlier owners left is known
	over    chan struct{}     // Run is at its end
	adopted chan struct{}     // what was left by an earlier set is in its journal
	left    []*Left           // that; set before it is asked for
	quiet   atomic.Bool       // nothing is parked: every record may be delivered at once
	kick    chan struct{}     // the pump looks again
	batches chan []core.Entry // at most one
	copying chan struct{}     // copies has some
	noting  chan struct{}     // notes has some
	useless chan struct{}     // some of the journal is of no use, once that is stored

	slots     slots        // for attempts
	paid      atomic.Int64 // tokens that parked records have which are about to be delivered
	paidThere atomic.Int64 // the same, of the endpoint's rate
	stats     stats        // to people

	gate   sync.Mutex // guards the next three; it is taken before mu, and before the engine's
	paused pauses
	engine Engine
	turn   bool // what tryOne looks at first

	// mu guards all that follows; it is held for work in memory only.
	mu      sync.Mutex
	st      *core.State
	clock   clock
	pending map[core.Origin]*parking
	pumped  []core.Deliver
	copies  []*core.Copy // that nobody has begun yet
	notes   []core.Note
	running int
	fenced  int64         // where the fence was repeated last, about
	trimmed int64         // what is below was dropped, or is about to be
	cut     bool          // the journal began behind the place from which it was needed
	calm    chan struct{} // not nil: no new attempts; closed when all is written that was begun
	fate    error
	final   []byte // what the last record of the journal says
	stop    context.CancelCauseFunc
}

// Writes are the topics where it keeps what has to last as long as the progress of its unit.
func (s *Shard) Writes() []*commitlog.Topic { return []*commitlog.Topic{s.cfg.Journal, s.cfg.Dead} }

// parking is a main record that somebody waits for.
type parking struct {
	rec  commitlog.Record
	done chan struct{}
}

// New makes a shard and starts nothing.
func New(c Config) *Shard {
	if c.Concurrency == 0 {
		c.Concurrency = 8
	}
	return &Shard{
		cfg: c, log: c.Logger.With("subscription", c.Name, "shard", c.Shard),
		useless: make(chan struct{}, 1), trimmed: c.From,
		started: make(chan struct{}), over: make(chan struct{}), adopted: make(chan struct{}), kick: make(chan struct{}, 1),
		batches: make(chan []core.Entry, 1), copying: make(chan struct{}, 1), noting: make(chan struct{}, 1),
		st: core.New(core.Config{
			Set: c.Set, Member: c.Member, From: c.From, Now: time.Now().UnixMilli(),
			Tenure:      core.Tenure{Epoch: c.Epoch, Run: c.Run, Token: rand.Uint64()},
			MaxAttempts: c.Retry.MaxAttempts, MaxPause: c.Retry.Longest().Milliseconds(), DeadLetters: c.DeadLetters, Heir: c.Heir,
		}),
		pending: map[core.Origin]*parking{},
	}
}

// givenUp is what the journal says of a record that is given up.
var givenUp = map[dispatch.Why]core.Reason{dispatch.Refused: core.Permanent, dispatch.SpentAttempts: core.Attempts}

const (
	// refenceAfter is after how many records of the journal its fence is repeated, so that From can move on.
	refenceAfter = 256
	// trimAfter is how many records that are of no use any more are dropped at once.
	trimAfter = 256
	// tidyAtOnce is how many live records are appended once more in a commit interval.
	tidyAtOnce = 64
)

// From is where an heir has to read the journal from that starts at these positions.
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
			select {
			case s.useless <- struct{}{}:
			default:
			}
		}
	})
	return from
}

// Number is that of the shard in its set.
func (s *Shard) Number() int { return s.cfg.Shard }

// Started is closed when the engine may begin.
func (s *Shard) Started() <-chan struct{} { return s.started }

// Run keeps the journal and delivers what is parked, until ctx ends (nil), or the shard is somebody
// else's (fault.Fenced; a group.Outrun says above which epoch it has to be claimed), or its journal can't be read (fault.Corrupt …). It joins what it started.
func (s *Shard) Run(ctx context.Context) error {
	defer close(s.over)
	if s.cfg.Epoch > core.MaxEpoch {
		return fmt.Errorf("subscription %q, shard %d: epoch %d; its journal can have %d at most: %w", s.cfg.Name, s.cfg.Shard, s.cfg.Epoch, int64(core.MaxEpoch), fault.Corrupt)
	}
	inner, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s.mu.Lock()
	s.stop = stop
	s.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { s.appendAll(inner) })
	wg.Go(func() { s.copyAll(inner) })
	wg.Go(func() { s.noteAll(inner) })
	wg.Go(func() { s.tail(inner) })
	wg.Go(func() { s.trim(inner) })
	wg.Go(func() { s.pump(inner, &wg) })
	s.do(func(st *core.State) { st.Start() })
	wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fate
}

// Drain begins no new attempts at what is parked, waits for those under way and for the journal, and
// ends Run; after a while it does so anyway, and what was under way is delivered again by the next owner.
func (s *Shard) Drain(ctx context.Context, patience time.Duration) {
	calm := s.quiesce()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-calm:
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

// calmDown tells who drains that it is time; the caller holds mu.
func (s *Shard) calmDown() {
	if s.calm == nil || s.running > 0 || len(s.copies) > 0 || !s.st.Calm() {
		return
	}
	select {
	case <-s.calm:
	default:
		close(s.calm)
	}
}

// end stops the shard because of err.
func (s *Shard) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(err)
}

func (s *Shard) endLocked(err error) {
	if s.fate == nil {
		s.fate = fmt.Errorf("subscription %q, shard %d: %w", s.cfg.Name, s.cfg.Shard, err)
	}
	s.stop(s.fate)
}

// do lets f tell the core something, and passes on what the core wants.
func (s *Shard) do(f func(*core.State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.st)
	for _, e := range s.st.Effects() {
		switch e := e.(type) {
		case core.Append:
			s.batches <- e.Entries // never two at a time
		case core.Copy:
			s.copyLocked(e)
		case core.Note:
			s.noteLocked(e)
		case core.Settle:
			if p := s.pending[e.Origin]; p != nil {
				delete(s.pending, e.Origin)
				close(p.done)
			}
		case core.Deliver:
			s.pumped = append(s.pumped, e)
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
	s.quiet.Store(s.st.Quiet())
	s.calmDown()
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// mostCopies is how many dead letters may wait for their copies before the pump begins no more attempts. Those of main
// records are not among what it holds back: each of them keeps a handler of the engine busy, so they are few.
const mostCopies = 64

// copyLocked hands a copy on.
func (s *Shard) copyLocked(c core.Copy) {
	s.copies = append(s.copies, &c)
	select {
	case s.copying <- struct{}{}:
	default:
	}
}

// key is the ordering key of a record.
func (s *Shard) key(key []byte) []byte {
	if by := s.cfg.OrderBy; by != nil {
		return by(key)
	}
	return key
}

func originOf(r *dispatch.Record) core.Origin {
	return core.Origin{Storage: int32(r.Storage), Partition: int32(r.Partition), Offset: r.Offset}
}

// dayEvery is after how long the pump looks at the time of day again while something is to be due: it may have
// been set forward, or the host was suspended, and no timer tells.
const dayEvery = time.Minute

// pump delivers what is parked when it is due.
func (s *Shard) pump(ctx context.Context, wg *sync.WaitGroup) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait := time.Hour
		s.mu.Lock()
		now := s.nowLocked().UnixMilli()
		free := s.slots.atMost(s.cfg.Concurrency) - s.running
		if s.calm != nil || len(s.copies) >= mostCopies {
			free = 0 // each copy that is done kicks the pump
		}
		due, waiting := s.st.Due(now, free)
		for _, e := range s.st.Effects() {
			s.pumped = append(s.pumped, e.(core.Deliver)) // Due wants nothing else
		}
		pumped := s.pumped
		s.pumped = nil
		s.running += len(pumped)
		if waiting && free > len(pumped) {
			wait = time.Duration(min(max(0, due-now), dayEvery.Milliseconds())) * time.Millisecond
		}
		s.mu.Unlock()
		for _, d := range pumped {
			wg.Go(func() { s.attempt(ctx, d) }) // joined by Run
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-s.kick:
		case <-timer.C:
		}
	}
}

// attempt delivers one parked record.
func (s *Shard) attempt(ctx context.Context, d core.Deliver) {
	asked, err := false, errExited
	defer func() {
		if asked {
			s.attempted(ctx, d, err)
		}
		s.mu.Lock()
		s.running--
		s.mu.Unlock()
		s.do(func(*core.State) {})
	}()
	rec, unread := s.payload(ctx, core.Payload{From: core.InJournal, Place: d.Place}, d.ID.Origin)
	if unread != nil {
		return // ctx is over, or the shard
	}
	rec.Offset = d.ID.Offset
	r := dispatch.Record{Record: rec, Storage: int(d.ID.Storage), Partition: int(d.ID.Partition), Attempt: d.Attempt}
	asked = true
	err = s.parked(ctx, &r, d.ID.Round)
}

var errExited = errors.New("the handler ended its goroutine (runtime.Goexit)")

// attempted tells the core what became of an attempt.
func (s *Shard) attempted(ctx context.Context, d core.Deliver, err error) {
	if ctx.Err() != nil && err != nil {
		return // nobody knows; the next owner delivers it again
	}
	now := s.now()
	if e := (early{}); errors.As(err, &e) {
		s.do(func(st *core.State) {
			st.Spared(d.ID, min(e.at.UnixMilli(), now.UnixMilli()+s.cfg.Retry.Longest().Milliseconds()))
		})
		return
	}
	if e := (spared{}); errors.As(err, &e) {
		s.do(func(st *core.State) { st.Spared(d.ID, now.Add(e.pause).UnixMilli()) })
		return
	}
	o := core.Outcome{Done: err == nil, Now: now.UnixMilli()}
	if err != nil {
		next := s.cfg.Retry.Next(d.Attempt, now.Sub(time.UnixMilli(d.Since)), err)
		o.Answer, o.Due, o.GiveUp = err.Error(), now.Add(next.Pause).UnixMilli(), givenUp[next.Why]
	}
	if o.GiveUp != 0 {
		s.cfg.Limits.ofCircuit().absolve(s.lineOf(d.Key, d.ID.Origin))
	}
	s.do(func(st *core.State) { st.Attempted(d.ID, o) })
}

func (s *Shard) call(ctx context.Context, r *dispatch.Record) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the handler panicked: %v", v)
			s.log.Error("a handler panicked", "storage", r.Storage, "partition", r.Partition, "offset", r.Offset, "panic", v, "stack", string(debug.Stack()))
		}
	}()
	return s.bounded(ctx, r, true)
}

var errMoved = errors.New("nobody waits for it")
