package page

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A sleeper on a futex is a thread, and each wakes up now and then to find out that nothing has happened. Where
// hundreds of topics are open in which nothing does, those threads and wake-ups are all that a process does. So
// the sleepers on quiet topics share threads: one sleeps on the bells of up to 127 of them, and on one of its own
// that rings when another comes.

// Idlers sleep on the bells of quiet pages, in few threads. The zero value is ready.
type Idlers struct {
	// Look is how long a missed wake-up can last, at most.
	Look time.Duration

	mu     sync.Mutex
	rows   []*row
	unable atomic.Bool    // the kernel lets a thread sleep on one word only
	wg     sync.WaitGroup // the goroutines of the rows
}

// row is one thread, and the sleepers for which it sleeps.
type row struct {
	bell     atomic.Uint32 // changes when one comes
	sleepers []*sleeper    // guarded by Idlers.mu
}

type sleeper struct {
	page *Page
	old  uint32
	due  func() bool
	done chan struct{}
}

// mostInRow are the words that a thread can sleep on, without the row's own.
const mostInRow = mostWords - 1

// Wait sleeps until the bell of p is not old any more, or due, which is asked now and then and must not
// block, says so. False, and at once: this host can't do that. The caller is counted.
func (s *Idlers) Wait(p *Page, old uint32, due func() bool) bool {
	if s == nil || s.unable.Load() {
		return false
	}
	w := &sleeper{page: p, old: old, due: due, done: make(chan struct{})}
	s.enter(w)
	<-w.done
	return true
}

func (s *Idlers) enter(w *sleeper) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rows {
		if len(r.sleepers) < mostInRow {
			r.sleepers = append(r.sleepers, w)
			r.bell.Add(1)
			futexWakeOwn(&r.bell)
			return
		}
	}
	r := &row{sleepers: []*sleeper{w}}
	s.rows = append(s.rows, r)
	s.wg.Go(func() { s.sleep(r) }) // joined by Join
}

// Join waits for the threads, which end with their last sleeper.
func (s *Idlers) Join() { s.wg.Wait() }

func (s *Idlers) sleep(r *row) {
	words := make([]waitWord, 0, mostWords)
	for able := true; ; {
		if words = s.look(r, words[:0], able); len(words) == 0 {
			return
		}
		if able = futexWaitAny(words, s.Look); !able {
			s.unable.Store(true)
		}
		runtime.KeepAlive(r)
	}
}

// look lets the sleepers go that have waited long enough, all if the row can't sleep, and returns what the row has
// to sleep on. Nothing: no sleeper is left, and the row is over. Only look lets a sleeper go, so the pages of those
// that are returned stay mapped until the next look.
func (s *Idlers) look(r *row, words []waitWord, able bool) []waitWord {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := r.sleepers[:0]
	for _, w := range r.sleepers {
		if !able || w.page.Bell() != w.old || w.due() {
			close(w.done)
			continue
		}
		kept = append(kept, w)
		words = append(words, w.page.bellWord(w.old))
	}
	clear(r.sleepers[len(kept):])
	if r.sleepers = kept; len(kept) > 0 {
		return append(words, ownWord(&r.bell))
	}
	for i := range s.rows {
		if s.rows[i] == r {
			s.rows = append(s.rows[:i], s.rows[i+1:]...)
			break
		}
	}
	return nil
}
