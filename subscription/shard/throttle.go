package shard

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// A Throttle keeps the attempts of a subscription in a process within its part of the rate that all members
// have together. It is one for all shards in a process, as the Breaker is.
//
// Nobody asks a store: the part is that of the partitions whose shards are here, of all that the topic has.
// A partition is in one shard that delivers, also while the shard set turns, and a shard has one owner. So
// the parts come to one whole, whoever comes, goes or dies; a member that uses less than its part leaves
// the rest unused.
//
// It is a token bucket, filled at that rate, with room for what comes in burstTime, and empty at the start.
// An attempt that finds no token is none: all shards pause until there are some, so that nobody waits in a
// handler, where a drain, a pause and the time that a handler has would have to wait along.
//
// Where most attempts are refused it bounds them by what is accepted, too: see ease.
type Throttle struct {
	log    *slog.Logger
	why    pauses      // what it pauses shards for
	bounds atomic.Bool // there is a rate, or a bound of ease
	easing atomic.Bool // ease looks at answers

	mu     sync.Mutex // taken before the locks of shards
	rate   float64    // of all members, in attempts a second; 0: no bound
	part   float64    // of it that is this process's
	tokens float64
	at     time.Time // when tokens was right
	barred bool      // until there are tokens
	parked bool      // whose turn it is: that of what is parked
	timer  *time.Timer
	shards map[*Shard]float64 // and the part of each
	ease   ease
	ended  bool
}

const (
	burstTime   = 100 * time.Millisecond
	refillEvery = 50 * time.Millisecond // at most: pauses are not for free
	noPartWait  = time.Minute           // until there are tokens; a shard that comes ends it
)

var errNoToken = spared{error: errors.New("the subscription, or its endpoint, has used up its rate for now")}

// NewThrottle makes one that bounds nothing.
func NewThrottle(log *slog.Logger) *Throttle {
	return &Throttle{log: log, why: throttled, shards: map[*Shard]float64{}, at: time.Now()}
}

// SetRate is told how many attempts in a second all members may begin; 0: there is no bound.
func (t *Throttle) SetRate(perSecond int) { t.setRate(float64(perSecond)) }

func (t *Throttle) setRate(perSecond float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.refill(now)
	t.rate = perSecond
	t.heed(now)
}

// heed goes on with bounds that have changed; the caller holds mu, and has filled the bucket until now.
func (t *Throttle) heed(now time.Time) {
	t.bounds.Store(t.bounded())
	t.refill(now) // no more than there is room for now
	t.unbar(now)
}

// bounded says whether there is any bound; the caller holds mu.
func (t *Throttle) bounded() bool { return t.rate > 0 || t.ease.bound > 0 }

// Join has a shard follow, whose partitions are that part of all, until the returned function is called.
func (t *Throttle) Join(s *Shard, part float64) (leave func()) {
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
func (t *Throttle) share() {
	now := time.Now()
	t.refill(now)
	t.part = 0
	for _, part := range t.shards {
		t.part += part
	}
	t.unbar(now)
}

// End stops it.
func (t *Throttle) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	if t.timer != nil {
		t.timer.Stop()
	}
	t.atEase()
}

// take says whether an attempt may begin now.
func (t *Throttle) take() bool {
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

// refund takes a token back that was not used after all.
func (t *Throttle) refund() {
	if t == nil || !t.bounds.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tokens++ // what is more than there is room for is lost at the next look
}

// local is the rate of this process, which has one.
func (t *Throttle) local() float64 {
	eased := t.ease.bound
	switch mine := t.rate * t.part; {
	case t.rate == 0:
		return eased
	case eased == 0:
		return mine
	default:
		return min(mine, eased)
	}
}

// refill adds the tokens that came since it was called last; the caller holds mu.
func (t *Throttle) refill(now time.Time) {
	since := max(0, now.Sub(t.at))
	t.tokens = min(t.tokens+t.local()*since.Seconds(), max(1, t.local()*burstTime.Seconds()))
	t.at = now
}

// unbar has all shards go on if there are tokens, or else looks again when there will be some; the caller
// holds mu.
func (t *Throttle) unbar(now time.Time) {
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

// favour has one parked record delivered, of any shard, before all go on; where there is one token only,
// every second time. The main topic would be quicker each time: it need not be read again. The caller holds mu.
func (t *Throttle) favour() {
	if t.parked = !t.parked; !t.bounded() || !t.parked && t.tokens < 2 {
		return
	}
	for s := range t.shards {
		if s.tryPaid(t.why) {
			t.tokens--
			return
		}
	}
}

// arm has unbar called when there is a token; the caller holds mu.
func (t *Throttle) arm() {
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

// tryPaid has one parked record delivered that has its token, although the rate holds all back.
func (s *Shard) tryPaid(why pauses) bool {
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.paused != why || !s.tryParked() {
		return false
	}
	s.paidFor(why).Add(1)
	return true
}

// paidFor counts the tokens that parked records have of a throttle.
func (s *Shard) paidFor(why pauses) *atomic.Int64 {
	if why == crowded {
		return &s.paidThere
	}
	return &s.paid
}

// mayBegin says whether the rates of the subscription and of its endpoint allow an attempt.
func (s *Shard) mayBegin(parked bool) bool {
	own := s.cfg.Throttle
	if !s.allows(own, parked) {
		s.unspent(parked)
		return false
	}
	if there := s.cfg.Target.rates(); !s.allows(there, parked) {
		own.refund()
		return false
	}
	return true
}

func (s *Shard) allows(t *Throttle, parked bool) bool {
	return t == nil || parked && spend(s.paidFor(t.why)) || t.take()
}

// spend spends a token of tryPaid, if there is one.
func spend(paid *atomic.Int64) bool {
	for n := paid.Load(); n > 0; n = paid.Load() {
		if paid.CompareAndSwap(n, n-1) {
			return true
		}
	}
	return false
}

// unspent takes back what a parked record had of tokens that is not attempted after all: it may be tokens of another
// one, which then asks as any does. Kept, they would come on top of the rate one day.
func (s *Shard) unspent(parked bool) {
	if own := s.cfg.Throttle; parked && own != nil && spend(&s.paid) {
		own.refund()
	}
	if there := s.cfg.Target.rates(); parked && there != nil && spend(&s.paidThere) {
		there.refund()
	}
}
