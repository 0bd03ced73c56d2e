package shard

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// A rate keeps the attempts of a process within its part of a rate, for all shards here.
//
// It is a token bucket, filled at that rate, with room for what comes in burstTime, and empty at the start. A record
// without a token is not attempted: all shards pause until there are some. No handler waits for a token, or a drain,
// a pause and the handler's time-out would wait along.
//
// Where most attempts are refused it bounds them by what is accepted, too: see backoff.
type rate struct {
	log      *slog.Logger
	why      pauses      // what it pauses shards for
	bounds   atomic.Bool // there is a rate, or a bound of backoff
	watching atomic.Bool // backoff looks at answers

	mu        sync.Mutex // taken before the locks of shards
	perSecond float64    // of all members, in attempts a second; 0: no bound
	part      float64    // of it that is this process's
	tokens    float64
	at        time.Time // when tokens was right
	barred    bool      // until there are tokens
	parked    bool      // whose turn it is: that of what is parked
	timer     *time.Timer
	shards    map[*Shard]float64 // and the part of each
	backoff   backoff
	ended     bool
}

const (
	burstTime   = 100 * time.Millisecond
	refillEvery = 50 * time.Millisecond // at most: pauses are not for free
	noPartWait  = time.Minute           // until there are tokens; a shard that comes ends it
)

var errNoToken = spared{error: errors.New("the subscription, or its endpoint, has used up its rate for now")}

// newRate makes a rate that bounds nothing.
func newRate(log *slog.Logger) *rate {
	return &rate{log: log, why: throttled, shards: map[*Shard]float64{}, at: time.Now()}
}

// set sets how many attempts a second all members may begin; 0: no bound.
func (t *rate) set(perSecond float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.refill(now)
	t.perSecond = perSecond
	t.heed(now)
}

// heed applies changed bounds; the caller holds mu, and has filled the bucket until now.
func (t *rate) heed(now time.Time) {
	t.bounds.Store(t.bounded())
	t.refill(now) // no more than there is room for now
	t.unbar(now)
}

// bounded says whether there is any bound; the caller holds mu.
func (t *rate) bounded() bool { return t.perSecond > 0 || t.backoff.bound > 0 }

// join adds a shard until leave is called; part is its partitions' share of all.
func (t *rate) join(s *Shard, part float64) (leave func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.setPaused(t.why, t.barred)
	t.shards[s] = part
	t.share()
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.shards, s)
		t.share()
	}
}

// share sums up the parts of the shards that are here; the caller holds mu.
func (t *rate) share() {
	now := time.Now()
	t.refill(now)
	t.part = 0
	for _, part := range t.shards {
		t.part += part
	}
	t.unbar(now)
}

// end stops it.
func (t *rate) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	if t.timer != nil {
		t.timer.Stop()
	}
	t.endBackoff()
}

// take reports whether an attempt may begin now.
func (t *rate) take() bool {
	if !t.bounds.Load() {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.bounded() {
		return true
	}
	if t.barred {
		return false
	}
	now := time.Now()
	if t.refill(now); t.tokens >= 1 {
		t.tokens--
		return true
	}
	t.barred = true
	for s := range t.shards {
		s.setPaused(t.why, true)
	}
	t.arm()
	return false
}

// refund takes an unused token back.
func (t *rate) refund() {
	if t == nil || !t.bounds.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tokens++ // an excess is lost at the next look
}

// local returns the rate of this process, which has one.
func (t *rate) local() float64 {
	backedOff := t.backoff.bound
	switch mine := t.perSecond * t.part; {
	case t.perSecond == 0:
		return backedOff
	case backedOff == 0:
		return mine
	default:
		return min(mine, backedOff)
	}
}

// refill adds the tokens since the last call; the caller holds mu.
func (t *rate) refill(now time.Time) {
	since := max(0, now.Sub(t.at))
	t.tokens = min(t.tokens+t.local()*since.Seconds(), max(1, t.local()*burstTime.Seconds()))
	t.at = now
}

// unbar lets all shards go on if there are tokens, or else looks again when there will be some; the
// caller holds mu.
func (t *rate) unbar(now time.Time) {
	if !t.barred || t.ended {
		return
	}
	if t.refill(now); t.bounded() && t.tokens < 1 {
		t.arm()
		return
	}
	t.favour()
	t.barred = false
	for s := range t.shards {
		s.setPaused(t.why, false)
	}
}

// favour delivers one parked record, of any shard, before all go on; with one token only, every second time.
// The main topic would always be quicker: it need not be read again. The record's permit has the token. The caller
// holds mu.
func (t *rate) favour() {
	if t.parked = !t.parked; !t.bounded() || !t.parked && t.tokens < 2 {
		return
	}
	var p permit
	if p.tokens[0] = t; t.why == crowded {
		p.tokens = [2]*rate{1: t}
	}
	for s := range t.shards {
		if s.tryPaid(p, t.why) {
			t.tokens--
			return
		}
	}
}

// arm schedules unbar for the next token; the caller holds mu.
func (t *rate) arm() {
	if t.ended {
		return
	}
	wait := noPartWait
	if local := t.local(); local > 0 {
		wait = min(wait, time.Duration((1-t.tokens)/local*float64(time.Second)))
	}
	if t.timer != nil {
		t.timer.Stop()
	}
	t.timer = time.AfterFunc(max(wait, refillEvery), func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.unbar(time.Now())
	})
}
