package page

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/vfs"
)

// Of three hundred sleepers, in three threads, each is woken by its own bell and by no other, also one that comes
// when the threads sleep already. Nothing looks by itself meanwhile.
func TestIdlersAreWokenByTheirOwnBells(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem(1)
	s := &Idlers{Look: time.Hour}
	pages := make([]*Page, 300)
	var awake [300]atomic.Bool
	var wg sync.WaitGroup
	never := func() bool { return false }
	for i := range pages {
		if i == len(pages)/2 { // the threads are about to sleep on those that they know of
			pages[0].Shout()
			for !awake[0].Load() {
				runtime.Gosched()
			}
		}
		p, err := Open(disk, fmt.Sprintf("control-%d", i), 1)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = p.Close() }()
		pages[i] = p
		old := p.Bell()
		wg.Go(func() {
			if !s.Wait(p, old, never) {
				p.Wait(old, time.Minute) // a kernel that can't
			}
			awake[i].Store(true)
		})
	}
	for i := range pages[1:] {
		i++
		if awake[i].Load() {
			t.Fatalf("sleeper %d is awake, and nobody woke it", i)
		}
		pages[i].Shout()
	}
	wg.Wait()
	s.Join()
	if len(s.rows) != 0 {
		t.Errorf("%d threads are left; want none without sleepers", len(s.rows))
	}
}

// A sleeper whose wake-up was lost, as who rang was killed, is found at the next look.
func TestIdlersLookForWhatTheyWereNotToldOf(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem(1)
	p, err := Open(disk, "control", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	s := &Idlers{Look: time.Millisecond}
	var due atomic.Bool
	time.AfterFunc(20*time.Millisecond, func() { due.Store(true) })
	s.Wait(p, p.Bell(), due.Load)
	old := p.Bell()
	time.AfterFunc(20*time.Millisecond, p.Chime)
	s.Wait(p, old, func() bool { return false })
	s.Join()
}

// A thread can sleep on so many words and no more: whoever comes then has another one.
func TestNoRowHasMoreThanAThreadCanSleepOn(t *testing.T) {
	t.Parallel()
	p, err := Open(vfs.NewMem(1), "control", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	s, full := &Idlers{Look: time.Hour}, &row{}
	s.rows = []*row{full} // without its thread
	never := func() bool { return false }
	for range mostInRow {
		s.enter(&sleeper{page: p, old: p.Bell(), due: never, done: make(chan struct{})})
	}
	last := &sleeper{page: p, old: p.Bell(), due: never, done: make(chan struct{})}
	s.enter(last)
	if words := s.look(full, nil, true); len(words) != mostWords {
		t.Errorf("a row sleeps on %d words; expected %d", len(words), mostWords)
	}
	p.Shout()
	<-last.done
	s.Join()
	if words := s.look(full, nil, true); len(words) != 0 || len(s.rows) != 0 {
		t.Errorf("%d words, %d rows; expected none when all were woken", len(words), len(s.rows))
	}
}

// Where the kernel does not let a thread sleep on many words, all are told at once, and nobody tries again.
func TestARowThatCanNotSleepLetsAllGo(t *testing.T) {
	t.Parallel()
	p, err := Open(vfs.NewMem(1), "control", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	s, r := &Idlers{Look: time.Hour}, &row{}
	s.rows = []*row{r}
	for range mostWords + 1 { // no kernel takes so many
		r.sleepers = append(r.sleepers, &sleeper{page: p, old: p.Bell(), due: func() bool { return false }, done: make(chan struct{})})
	}
	all := slices.Clone(r.sleepers)
	over := make(chan struct{})
	go func() { // joined below
		s.sleep(r)
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(20 * time.Second):
		p.Shout()
		<-over
		t.Fatal("it tries for ever")
	}
	for _, w := range all {
		<-w.done
	}
	if s.Wait(p, p.Bell(), func() bool { return true }) {
		t.Error("it is tried again")
	}
}
