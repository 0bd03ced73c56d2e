package kv

import (
	"context"
	"strings"
	"sync"
)

// Watchers are the open watches of one store or process. Its methods may be called concurrently.
type Watchers struct {
	mu     sync.Mutex
	all    map[*watcher]struct{}
	closed bool
}

type watcher struct {
	prefix string
	ch     chan struct{}
	stop   func() bool // undoes the context's hook
}

// Add opens a watch, which ends with ctx; ok is false after Close.
func (w *Watchers) Add(ctx context.Context, prefix string) (ch <-chan struct{}, ok bool) {
	x := &watcher{prefix: prefix, ch: make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, false
	}
	if w.all == nil {
		w.all = make(map[*watcher]struct{})
	}
	w.all[x] = struct{}{}
	x.stop = context.AfterFunc(ctx, func() { w.remove(x) })
	return x.ch, true
}

func (w *Watchers) remove(x *watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.all[x]; ok {
		delete(w.all, x)
		close(x.ch)
	}
}

// Changed signals the watches of the keys.
func (w *Watchers) Changed(keys ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for x := range w.all {
		for _, k := range keys {
			if strings.HasPrefix(k, x.prefix) {
				x.signal()
				break
			}
		}
	}
}

// All signals every watch, as a change may have been missed.
func (w *Watchers) All() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for x := range w.all {
		x.signal()
	}
}

func (x *watcher) signal() {
	select {
	case x.ch <- struct{}{}:
	default: // one is pending, and its receiver lists after this change
	}
}

// Len is the number of open watches.
func (w *Watchers) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.all)
}

// Close ends all watches.
func (w *Watchers) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for x := range w.all {
		x.stop()
		delete(w.all, x)
		close(x.ch)
	}
}
