package presence

import (
	"context"
	"slices"
)

// Watchers watch processes, each in a goroutine of its own. One goroutine calls the methods.
type Watchers[P comparable] struct {
	// Watch waits for the death of a process and sees to its sessions. It returns when that is
	// done, or nothing can be done, or ctx ends.
	Watch func(ctx context.Context, process P)

	all map[P]watcher
}

type watcher struct {
	stop context.CancelFunc
	over chan struct{} // closed when it has returned
}

// Set watches these processes and no others. Running watchers of them go on; ones that returned start anew.
func (w *Watchers[P]) Set(ctx context.Context, processes []P) {
	for p, x := range w.all {
		select {
		case <-x.over:
			delete(w.all, p)
			continue
		default:
		}
		if !slices.Contains(processes, p) {
			x.stop()
			<-x.over
			delete(w.all, p)
		}
	}
	for _, p := range processes {
		if _, ok := w.all[p]; ok {
			continue
		}
		if w.all == nil {
			w.all = make(map[P]watcher)
		}
		ctx, cancel := context.WithCancel(ctx)
		x := watcher{stop: cancel, over: make(chan struct{})}
		w.all[p] = x
		go func() { // joined by Set
			defer close(x.over)
			defer cancel()
			w.Watch(ctx, p)
		}()
	}
}

// Stop ends all of them.
func (w *Watchers[P]) Stop() {
	for _, x := range w.all {
		x.stop()
	}
	w.Set(context.Background(), nil)
}
