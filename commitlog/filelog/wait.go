package filelog

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// watchNap bounds how long a lost wake-up can last. Wake-ups are not lost while all processes
// live; one that is killed between publishing and waking loses one.
const watchNap = 500 * time.Millisecond

// quietNaps are so many in a row in which nothing happened that the watcher goes to the idlers.
const quietNaps = 4

// watcher sleeps on the bell for all waiters of this process. mu makes its count of sleepers
// (one or none) agree with its part in the page's count of waiters.
type watcher struct {
	s    *store
	kick chan struct{} // capacity 1: a caller waits

	mu       sync.Mutex
	sleeping uint32
}

func (w *watcher) run() {
	quiet := quietNaps // so many in a row, as nothing has happened yet
	for {
		select {
		case <-w.s.stop:
			return
		case <-w.kick:
		}
		for w.s.view.waiting.Load() > 0 && !w.stopped() {
			bell := w.s.page.Bell()
			w.s.view.news()
			before := w.s.page.Written()
			forsaken := func() bool { // its writer may have died before it could sync
				at := w.s.page.Written()
				return at == before && at != w.s.page.Synced() && w.s.syncing()
			}
			w.nap(bell, quiet >= quietNaps, forsaken)
			if forsaken() {
				w.s.nudgeIfDirty()
			}
			if quiet++; w.s.page.Bell() != bell {
				quiet = 0
			}
		}
	}
}

func (w *watcher) stopped() bool {
	select {
	case <-w.s.stop:
		return true
	default:
		return false
	}
}

// nap sleeps until the bell is not old any more, in a quiet topic without a thread of its own.
func (w *watcher) nap(old uint32, quiet bool, forsaken func() bool) {
	w.count(1)
	// interrupt closes stop, then rings: after the count, either is seen.
	if !w.stopped() {
		over := func() bool { return w.s.view.waiting.Load() == 0 || forsaken() }
		if !quiet || !w.s.c.idlers.Wait(w.s.page, old, over) {
			w.s.page.Wait(old, watchNap)
		}
	}
	w.count(^uint32(0))
}

func (w *watcher) count(d uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.s.page.Count(d)
	w.sleeping += d
}

// ring changes the bell and wakes the sleepers of other processes. Those of this one are told
// through the view.
func (w *watcher) ring() {
	w.mu.Lock()
	w.s.page.Chime()
	others := w.s.page.Sleepers() > w.sleeping
	w.mu.Unlock()
	if others {
		w.s.page.Wake()
	}
}

// interrupt ends the nap of this process's watcher; others wake up for nothing.
func (w *watcher) interrupt() { w.s.page.Shout() }

// start makes sure that the watcher watches.
func (w *watcher) start() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// wait blocks until partition has a readable record at or after offset or the topic is sealed, or
// the handle is gone.
func (s *store) wait(ctx context.Context, gone <-chan struct{}, partition int, offset int64) error {
	for {
		ch, err := s.view.register(partition, offset)
		if ch == nil {
			return err
		}
		s.watch.start()
		s.lookAgain()
		select {
		case <-ch:
		case <-ctx.Done():
			s.view.unregister(partition, ch)
			return ctx.Err()
		case <-gone:
			s.view.unregister(partition, ch)
			return fmt.Errorf("topic %q: the handle: %w", s.name, errClosed)
		case <-s.stop:
			s.view.unregister(partition, ch)
			return fmt.Errorf("topic %q: %w", s.name, errClosed)
		}
		if s.gone() {
			return notFound(s.name)
		}
		if err := s.away(); err != nil {
			return err
		}
	}
}

// lookAgain follows a registration: a record may have come before that was counted, and appends of this process
// do not wake the watcher, which may sleep for another waiter.
func (s *store) lookAgain() {
	if s.visible() > s.view.at.Load() {
		s.view.news()
	}
}

// register adds a waiter; nil when there is nothing to wait for.
func (v *view) register(partition int, offset int64) (chan struct{}, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.advance(); err != nil {
		return nil, err
	}
	if p := &v.parts[partition]; v.sealed || p.next > offset || p.doubt { // a read finds out
		return nil, nil
	}
	ch := make(chan struct{})
	v.waiters[partition] = append(v.waiters[partition], ch)
	v.waiting.Add(1)
	return ch, nil
}

func (v *view) unregister(partition int, ch chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if i := slices.Index(v.waiters[partition], ch); i >= 0 {
		v.waiters[partition] = slices.Delete(v.waiters[partition], i, i+1)
		v.waiting.Add(-1)
	}
}
