package remote

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/group/protocol"
	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/remote/core"
	"github.com/ringfence/ringfence/subscription"
)

// workers is what the worker sessions of a subscription share: this process is a member of it as long as there are
// some, and a little longer.
type workers struct {
	name     string
	attempts atomic.Int64 // after so many a record is given up
	running  bool         // guarded by pool.mu
	leave    func()       // ends the membership; guarded by pool.mu
}

const (
	idleFor    = 5 * time.Second  // how long the process stays a member without a worker
	policyEach = 10 * time.Second // how often the definition is read
)

// checkSubscription finds faults of a worker session that are known before it takes part.
func (h *Hub) checkSubscription(ctx context.Context, name string) (*subscription.Document, error) {
	d, err := h.subs.Get(ctx, name)
	if err == nil && d.Order == subscription.ByFunction {
		err = fmt.Errorf("subscription %q is ordered by a function of the key, which only a handler in Go can have; expected one with another order: %w", name, fault.Invalid)
	}
	return d, err
}

// workersOf returns the pool of a subscription; the caller holds mu.
func (h *Hub) workersOf(d *subscription.Document) *pool {
	p := h.workers[d.Name]
	if p == nil {
		p = h.newPool(true)
		p.workers = &workers{name: d.Name}
		h.workers[d.Name] = p
	}
	p.workers.attempts.Store(int64(d.Retry.MaxAttempts))
	return p
}

// deliver makes this process a member of the subscription, unless it is one.
func (p *pool) deliver() {
	p.mu.Lock()
	was := p.workers.running
	p.workers.running = true
	p.mu.Unlock()
	if was {
		return
	}
	ctx, cancel := context.WithCancel(p.hub.ctx)
	p.mu.Lock()
	p.workers.leave = cancel
	p.mu.Unlock()
	began := p.hub.begin(func() {
		defer cancel()
		p.hub.work.Go(func() { p.idle(ctx, cancel) })
		err := p.hub.subs.Deliver(ctx, p.workers.name, p.handlers, subscription.Options{Concurrency: atOnce, DrainTimeout: defaultDrain})
		p.hub.forget(p, true)
		if err != nil {
			p.hub.logger.Warn("the workers of a subscription get no more records", "subscription", p.workers.name, "error", err)
		}
		why := because(err)
		p.do(func(now time.Duration) {
			for _, s := range append([]*core.Session(nil), p.core.Sessions()...) {
				s.End(now, why)
			}
		})
	})
	if !began {
		cancel()
	}
}

// depart ends the membership: what is out may still be answered.
func (p *pool) depart() {
	p.mu.Lock()
	leave := p.workers.leave
	p.mu.Unlock()
	if leave != nil {
		leave()
	}
}

// idle ends the membership when there was no worker for a while, and follows the definition.
func (p *pool) idle(ctx context.Context, leave func()) {
	look := time.NewTicker(time.Second)
	defer look.Stop()
	busy, read := p.hub.now(), p.hub.now()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		p.mu.Lock()
		if len(p.core.Sessions()) > 0 {
			busy = p.hub.now()
		}
		p.mu.Unlock()
		if p.hub.now()-busy > idleFor && p.hub.forget(p, false) {
			leave()
			return
		}
		if p.hub.now()-read > policyEach {
			read = p.hub.now()
			if d, err := p.hub.subs.Get(ctx, p.workers.name); err == nil {
				p.workers.attempts.Store(int64(d.Retry.MaxAttempts))
			}
		}
	}
}

// forget makes the next worker of the subscription begin anew: always, or only when there is none. It reports whether
// it did.
func (h *Hub) forget(p *pool, always bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !always && len(p.core.Sessions()) > 0 {
		return false
	}
	if h.workers[p.workers.name] == p {
		delete(h.workers, p.workers.name)
	}
	delete(h.pools, p)
	return true
}

// handlers makes the handler of a shard. Its engine and its journal call it, each with a context of its own, and records
// of the one may be out when the other has ended: so each is a unit for the core.
func (p *pool) handlers(topic string, _ *protocol.Group, u *group.Unit) dispatch.Handler {
	var mu sync.Mutex
	units := map[context.Context]*core.Unit{}
	return func(ctx context.Context, r *dispatch.Record) error {
		mu.Lock()
		c := units[ctx]
		if c == nil {
			c = &core.Unit{Epoch: u.Epoch()}
			units[ctx] = c
			p.hub.work.Go(func() { // until ctx ends, as it does when the shard is lost or over
				select {
				case <-u.Draining():
					p.do(func(now time.Duration) { p.core.Revoke(now, 0, c, "") })
					<-ctx.Done()
				case <-ctx.Done():
				}
				p.do(func(now time.Duration) { p.core.Lose(now, c, "the shard has another owner") })
				mu.Lock()
				delete(units, ctx)
				mu.Unlock()
			})
		}
		mu.Unlock()
		return p.offer(topic, c, r, int64(r.Attempt) >= p.workers.attempts.Load())
	}
}
