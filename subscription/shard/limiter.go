package shard

import (
	"log/slog"
	"sync"
	"time"

	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group/protocol"
)

// A Limiter judges every attempt, those at parked records too, before it begins: by a rate, by a concurrency, and by
// a circuit. A process has one for each subscription (NewLimiter), and one for each endpoint, over all subscriptions
// that go there (NewEndpoint). What it holds back is no attempt. Its parts are files: circuit.go, rate.go with
// backoff.go, slots.go; in permit.go alone an attempt asks for all of them and gives them back.
//
// It asks no store: the part of a limit that a process has follows from what it owns. Of a rate that is the share of
// the partitions whose shards are here; of the concurrency of a subscription, a whole number for each shard
// (Shard.SetConcurrency); of an endpoint's limits, an equal part for each subscription, and of that the share of its
// partitions. A partition is in one shard that delivers, also during a reshard, and a shard has one owner, so the
// parts add up to one whole, whatever comes, goes or dies. What one process does not use, no other gets; within a
// process, subscriptions use what others leave of an endpoint's limits.
type Limiter struct {
	circuit *circuit           // nil: of an endpoint, as each path of a server fails alone
	rate    *rate              // nil: of an endpoint without one
	slots   slots              // of an endpoint
	refused *protocol.HeldBack // why the process delivers nothing to the endpoint; nil: it does

	// Of an endpoint; mu guards them.
	mu    sync.Mutex
	all   float64 // attempts in a second, of all processes; 0: no bound
	most  float64 // attempts under way; 0: no bound
	among float64 // subscriptions
	parts map[*Shard]float64
}

// NewLimiter makes a subscription's limiter, without a rate.
func NewLimiter(log *slog.Logger) *Limiter {
	return &Limiter{circuit: newCircuit(log), rate: newRate(log)}
}

// Tells sets what learns, before any shard joins, when deliveries are held back and when they go on. It must not block.
func (l *Limiter) Tells(told func(dispatch.Failure)) { l.circuit.told = told }

// NewEndpoint makes an endpoint's limiter; 0: no bound.
func NewEndpoint(perSecond, concurrency int) *Limiter {
	l := &Limiter{all: float64(perSecond), most: float64(concurrency), among: 1, parts: map[*Shard]float64{}}
	if perSecond > 0 {
		l.rate = newRate(slog.New(slog.DiscardHandler))
		l.rate.why = crowded
	}
	l.share()
	return l
}

// Refuse makes the limiter of an endpoint to which the process can't deliver. It only tells why: the handler refuses each
// record.
func Refuse(why error) *Limiter {
	return &Limiter{refused: &protocol.HeldBack{Since: time.Now().UnixMilli(), Why: shortly(why)}}
}

// SetRate sets how many attempts a second all members of a subscription may begin; 0: no bound.
func (l *Limiter) SetRate(perSecond int) { l.rate.set(float64(perSecond)) }

// SetSubscriptions sets how many subscriptions go to an endpoint.
func (l *Limiter) SetSubscriptions(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.among = float64(max(1, n))
	l.share()
}

// Join adds a shard until leave is called; part is its partitions' share of all those of its subscription.
func (l *Limiter) Join(s *Shard, part float64) (leave func()) {
	if l == nil {
		return func() {}
	}
	leaves := make([]func(), 0, 3)
	if l.circuit != nil {
		leaves = append(leaves, l.circuit.join(s))
	}
	if l.rate != nil {
		leaves = append(leaves, l.rate.join(s, part))
	}
	if l.parts != nil {
		l.has(s, part)
		leaves = append(leaves, func() { l.has(s, 0) })
	}
	return func() {
		for _, leave := range leaves {
			leave()
		}
	}
}

// has notes the part of a shard; 0: it is gone.
func (l *Limiter) has(s *Shard, part float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.parts[s] = part; part == 0 {
		delete(l.parts, s)
	}
	l.share()
}

// share divides the limits of an endpoint; the caller holds mu, or l is not shared yet.
func (l *Limiter) share() {
	if l.rate != nil {
		l.rate.set(l.all / l.among)
	}
	if l.most == 0 {
		return
	}
	part := 0.0
	for _, p := range l.parts {
		part += p
	}
	l.slots.bound(max(1, int(l.most*part/l.among+1e-9))) // the sum of thirds may be a little less than one
}

// End stops it: nothing more is tried.
func (l *Limiter) End() {
	if l.circuit != nil {
		l.circuit.end()
	}
	if l.rate != nil {
		l.rate.end()
	}
}

// ofCircuit, ofRate and ofSlots are nil where there is none.
func (l *Limiter) ofCircuit() *circuit {
	if l == nil {
		return nil
	}
	return l.circuit
}

func (l *Limiter) ofRate() *rate {
	if l == nil {
		return nil
	}
	return l.rate
}

func (l *Limiter) ofSlots() *slots {
	if l == nil {
		return nil
	}
	return &l.slots
}

// here returns this process's part of an endpoint's limits; nil: there are none.
func (l *Limiter) here() *protocol.EndpointPart {
	if l == nil || l.refused != nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := protocol.EndpointPart{Rate: l.all, Concurrency: int(l.most), ConcurrencyHere: int(l.slots.most.Load())}
	for _, part := range l.parts {
		p.RateHere += l.all * part / l.among
	}
	p.RateHere = round(p.RateHere)
	return &p
}
