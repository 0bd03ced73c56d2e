package lease

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
)

// Own are the sessions of a process on one store, by their IDs, each until it is over. It begins empty, and its
// methods may be called concurrently.
type Own struct {
	mu     sync.Mutex
	all    map[string]*Session
	closed bool
}

// Start starts a session, with Closed of its own. nil: they were ended, and the store ends this one with its TTL.
func (o *Own) Start(cfg Config) *Session {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	if o.all == nil {
		o.all = make(map[string]*Session)
	}
	cfg.Closed = func(*Session) {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.all, cfg.ID)
	}
	x := Start(cfg)
	o.all[cfg.ID] = x
	return x
}

// IDs are those of the sessions that go on.
func (o *Own) IDs() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Keys(o.all))
}

// Lost ends sessions here that have ended in the store.
func (o *Own) Lost(ids ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range ids {
		if x := o.all[id]; x != nil {
			x.Lost()
		}
	}
}

// End closes all sessions at once, so that a store that does not answer costs the time of one, and starts no more.
func (o *Own) End(ctx context.Context) error {
	return o.each(func(x *Session) error { return x.Close(ctx) })
}

// Abandon is End without a word to the store, as the death of the process would be.
func (o *Own) Abandon() {
	_ = o.each(func(x *Session) error { x.Abandon(); return nil })
}

func (o *Own) each(end func(*Session) error) error {
	o.mu.Lock()
	o.closed = true
	own := slices.Collect(maps.Values(o.all))
	o.mu.Unlock()
	errs := make([]error, len(own))
	var wg sync.WaitGroup
	for i, x := range own {
		wg.Go(func() { errs[i] = end(x) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
