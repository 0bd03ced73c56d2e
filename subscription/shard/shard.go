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

// One shard at work: goroutines around a core that none of them owns. do tells the core all that happens, under
// one lock that is held for work in memory only. What the core wants comes back as effects, which go to the
// goroutine whose work it is: appends, copies, notes, the tail, the pump. Handle and Held, which the engine of
// the main records calls, are in admit.go, the end of a journal in takeover.go.
//
// Locks are taken in this order: those of a Limiter, gate, the engine's, mu.

// Config configures one shard.
type Config struct {
	Name        string // of the subscription
	Set         string // the ID of its shard set
	Retry       dispatch.Retry
	DeadLetters core.DeadLetters // what becomes of a record that is given up
	Journal     *commitlog.Topic // only this shard writes its partition Shard
	Dead        *commitlog.Topic
	Shard       int
	From        int64  // where the journal is read from, as the checkpoint says
	Epoch       int64  // of the grant
	Run         uint64 // counts the starts under that grant
	Member      string
	Stored      func(context.Context) (int64, error) // the From of the checkpoint as it is stored now
	Advanced    func()                               // called when From may have moved; may be nil
	Heir        bool                                 // take over before delivering: Shard.TakeOver, Shard.Open
	Heritage    *core.Heritage                       // from which shards; nil: from those with its partitions
	Handler     dispatch.Handler
	Filter      func(*dispatch.Record) (bool, error) // a record that it is false of is finished undelivered; nil: none is
	OrderBy     func(key []byte) []byte              // as in its engine; nil: the key
	Limits      *Limiter                             // of the subscription; nil: none
	Endpoint    *Limiter                             // of its endpoint; nil: none
	// Concurrency is how many parked records are delivered at once; default 8.
	Concurrency int
	// AnswerTimeout bounds the wait for an answer to a parked record; after that the shard is given up. 0: for
	// ever.
	AnswerTimeout time.Duration
	Logger        *slog.Logger
}

// Shard delivers the records of one unit: its engine calls Handle and Held, Run does the rest.
type Shard struct {
	cfg     Config
	log     *slog.Logger
	started chan struct{}     // what earlier owners left is known
	over    chan struct{}     // Run is at its end
	adopted chan struct{}     // what an earlier set left is in its journal
	left    []*Left           // what the earlier set left; set before it is asked for
	quiet   atomic.Bool       // nothing is parked: every record may be delivered at once
	kick    chan struct{}     // the pump looks again
	batches chan []core.Entry // at most one
	copying chan struct{}     // copies has some
	noting  chan struct{}     // notes has some
	useless chan struct{}     // some of the journal is useless once that is stored

	slots     slots        // for attempts
	paid      atomic.Int64 // tokens of parked records that are about to be delivered
	paidThere atomic.Int64 // the same, of the endpoint's rate
	stats     stats        // for people

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
	copies  []*core.Copy // not begun yet
	notes   []core.Note
	running int
	fenced  int64         // where the fence was repeated last, about
	trimmed int64         // offsets below were dropped, or are about to be
	cut     bool          // the journal began behind the place from which it was needed
	calm    chan struct{} // not nil: no new attempts; closed when all that was begun is written
	fate    error
	final   []byte // what the last record of the journal says
	stop    context.CancelCauseFunc
}

// Writes returns the topics that must be durable before the unit's progress is stored.
func (s *Shard) Writes() []*commitlog.Topic { return []*commitlog.Topic{s.cfg.Journal, s.cfg.Dead} }

// parking is a main record with a handler that waits for it.
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

// givenUp maps the reasons for giving a record up to those of the journal.
var givenUp = map[dispatch.Why]core.Reason{dispatch.Refused: core.Permanent, dispatch.SpentAttempts: core.Attempts}

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
			select {
			case s.useless <- struct{}{}:
			default:
			}
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

// Drain begins no new attempts at parked records, waits for those under way and for the journal, and ends
// Run. After patience it does so anyway, and the next owner repeats what was under way.
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

// calmDown wakes Drain once nothing is under way; the caller holds mu.
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

// do calls f with the core, and passes on the effects that it wants.
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

// mostCopies bounds the dead letters that wait for their copies; at it the pump begins no more attempts. Dead letters
// of main records are not held back: each keeps a handler of the engine busy, so they are few.
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

// dayEvery is how often the pump looks at the time of day while a record is to become due: the clock may have
// been set forward, or the host suspended, and no timer says so.
const dayEvery = time.Minute

// pump delivers parked records when they are due.
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
			s.pumped = append(s.pumped, e.(core.Deliver)) // Due has no other effects
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

// attempted gives the core the outcome of an attempt.
func (s *Shard) attempted(ctx context.Context, d core.Deliver, err error) {
	if ctx.Err() != nil && err != nil {
		return // its outcome is unknown; the next owner delivers it again
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
