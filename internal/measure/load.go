package measure

import (
	"context"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence/internal/script"
)

// Callers lets so many goroutines call again and again for a while; it gives the calls a second and their latencies.
func Callers(callers int, d time.Duration, to *Samples, call func(caller int)) (perSecond float64) {
	each := make([]Samples, callers)
	began := time.Now()
	script.Together(callers, func(i int) {
		for last := began; last.Sub(began) < d; {
			call(i)
			now := time.Now()
			each[i].Add(now.Sub(last))
			last = now
		}
	})
	took := time.Since(began)
	all := slices.Concat(each...)
	*to = append(*to, all...)
	return float64(len(all)) / took.Seconds()
}

// Window bounds how much is under way at once, and counts what came through. One goroutine enters.
type Window struct {
	mu    sync.Mutex
	freed sync.Cond
	free  int
	size  int
	acked int64
	err   error // the first
}

// NewWindow makes a window of so many places.
func NewWindow(size int) *Window {
	w := &Window{free: size, size: size}
	w.freed.L = &w.mu
	return w
}

// Enter waits for a free place and takes it; false after an error, and then there is none to take.
func (w *Window) Enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.free == 0 && w.err == nil {
		w.freed.Wait()
	}
	if w.err == nil {
		w.free--
	}
	return w.err == nil
}

// Leave gives a place back, with what became of it.
func (w *Window) Leave(err error) {
	w.mu.Lock()
	w.free++
	if err == nil {
		w.acked++
	} else if w.err == nil {
		w.err = err
	}
	w.mu.Unlock()
	w.freed.Signal()
}

// Wait waits until nothing is under way, and ends the script if something failed.
func (w *Window) Wait() (acked int64) {
	w.mu.Lock()
	for w.free < w.size {
		w.freed.Wait()
	}
	acked, err := w.acked, w.err
	w.mu.Unlock()
	script.Check(err)
	return acked
}

// Fill enters and sends while more says so, and waits for all of it. When the n-th is through or has
// failed, Leave is to be called, once.
func (w *Window) Fill(more func(n int) bool, send func(n int)) (acked int64) {
	for n := 0; more(n) && w.Enter(); n++ {
		send(n)
	}
	return w.Wait()
}

// For fills the window for a while and gives what came through a second.
func (w *Window) For(d time.Duration, send func(n int)) (perSecond float64) {
	began := time.Now()
	acked := w.Fill(func(n int) bool { return n%64 != 0 || time.Since(began) < d }, send)
	return float64(acked) / time.Since(began).Seconds()
}

// Pace fills the window at a steady rate, as the function of that name calls, and waits for all of it.
func (w *Window) Pace(ctx context.Context, every time.Duration, times int, send func(n int)) (acked int64) {
	Pace(ctx, every, times, func(n int) {
		if !w.Enter() {
			w.Wait() // with what went wrong
		}
		send(n)
	})
	return w.Wait()
}

// Pace calls at a steady rate, so many times or until ctx ends. What was late is made up for.
func Pace(ctx context.Context, every time.Duration, times int, call func(i int)) {
	next := time.Now()
	for i := 0; i < times && ctx.Err() == nil; i++ {
		next = next.Add(every)
		time.Sleep(time.Until(next))
		call(i)
	}
}

// Rest brings the disk of dir and the heap to rest, so that a turn does not pay for the one before.
func Rest(dir string) {
	runtime.GC()
	if d, err := os.Open(dir); err == nil {
		_ = unix.Syncfs(int(d.Fd())) // a disk in trouble shows in the turn itself
		_ = d.Close()
	}
}

// ProcessorTime is what this process has used so far.
func ProcessorTime() time.Duration {
	var u unix.Rusage
	script.Check(unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
