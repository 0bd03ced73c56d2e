package shard

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/subscription/core"
)

// A Breaker holds the deliveries of a subscription back while what they go to does not work, so that an
// outage is not taken for thousands of records that fail. It is one for all shards in a process.
//
// It judges every attempt, those at parked records too, by errors that say that it is an outage (Outage() bool): no answer
// at all, or one that is not about the record. Such an attempt counts against its record only where others are answered:
// at most as often as others were since the record began to fail so, and not while several keys fail so without another
// answer among them. In an outage nobody is answered, so no record loses an attempt, be there one key or a thousand; a
// record that never gets an answer while others do uses up its attempts. What does not count is tried again after the
// pauses of the retry policy.
//
// It opens when the first attempts at the records of several keys end so, one after another with no other answer among
// them: one key that fails for ever opens nothing, nor do failing keys among sound ones. An error that says that nothing
// of the record was sent (Unreached() bool) is no record's fault, and one opens it. While it is open, no attempt counts
// and nothing is parked; records are tried one at a time, each time of another key. The first answer that is none of an
// outage, to an attempt that began since, closes it.
type Breaker struct {
	log  *slog.Logger
	seed maphash.Seed // of the lines

	calm   atomic.Bool  // it is closed and suspects nobody: an answer changes nothing
	period atomic.Int64 // how often it has opened and closed; odd: it is open

	mu      sync.Mutex          // taken before the locks of shards
	failing map[uint64]struct{} // lines whose first attempts ended in an outage since the last other answer
	recent  map[uint64]struct{} // lines with any attempt that did, outageKeysInTime at most
	suspect map[uint64]suspect  // lines whose last attempt did
	answers uint64              // of any other kind than an outage, while it is not calm
	why     string              // the answer that opened it
	since   time.Time           // the first of those failed, or the opening
	spared  int                 // attempts since the opening that did not count
	probes  int                 // under way
	begun   time.Time           // the last of them was
	pause   time.Duration       // until the next look
	asked   time.Time           // what an answer asked for: nothing is tried before
	timer   *time.Timer
	shards  []*Shard
	turn    int
	ended   bool
}

// suspect is a line whose last attempt ended in an outage.
type suspect struct {
	spent uint64 // answers of others up to its first, and one for each that counted
	tries int    // that did not count, in a row
}

const (
	// mostSuspects bounds the memory for them. One that is forgotten has a try more.
	mostSuspects = 1 << 14

	// outageKeys is how many keys in a row fail at their first attempt in an outage; outageKeysInTime, how
	// many do when that has lasted for outageTime: where there are few records, there may never be more.
	outageKeys       = 16
	outageKeysInTime = 3
	outageTime       = 2 * time.Second

	firstProbe  = 100 * time.Millisecond // after the opening; then the pauses double
	probeEvery  = time.Second            // at most
	longestWait = time.Minute            // that a RetryAfter is heeded for
	slowProbe   = 2 * time.Second        // then another one is made beside it
	maxProbes   = 4
)

// NewBreaker makes one that is closed.
func NewBreaker(log *slog.Logger) *Breaker {
	b := &Breaker{log: log, seed: maphash.MakeSeed(), failing: map[uint64]struct{}{}, recent: map[uint64]struct{}{}, suspect: map[uint64]suspect{}}
	b.calm.Store(true)
	return b
}

// IsOutage says whether an error tells that what is delivered to does not work, whatever the record: it,
// or one that it wraps, has a method Outage() bool that says so.
func IsOutage(err error) bool {
	var o interface{ Outage() bool }
	return errors.As(err, &o) && o.Outage()
}

// IsUnreached says whether an outage's error tells that nothing of the record was sent, as there was no
// connection: it, or one that it wraps, has a method Unreached() bool that says so.
func IsUnreached(err error) bool {
	var u interface{ Unreached() bool }
	return errors.As(err, &u) && u.Unreached()
}

// spared is the error of an attempt that does not count.
type spared struct {
	error
	pause time.Duration // before the next; 0: none
}

// Uncounted is for dispatch.
func (e spared) Uncounted() (time.Duration, bool) { return e.pause, true }

func (e spared) Unwrap() error { return e.error }

var errOpen = spared{error: errors.New("nothing is delivered for now: what it goes to does not answer")}

// open says whether deliveries are held back.
func (b *Breaker) open() bool { return b.period.Load()%2 == 1 }

// begin notes that an attempt begins, and returns what end has to be told.
func (b *Breaker) begin() int64 {
	at := b.period.Load()
	if at%2 == 1 {
		b.mu.Lock()
		b.probes++
		b.begun = time.Now()
		b.mu.Unlock()
	}
	return at
}

// verdict is what an attempt was.
type verdict struct {
	uncounted bool
	tries     int // that did not count in a row, this one among them; 0: it is tried as soon as deliveries go on
}

// end learns how an attempt at a record of a line went that began at.
func (b *Breaker) end(at int64, line uint64, first bool, err error) verdict {
	outage := err != nil && IsOutage(err)
	if !outage && at%2 == 0 && b.calm.Load() {
		return verdict{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if at%2 == 1 {
		b.probes--
	}
	now := time.Now()
	switch {
	case b.open() && outage:
		b.spared++
		b.heed(now, err)
		return verdict{uncounted: true}
	case !outage:
		b.answered(line)
		if b.open() && at == b.period.Load() { // else it is about what was before
			b.close(now)
		}
		return verdict{}
	}
	b.calm.Store(false)
	if b.judgeFirst(now, line, first, err) {
		b.trip(now, err)
		return verdict{uncounted: true}
	}
	return b.weigh(line)
}

// answered takes an answer of another kind than an outage in: it speaks for the endpoint, and for its line.
func (b *Breaker) answered(line uint64) {
	b.answers++
	clear(b.failing)
	clear(b.recent)
	delete(b.suspect, line)
	b.calm.Store(!b.open() && len(b.suspect) == 0)
}

// judgeFirst says whether it is to open after an attempt that ended in an outage.
func (b *Breaker) judgeFirst(now time.Time, line uint64, first bool, err error) bool {
	switch {
	case IsUnreached(err):
		return true
	case !first:
		return false
	}
	if len(b.failing) == 0 {
		b.since = now
	}
	b.failing[line] = struct{}{}
	n := len(b.failing)
	return n >= outageKeys || n >= outageKeysInTime && now.Sub(b.since) >= outageTime
}

// weigh says whether an attempt of a line that ended in an outage counts.
func (b *Breaker) weigh(line uint64) verdict {
	if len(b.recent) < outageKeysInTime {
		b.recent[line] = struct{}{}
	}
	s, known := b.suspect[line]
	if !known {
		s.spent = b.answers
		b.bound()
	}
	counts := b.answers > s.spent && len(b.recent) < outageKeysInTime
	if s.tries++; counts {
		s.spent++
		s.tries = 0
	}
	b.suspect[line] = s
	return verdict{uncounted: !counts, tries: s.tries}
}

// bound makes room for one more suspect.
func (b *Breaker) bound() {
	if len(b.suspect) < mostSuspects {
		return
	}
	for line := range b.suspect {
		delete(b.suspect, line)
		return
	}
}

// absolve forgets a line whose record is tried no more.
func (b *Breaker) absolve(line uint64) {
	if b == nil || b.calm.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.suspect, line)
	b.calm.Store(!b.open() && len(b.suspect)+len(b.failing) == 0)
}

// forget is end for an attempt of which nobody knows how it went.
func (b *Breaker) forget(at int64) {
	if at%2 == 1 {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.probes--
	}
}

// trip opens it; the caller holds mu.
func (b *Breaker) trip(now time.Time, err error) {
	b.log.Warn("deliveries are held back: what they go to does not work; no attempt counts, and one record at a time is tried until there is an answer",
		"keys", len(b.failing), "error", err)
	clear(b.failing)
	clear(b.recent)
	clear(b.suspect)
	b.since, b.spared, b.pause, b.asked, b.why = now, 0, firstProbe, time.Time{}, shortly(err)
	b.calm.Store(false)
	b.period.Add(1)
	for _, s := range b.shards {
		s.setPaused(heldBack, true)
		s.news()
	}
	b.heed(now, err)
	b.arm()
}

// close has everything go on; the caller holds mu.
func (b *Breaker) close(now time.Time) {
	b.log.Warn("deliveries go on: there was an answer", "after", now.Sub(b.since).Round(time.Millisecond), "attempts_not_counted", b.spared)
	b.period.Add(1)
	b.calm.Store(true)
	for _, s := range b.shards {
		s.setPaused(heldBack, false)
		s.news()
	}
}

// heed notes the wait that an answer asks for; the caller holds mu.
func (b *Breaker) heed(now time.Time, err error) {
	if wait := dispatch.AskedPause(err); wait > 0 {
		b.asked = now.Add(min(wait, longestWait))
	}
}

// arm has look called; the caller holds mu.
func (b *Breaker) arm() {
	if b.ended {
		return
	}
	b.timer = time.AfterFunc(b.pause, b.look)
	b.pause = min(2*b.pause, probeEvery)
}

// look has one record tried, of the next shard that has one.
func (b *Breaker) look() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open() || b.ended {
		return
	}
	now := time.Now()
	if now.After(b.asked) && (b.probes == 0 || b.probes < maxProbes && now.Sub(b.begun) >= slowProbe) {
		for range b.shards {
			b.turn = (b.turn + 1) % len(b.shards)
			if b.shards[b.turn].tryOne() {
				break
			}
		}
	}
	b.arm()
}

// Join has a shard follow until the returned function is called.
func (b *Breaker) Join(s *Shard) (leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shards = append(b.shards, s)
	s.setPaused(heldBack, b.open())
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for i, other := range b.shards {
			if other == s {
				b.shards = append(b.shards[:i:i], b.shards[i+1:]...)
				break
			}
		}
		b.turn = 0
	}
}

// End stops it: nothing more is tried.
func (b *Breaker) End() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	if b.timer != nil {
		b.timer.Stop()
	}
}

// deliver calls the handler, and tells the breaker how that went. The answer for a record that was parked is
// waited for: who delivers it has nothing else to do.
func (s *Shard) deliver(ctx context.Context, r *dispatch.Record, parked bool) error {
	b := s.cfg.Breaker
	if b == nil {
		return s.ask(ctx, r, parked)
	}
	began, returned := b.begin(), false
	defer func() {
		if !returned { // it panicked: that is no outage
			b.end(began, s.line(r), false, nil)
		}
	}()
	err := s.ask(ctx, r, parked)
	returned = true
	if err == nil && r.Late() {
		r.Then(func(err error) error { return s.judged(ctx, began, r, err) })
		return nil
	}
	return s.judged(ctx, began, r, err)
}

// ask calls the handler.
func (s *Shard) ask(ctx context.Context, r *dispatch.Record, parked bool) error {
	if parked {
		r.Within(ctx)
	}
	err := s.cfg.Handler(ctx, r)
	if !parked {
		return err
	}
	if most := s.cfg.AnswerTimeout; most > 0 && err == nil && r.Late() {
		late := time.AfterFunc(most, func() {
			s.end(fmt.Errorf("the handler of a parked record (storage topic %d, partition %d, offset %d) has not answered within %s; it is delivered again: %w",
				r.Storage, r.Partition, r.Offset, most, fault.Unavailable))
		})
		defer late.Stop()
	}
	return r.Wait(ctx, err, answerGrace)
}

// answerGrace is how long the answer for a parked record is waited for when its attempt was cancelled.
const answerGrace = 5 * time.Second

// judged tells the breaker how an attempt went that began at.
func (s *Shard) judged(ctx context.Context, began int64, r *dispatch.Record, err error) error {
	b := s.cfg.Breaker
	if ctx.Err() != nil && err != nil {
		b.forget(began) // nobody knows how it went
		return err
	}
	var line uint64
	if err != nil || !b.calm.Load() {
		line = s.line(r)
	}
	v := b.end(began, line, r.Attempt == 1, err)
	if t := s.cfg.Throttle; t != nil {
		if v.uncounted && b.open() {
			t.outage()
		} else {
			t.answered(err != nil && IsOutage(err))
		}
	}
	if !v.uncounted {
		return err
	}
	out := spared{error: err}
	if v.tries > 0 {
		out.pause = s.cfg.Retry.Next(r.Attempt-1+v.tries, 0, err).Pause
	}
	return out
}

// line is what a record is delivered in order with.
func (s *Shard) line(r *dispatch.Record) uint64 { return s.lineOf(s.key(r.Key), originOf(r)) }

func (s *Shard) lineOf(key []byte, o core.Origin) uint64 {
	b := s.cfg.Breaker
	switch {
	case b == nil:
		return 0
	case key != nil:
		return maphash.Bytes(b.seed, key)
	}
	return maphash.Comparable(b.seed, o)
}
