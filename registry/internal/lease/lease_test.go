package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/internal/fault"
)

const ttl = 3 * time.Second

// store counts what it is asked and answers with fail.
type store struct {
	renewed, ended atomic.Int64
	fail           atomic.Pointer[error]
}

// opened is what a store says at once.
func opened(link *Link) Asked {
	a, _ := Ask(link, func() error { return nil })
	return a
}

func (s *store) start() *Session {
	return Start(Config{
		ID: "x", TTL: ttl, Opened: opened(nil), Logger: slog.New(slog.DiscardHandler),
		Renew: func(ctx context.Context) error {
			if p := s.fail.Load(); p != nil {
				return *p
			}
			s.renewed.Add(1)
			return ctx.Err()
		},
		End: func(context.Context) error { s.ended.Add(1); return nil },
	})
}

func over(s *Session) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

func TestASessionIsRenewedUntilItIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var st store
		s := st.start()
		time.Sleep(10*ttl + time.Millisecond)
		if over(s) || st.renewed.Load() < 10*renewals-1 {
			t.Fatalf("over %v after %d renewals", over(s), st.renewed.Load())
		}
		if left := time.Until(s.Deadline()); left < ttl/2 || left > ttl {
			t.Fatalf("%s are left of a TTL of %s", left, ttl)
		}
		for range 2 {
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if !over(s) || st.ended.Load() != 1 {
			t.Fatalf("closed: over %v, ended %d times in the store", over(s), st.ended.Load())
		}
	})
}

func TestASessionThatCantBeRenewedIsOverAtItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var st store
		s := st.start()
		time.Sleep(ttl)
		synctest.Wait()
		down := fmt.Errorf("down: %w", fault.Unavailable)
		st.fail.Store(&down)
		deadline := s.Deadline()
		<-s.Done()
		if late := time.Since(deadline); late < 0 || late > ttl/10 {
			t.Fatalf("it was over %s after its deadline", late)
		}
		s.Abandon()
		if st.ended.Load() != 0 {
			t.Fatal("an abandoned session was ended in the store")
		}
	})
}

// A store may have counted for as long as its answer took.
func TestATTLIsCountedFromWhenItWasAskedForHoweverLongTheAnswerTakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const slow = ttl / 4
		var asked atomic.Int64
		asked.Store(time.Now().UnixNano())
		want := func() time.Time { return time.Unix(0, asked.Load()).Add(ttl) }
		opened, err := Ask(nil, func() error { time.Sleep(slow); return nil })
		if err != nil {
			t.Fatal(err)
		}
		s := Start(Config{
			ID: "x", TTL: ttl, Opened: opened, Logger: slog.New(slog.DiscardHandler),
			Renew: func(context.Context) error {
				asked.Store(time.Now().UnixNano())
				time.Sleep(slow)
				return nil
			},
			End: func(context.Context) error { return nil },
		})
		if end := s.Deadline(); !end.Equal(want()) {
			t.Fatalf("a session ends at %s; expected its TTL after it was asked for, %s", end, want())
		}
		for range 3 {
			time.Sleep(ttl / renewals)
			synctest.Wait()
			if end := s.Deadline(); !end.Equal(want()) {
				t.Fatalf("a session ends at %s; expected its TTL after its renewal was asked for, %s", end, want())
			}
		}
		s.Abandon()
	})
}

// A connection may swallow a request, and nobody learns of it but by waiting. That costs one try and
// not the session.
func TestASwallowedRequestLeavesTimeForAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		s := Start(Config{
			ID: "x", TTL: ttl, Opened: opened(nil), Logger: slog.New(slog.DiscardHandler),
			Renew: func(ctx context.Context) error {
				if tries++; tries%2 == 1 {
					<-ctx.Done()
				}
				return ctx.Err()
			},
			End: func(context.Context) error { return nil },
		})
		time.Sleep(4 * ttl)
		synctest.Wait()
		if over(s) {
			t.Errorf("it is over after %d tries, of which every other one was swallowed", tries)
		}
		s.Abandon()
	})
}

// A request that is swallowed to the end does not hold up the end: from the deadline on, others may
// take what the session has.
func TestNoTryOutlastsTheDeadline(t *testing.T) {
	t.Parallel()
	for name, swallowed := range map[string]bool{"swallowed": true, "refused": false} {
		synctest.Test(t, func(t *testing.T) {
			told := 0
			s := Start(Config{
				ID: "x", TTL: ttl, Opened: opened(nil), Logger: slog.New(slog.DiscardHandler),
				Renew: func(ctx context.Context) error {
					if swallowed {
						<-ctx.Done()
					}
					return fault.Unavailable
				},
				End:    func(context.Context) error { return nil },
				Closed: func(*Session) { told++ },
			})
			<-s.Done()
			if late := time.Since(s.Deadline()); late != 0 {
				t.Errorf("every request is %s: it was over %s after its deadline", name, late)
			}
			s.Abandon()
			if told != 1 {
				t.Errorf("its owner was told %d times that it is over", told)
			}
		})
	}
}

// A link that is restored while a renewal is on its way over the last one makes that renewal say nothing.
func TestALineThatIsLaidDuringARenewalIsRenewedOverAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		link, renewals := NewLink(), 0
		s := Start(Config{
			ID: "x", TTL: ttl, Opened: opened(link), Link: link, Logger: slog.New(slog.DiscardHandler),
			Renew: func(context.Context) error {
				if renewals++; renewals == 1 {
					link.Lost()
					link.Restored(link.Age())
				}
				return nil
			},
			End: func(context.Context) error { return nil },
		})
		time.Sleep(ttl/2 - 1) // one renewal is due
		synctest.Wait()
		if renewals != 2 || s.Doubtful() {
			t.Errorf("%d renewals, doubtful %t; expected a second one at once", renewals, s.Doubtful())
		}
		s.Abandon()
	})
}

// suspend makes it look as if the host had been suspended since the last renewal.
func suspend(s *Session, d time.Duration) {
	a := *s.renewed.Load()
	a.at.slept -= d
	s.renewed.Store(&a)
}

func TestASuspensionOfTheHostCountsAsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var st store
		s := st.start()
		defer s.Abandon()
		suspend(s, ttl/2)
		if left := time.Until(s.Deadline()); left > ttl/2+grain || left < ttl/2-grain {
			t.Fatalf("after a suspension of half a TTL %s are left of %s", left, ttl)
		}
		time.Sleep(ttl/renewals + 1)
		synctest.Wait()
		if left := time.Until(s.Deadline()); over(s) || left < ttl-grain {
			t.Fatalf("after a renewal: over %t, %s are left of %s", over(s), left, ttl)
		}
		suspend(s, ttl+grain)
		if left := time.Until(s.Deadline()); left > 0 {
			t.Fatalf("after a suspension of a TTL %s are left", left)
		}
		<-s.Done()
		if n := st.renewed.Load(); n != 1 {
			t.Fatalf("%d renewals; it was over after the first", n)
		}
	})
}

func TestWhatTheHostSleptIsReadPrecisely(t *testing.T) {
	t.Parallel()
	first := slept()
	for range 1000 {
		if d := slept() - first; d <= -grain || d >= grain {
			t.Fatalf("it was %s, and then %s more, of a host that did not sleep", first, d)
		}
	}
}

func TestAnOutageShorterThanTheTTLIsSurvived(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var st store
		s := st.start()
		down := errors.New("down")
		st.fail.Store(&down)
		time.Sleep(ttl * 9 / 10)
		st.fail.Store(nil)
		time.Sleep(ttl)
		if over(s) {
			t.Fatal("the session is over though its store answered before the deadline")
		}
		s.Abandon()
	})
}

func TestASessionThatEndedInTheStoreIsOverAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var st store
		s := st.start()
		gone := fmt.Errorf("gone: %w", fault.Fenced)
		st.fail.Store(&gone)
		start := time.Now()
		<-s.Done()
		if d := time.Since(start); d > ttl/renewals {
			t.Fatalf("it took %s", d)
		}
		s.Abandon()

		st.fail.Store(nil)
		told := st.start()
		start = time.Now()
		told.Lost()
		told.Lost()
		<-told.Done()
		if time.Since(start) != 0 {
			t.Fatal("a notice that the session is lost was not heeded at once")
		}
		told.Abandon()
	})
}

// Others may take a lost link for a death, so nothing is certain until a renewal that was sent over
// a new one succeeded, which is tried at once.
func TestASessionIsDoubtfulFromTheLossOfTheLineToARenewalOverTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var renewed atomic.Int64
		var fail atomic.Bool
		link := NewLink()
		s := Start(Config{
			ID: "x", TTL: ttl, Opened: opened(link), Link: link, Logger: slog.New(slog.DiscardHandler),
			Renew: func(context.Context) error {
				if fail.Load() {
					return fault.Unavailable
				}
				renewed.Add(1)
				return nil
			},
			End: func(context.Context) error { return nil },
		})
		defer func() { _ = s.Close(t.Context()) }()
		if s.Doubtful() {
			t.Fatal("a new session is doubtful")
		}
		for range 2 {
			link.Lost()
			if !s.Doubtful() {
				t.Fatal("it is certain without a link")
			}
			time.Sleep(ttl) // and renewals over other connections
			synctest.Wait()
			if !s.Doubtful() || over(s) {
				t.Fatal("a renewal without a link made it certain, or it is over")
			}
			fail.Store(true)
			link.Restored(link.Age())
			synctest.Wait()
			if !s.Doubtful() {
				t.Fatal("it is certain before it was renewed")
			}
			fail.Store(false)
			time.Sleep(ttl / retries)
			synctest.Wait()
			if s.Doubtful() {
				t.Fatal("it is doubtful after a renewal over the next link")
			}
		}
		link.Lost()
		before := renewed.Load()
		link.Restored(link.Age())
		synctest.Wait()
		if s.Doubtful() || renewed.Load() != before+1 {
			t.Fatalf("doubtful %t after %d renewals at once", s.Doubtful(), renewed.Load()-before)
		}
		age := link.Age() + 1
		link.Lost()
		link.Restored(age)
		link.Lost()
		link.Restored(age) // of the link before
		synctest.Wait()
		if !s.Doubtful() {
			t.Fatal("the news of an earlier link made it certain")
		}
	})
}
