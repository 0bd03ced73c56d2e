package shard

import (
	"errors"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/dispatch"
)

// A circuit holds back the deliveries of a subscription while their endpoint does not work, so that an outage is not
// taken for thousands of failing records. All shards of a process share one.
//
// It judges every attempt, those at parked records too, by errors that report an outage (Outage() bool): no answer at
// all, or one that is not about the record. Such an attempt counts against its record only where others are answered:
// at most as often as others were since the record began to fail so, and not while several keys fail so without
// another answer among them. In an outage nothing is answered, so no record loses an attempt, be there one key or a
// thousand; a record that never gets an answer while others do uses up its attempts. An attempt that does not count
// is repeated after the pauses of the retry policy.
//
// It opens when the first attempts at the records of several keys end so, one after another with no other answer
// among them: one key that fails for ever opens nothing, nor do failing keys among sound ones. An error that says
// that nothing of the record was sent (Unreached() bool) is no record's fault, and one opens it. While it is open, no
// attempt counts; records are tried one at a time, each time of another key, by turns that look grants. The first answer
// other than an outage, to an attempt that began since, closes it. A turn that leads to no attempt, as the record is
// parked behind its key or filtered, is followed by another one soon.
type circuit struct {
	log  *slog.Logger
	told func(dispatch.Failure) // gets each opening and closing, under mu: it must not block; nil: nothing does
	seed maphash.Seed           // of the lines

	healthy atomic.Bool  // it is closed and has no suspects: an answer changes nothing
	period  atomic.Int64 // how often it has opened and closed; odd: it is open

	mu      sync.Mutex          // taken before the locks of shards
	failing map[uint64]struct{} // lines whose first attempts ended in an outage since the last other answer
	recent  map[uint64]struct{} // lines with any attempt that did, outageKeysInTime at most
	suspect map[uint64]suspect  // lines whose last attempt did
	answers uint64              // of any other kind than an outage, while it is not healthy
	why     string              // the answer that opened it
	since   time.Time           // the first of those failed, or the opening
	spared  int                 // attempts since the opening that did not count
	granted bool                // a turn that is not used yet: the next attempt may begin
	probes  int                 // under way
	begun   time.Time           // the last of them was
	pause   time.Duration       // until the next look
	asked   time.Time           // what an answer asked for: nothing is tried before
	timer   *time.Timer
	shards  []*Shard
	last    int // the shard that was tried last
	over    bool
}

// suspect is a line whose last attempt ended in an outage.
type suspect struct {
	spent uint64 // answers of others up to its first, and one for each that counted
	tries int    // that did not count, in a row
}

const (
	// mostSuspects bounds their memory. A forgotten one has a try more.
	mostSuspects = 1 << 14

	// outageKeys is how many keys in a row fail at their first attempt in an outage; outageKeysInTime is
	// enough once that has lasted for outageTime: where there are few records, there may never be more.
	outageKeys       = 16
	outageKeysInTime = 3
	outageTime       = 2 * time.Second

	firstProbe  = 100 * time.Millisecond // after the opening; then the pauses double
	probeEvery  = time.Second            // at most
	longestWait = time.Minute            // the longest RetryAfter that is heeded
	probeSoon   = 10 * time.Millisecond  // after a turn that led to no attempt
	slowProbe   = 2 * time.Second        // then another one is made beside it
	maxProbes   = 4
)

// newCircuit makes a closed circuit.
func newCircuit(log *slog.Logger) *circuit {
	b := &circuit{log: log, seed: maphash.MakeSeed(), failing: map[uint64]struct{}{}, recent: map[uint64]struct{}{}, suspect: map[uint64]suspect{}}
	b.healthy.Store(true)
	return b
}

// IsOutage reports whether an error says that the endpoint does not work, whatever the record: it, or
// one that it wraps, has a method Outage() bool that returns true.
func IsOutage(err error) bool {
	var o interface{ Outage() bool }
	return errors.As(err, &o) && o.Outage()
}

// IsUnreached reports whether an outage's error says that nothing of the record was sent, as there was
// no connection: it, or one that it wraps, has a method Unreached() bool that returns true.
func IsUnreached(err error) bool {
	var u interface{ Unreached() bool }
	return errors.As(err, &u) && u.Unreached()
}

// spared is the error of an attempt that does not count.
type spared struct {
	error
	pause time.Duration // before the next; 0: none
}

// Uncounted marks an error: the attempt was none. The record is tried again after the pause.
func Uncounted(err error, pause time.Duration) error { return spared{err, pause} }

// Uncounted serves dispatch.
func (e spared) Uncounted() (time.Duration, bool) { return e.pause, true }

func (e spared) Unwrap() error { return e.error }

var errOpen = spared{error: errors.New("nothing is delivered for now: what it goes to does not answer")}

// open reports whether deliveries are held back.
func (b *circuit) open() bool { return b.period.Load()%2 == 1 }

// begin asks whether an attempt may begin, and returns the period that ended needs. While it is open, each turn is
// for one attempt.
func (b *circuit) begin() (period int64, ok bool) {
	if period = b.period.Load(); period%2 == 0 {
		return period, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if period = b.period.Load(); period%2 == 0 {
		return period, true
	}
	if !b.granted {
		return period, false
	}
	b.granted, b.begun = false, time.Now()
	b.probes++
	return period, true
}

// turnOver notes that a record was handled while it is open: when the turn is unused then, it looks again soon.
func (b *circuit) turnOver() {
	if b == nil || !b.open() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open() && b.granted && !b.over && b.timer.Stop() { // else it is about to look anyway
		b.arm(probeSoon)
	}
}

// verdict is the outcome of an attempt.
type verdict struct {
	uncounted bool
	tries     int // that did not count in a row, this one among them; 0: it is tried as soon as deliveries go on
}

// ended judges an attempt at a record of a line that began at.
func (b *circuit) ended(at int64, line uint64, first bool, err error) verdict {
	outage := err != nil && IsOutage(err)
	if !outage && at%2 == 0 && b.healthy.Load() {
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
		if b.open() && at == b.period.Load() { // else it is about an earlier period
			b.close(now)
		}
		return verdict{}
	}
	b.healthy.Store(false)
	_, known := b.suspect[line] // an attempt that did not count is the first once more, and says nothing new
	if b.judgeFirst(now, line, first && !known, err) {
		b.trip(now, err)
		return verdict{uncounted: true}
	}
	return b.weigh(line)
}

// answered handles an answer other than an outage: it speaks for the endpoint, and for its line.
func (b *circuit) answered(line uint64) {
	b.answers++
	clear(b.failing)
	clear(b.recent)
	delete(b.suspect, line)
	b.healthy.Store(!b.open() && len(b.suspect) == 0)
}

// judgeFirst reports whether to open after an attempt that ended in an outage.
func (b *circuit) judgeFirst(now time.Time, line uint64, first bool, err error) bool {
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

// weigh reports whether an attempt of a line that ended in an outage counts.
func (b *circuit) weigh(line uint64) verdict {
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
func (b *circuit) bound() {
	if len(b.suspect) < mostSuspects {
		return
	}
	for line := range b.suspect {
		delete(b.suspect, line)
		return
	}
}

// absolve forgets a line whose record is tried no more.
func (b *circuit) absolve(line uint64) {
	if b == nil || b.healthy.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.suspect, line)
	b.healthy.Store(!b.open() && len(b.suspect)+len(b.failing) == 0)
}

// forget is ended for an attempt with an unknown outcome.
func (b *circuit) forget(at int64) {
	if at%2 == 1 {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.probes--
	}
}

// trip opens it; the caller holds mu.
func (b *circuit) trip(now time.Time, err error) {
	b.log.Warn("deliveries are held back: what they go to does not work; no attempt counts, and one record at a time is tried until there is an answer",
		"keys", len(b.failing), "error", err)
	if b.told != nil {
		b.told(dispatch.Failure{Outcome: dispatch.HeldBack, Offset: -1, Err: err})
	}
	clear(b.failing)
	clear(b.recent)
	clear(b.suspect)
	b.since, b.spared, b.pause, b.asked, b.why = now, 0, firstProbe, time.Time{}, shortly(err)
	b.healthy.Store(false)
	b.period.Add(1)
	for _, s := range b.shards {
		s.setPaused(heldBack, true)
		s.news()
	}
	b.heed(now, err)
	b.arm(firstProbe)
}

// close lets deliveries go on; the caller holds mu.
func (b *circuit) close(now time.Time) {
	b.log.Warn("deliveries go on: there was an answer", "after", now.Sub(b.since).Round(time.Millisecond), "attempts_not_counted", b.spared)
	if b.told != nil {
		b.told(dispatch.Failure{Outcome: dispatch.GoesOn, Offset: -1})
	}
	b.granted = false
	b.period.Add(1)
	b.healthy.Store(true)
	for _, s := range b.shards {
		s.setPaused(heldBack, false)
		s.news()
	}
}

// heed notes the wait that an answer asks for; the caller holds mu.
func (b *circuit) heed(now time.Time, err error) {
	if wait := dispatch.AskedPause(err); wait > 0 {
		b.asked = now.Add(min(wait, longestWait))
	}
}

// arm schedules look, of this period; the caller holds mu.
func (b *circuit) arm(pause time.Duration) {
	if b.over {
		return
	}
	period := b.period.Load()
	b.timer = time.AfterFunc(pause, func() { b.look(period) })
}

// look grants one attempt, at a record of the next shard that has one.
func (b *circuit) look(period int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if period != b.period.Load() || b.over {
		return
	}
	now := time.Now()
	if now.After(b.asked) && (b.probes == 0 || b.probes < maxProbes && now.Sub(b.begun) >= slowProbe) {
		for range b.shards {
			b.last = (b.last + 1) % len(b.shards)
			if b.shards[b.last].tryOne() {
				b.granted = true
				break
			}
		}
	}
	b.pause = min(2*b.pause, probeEvery)
	b.arm(b.pause)
}

// join adds a shard until leave is called.
func (b *circuit) join(s *Shard) (leave func()) {
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
		b.last = 0
	}
}

// end stops it: nothing more is tried.
func (b *circuit) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	if b.timer != nil {
		b.timer.Stop()
	}
}
