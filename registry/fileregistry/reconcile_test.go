package fileregistry

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
	"github.com/ringfence/ringfence/internal/vfs"
	"github.com/ringfence/ringfence/registry"
)

const shortTTL = 200 * time.Millisecond

// sessionsOf is how many sessions the journal has, read anew.
func sessionsOf(t *testing.T, s *store) int {
	t.Helper()
	if _, err := s.List(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	return len(*s.core.sessions.Load())
}

// pair plays two processes on a clock of the test's own.
func pair(t *testing.T, play func(t *testing.T, a, b *store)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem(1)
		play(t, mustStore(t, mem.Process()), mustStore(t, mem.Process()))
	})
}

func opened(t *testing.T, s *store, ttl time.Duration) *session {
	t.Helper()
	x, err := s.OpenSession(t.Context(), ttl)
	if err != nil {
		t.Fatal(err)
	}
	return x.(*session)
}

// Whoever announced an end died before it wrote it: all others see that it is still to be written.
func TestAnAnnouncedEndIsWrittenByWhoeverSeesIt(t *testing.T) {
	pair(t, func(t *testing.T, a, b *store) {
		x := opened(t, a, time.Minute)
		sessionsOf(t, b)
		a.gate.Shut() // stopped, with all that it would do about it
		declareDead(a.ctl.slot(x.info.slot), x.info.tag)
		time.Sleep(time.Minute / beatsPerTTL * 3) // of the test's clock
		if n := sessionsOf(t, b); n != 0 {
			t.Errorf("%d sessions are in the journal, whose end was announced", n)
		}
	})
}

// The same of a session of one's own, and nobody else is there.
func TestAnAnnouncedEndOfOnesOwnIsWritten(t *testing.T) {
	inBubble(t, func(t *testing.T, s *store, _ *registry.Registry) {
		x := opened(t, s, shortTTL)
		release := hold(t, s, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := x.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		release()
		time.Sleep(shortTTL)
		if n := sessionsOf(t, s); n != 0 {
			t.Errorf("%d sessions are in the journal after Close", n)
		}
	})
}

// The slot of a session was given away in a frame that was never written.
func TestASessionWhoseWordIsAnothersIsOver(t *testing.T) {
	pair(t, func(t *testing.T, a, b *store) {
		x := opened(t, a, shortTTL)
		a.gate.Shut()
		beats := uint64(0)
		for range 20 { // the slot's new owner is well
			a.ctl.slot(x.info.slot).Store(newTag()<<tagShift | beats)
			beats += beat
			time.Sleep(shortTTL / beatsPerTTL)
		}
		if n := sessionsOf(t, b); n != 0 {
			t.Errorf("%d sessions are in the journal without a word", n)
		}
	})
}

// Its end was written by somebody who could not announce it.
func TestASessionThatEndedInTheJournalIsOverForItsHolder(t *testing.T) {
	pair(t, func(t *testing.T, a, b *store) {
		x := opened(t, a, shortTTL)
		if _, _, err := b.call(t.Context(), endOf([]string{x.ID()})); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		<-x.Done()
		if took := time.Since(start); took > shortTTL {
			t.Errorf("its holder noticed after %s", took)
		}
	})
}

// What is opened for a caller that is gone is ended by whoever opened it, whenever it gave up.
func TestAnOpeningThatWasGivenUpLeavesNoSession(t *testing.T) {
	inBubble(t, func(t *testing.T, s *store, _ *registry.Registry) {
		slow := make(chan struct{})
		s.syncer.wake = func() { <-slow } // written, and not answered
		ctx, cancel := context.WithTimeout(t.Context(), shortTTL/2)
		defer cancel()
		if _, err := s.OpenSession(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		release := hold(t, s, 1)
		ctx, cancel = context.WithTimeout(t.Context(), shortTTL/2)
		defer cancel()
		if _, err := s.OpenSession(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		release()
		close(slow)
		time.Sleep(time.Second)
		if n := sessionsOf(t, s); n != 0 {
			t.Errorf("%d sessions that nobody has are alive", n)
		}
	})
}

// A registry that is closed while a session is opened leaves none either.
func TestClosingEndsWhatWasBeingOpened(t *testing.T) {
	pair(t, func(t *testing.T, a, b *store) {
		slow := make(chan struct{})
		a.syncer.wake = func() { <-slow }
		fate := make(chan error, 1)
		go func() {
			_, err := a.OpenSession(t.Context(), time.Hour)
			fate <- err
		}()
		synctest.Wait()
		time.AfterFunc(time.Second, func() { close(slow) })
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if err := <-fate; !errors.Is(err, fault.Closed) {
			t.Errorf("the opening ended with %v", err)
		}
		if n := sessionsOf(t, b); n != 0 {
			t.Errorf("%d sessions of a closed registry are alive", n)
		}
	})
}

// An end that can't be written is tried again, by one request at a time.
func TestEndsThatFailAreTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem(1)
		var sick atomic.Bool
		var tries atomic.Int64
		b := mustStore(t, vfs.Inject(mem.Process(), func(op *vfs.Op) error {
			if sick.Load() && op.Kind == vfs.OpWrite {
				tries.Add(1)
				return syscall.EIO
			}
			return nil
		}))
		a := mustStore(t, mem.Process())
		opened(t, a, shortTTL)
		sessionsOf(t, b)
		a.gate.Shut()
		sick.Store(true)
		time.Sleep(10 * shortTTL)
		if n := tries.Load(); n == 0 || n > 10*beatsPerTTL {
			t.Errorf("it was tried %d times within ten TTLs", n)
		}
		sick.Store(false)
		time.Sleep(shortTTL)
		if n := sessionsOf(t, b); n != 0 {
			t.Errorf("%d sessions of a stopped process are alive", n)
		}
	})
}

func TestAFullTableNamesTheWayOut(t *testing.T) {
	inBubble(t, func(t *testing.T, s *store, _ *registry.Registry) {
		var wg sync.WaitGroup
		for range slotCount {
			wg.Go(func() {
				if _, err := s.OpenSession(t.Context(), time.Hour); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		_, err := s.OpenSession(t.Context(), time.Hour)
		if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "4096 sessions") || !strings.Contains(err.Error(), "another registry") {
			t.Errorf("one session too many: %v", err)
		}
	})
}

// A writer dies after its write and before it could wake anybody.
func TestAWriteWithoutAWakeUpIsSeenAllTheSame(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() *store {
		s, err := open(t.Context(), Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	a, b := open(), open()
	ctx, cancel := context.WithTimeout(t.Context(), 10*slowLook)
	defer cancel()
	ch, err := b.Watch(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	a.syncer.wake = func() {}
	if _, err := registry.New(a).Txn(t.Context(), aPut); err != nil {
		t.Fatal(err)
	}
	if _, signalled := <-ch; !signalled {
		t.Errorf("no signal within %s", 10*slowLook)
	}
}

// The journal is rotated, and written on, by another process than the one that watches, before
// that one has looked: the change it waits for is in the snapshot then, and in no frame.
func TestAWatchIsToldWhatAnotherProcessRotatedAway(t *testing.T) {
	pair(t, func(t *testing.T, a, b *store) {
		writer, big := registry.New(b), make([]byte, 300)
		for round := range 6 {
			if _, err := a.List(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
			ch, err := a.Watch(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if _, err := writer.Txn(t.Context(), aPut); err != nil {
				t.Fatal(err)
			}
			for gen := b.ctl.gen.Load(); b.ctl.gen.Load() == gen; {
				if _, err := writer.Txn(t.Context(), registry.Txn{Puts: []registry.Put{{Key: "other", Value: big}}, Quiet: true}); err != nil {
					t.Fatal(err)
				}
			}
			select {
			case <-ch:
			case <-time.After(time.Minute):
				t.Fatalf("round %d, generation %d: no signal", round, b.ctl.gen.Load())
			}
		}
	})
}
