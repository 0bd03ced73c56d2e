package shard

import (
	"context"
	"log/slog"
	"sync"
)

// A Target bounds what all subscriptions of all processes that go to one endpoint begin in a second and have under
// way together. It is one for an endpoint in a process, and the same numbers hold in all.
//
// Nobody asks a store: each subscription among them stands for an equal part, and of that a process has what the
// partitions have whose shards are here, as of the rate of a subscription (Throttle). The parts come to one whole,
// as soon as all have heard of the same subscriptions. Within a process they are one: what one subscription leaves
// the others use.
type Target struct {
	throttle *Throttle
	slots    slots

	mu    sync.Mutex
	rate  float64
	most  float64 // attempts under way; 0: no bound
	among float64 // subscriptions
	parts map[*Shard]float64
}

// NewTarget is an endpoint with those limits; 0: there is no bound.
func NewTarget(rate, concurrency int) *Target {
	t := &Target{throttle: NewThrottle(slog.New(slog.DiscardHandler)), rate: float64(rate), most: float64(concurrency), among: 1, parts: map[*Shard]float64{}}
	t.throttle.why = crowded
	t.share()
	return t
}

// SetSubscriptions is told how many subscriptions go there.
func (t *Target) SetSubscriptions(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.among = float64(max(1, n))
	t.share()
}

// Join has a shard follow, whose partitions are that part of those of its subscription, until the returned function
// is called.
func (t *Target) Join(s *Shard, part float64) (leave func()) {
	if t == nil {
		return func() {}
	}
	unthrottle := t.throttle.Join(s, part)
	t.has(s, part)
	return func() {
		unthrottle()
		t.has(s, 0)
	}
}

// has notes the part of a shard; 0: it is gone.
func (t *Target) has(s *Shard, part float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.parts[s] = part; part == 0 {
		delete(t.parts, s)
	}
	t.share()
}

// share divides what there is; the caller holds mu, or nobody else has t.
func (t *Target) share() {
	if t.rate > 0 {
		t.throttle.setRate(t.rate / t.among)
	}
	if t.most == 0 {
		return
	}
	part := 0.0
	for _, p := range t.parts {
		part += p
	}
	t.slots.bound(max(1, int(t.most*part/t.among+1e-9))) // the sum of thirds may be a little less than one
}

// End stops it.
func (t *Target) End() { t.throttle.End() }

// rates is its throttle; nil: it has none.
func (t *Target) rates() *Throttle {
	if t == nil || t.rate == 0 {
		return nil
	}
	return t.throttle
}

// take takes a slot, as slots.take.
func (t *Target) take(ctx context.Context) (taken *slots, waited bool, _ error) {
	if t == nil {
		return nil, false, nil
	}
	return t.slots.take(ctx)
}

// taken says whether who comes now would have to wait for a slot.
func (t *Target) taken() bool { return t != nil && t.slots.taken() }
