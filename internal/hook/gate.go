// Package hook is how tests and benchmarks reach into a store. What they hang in travels in the
// context that the store is opened or called with. So no option, field or method of a store is
// there for them alone, and a program, which hangs nothing in, runs the same code: without a hook
// everything here does nothing.
package hook

import (
	"context"
	"sync"
)

// Gate stands where a process does something by itself: where it renews its sessions and looks after
// those of others. A test shuts it to play a process that is stopped. The zero Gate is open, and so
// is a nil one. Its methods may be called concurrently.
type Gate struct {
	mu   sync.Mutex
	shut chan struct{} // closed when it opens; nil: it is open
}

type gateKey struct{}

// With is the context to open a store with whose work stops at the gate.
func (g *Gate) With(ctx context.Context) context.Context {
	return context.WithValue(ctx, gateKey{}, g)
}

// GateOf is the gate of a store that is opened with ctx; nil: none.
func GateOf(ctx context.Context) *Gate {
	g, _ := ctx.Value(gateKey{}).(*Gate)
	return g
}

// Shut stops callers of Pass from now on.
func (g *Gate) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil {
		g.shut = make(chan struct{})
	}
}

// Open lets them go on.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

// Pass waits until the gate is open. Should ctx end before, it returns the reason.
func (g *Gate) Pass(ctx context.Context) error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut == nil {
		return nil
	}
	select {
	case <-shut:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
