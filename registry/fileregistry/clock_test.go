package fileregistry

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/ringfence/ringfence/internal/hook"
	"github.com/ringfence/ringfence/internal/vfs"
	"github.com/ringfence/ringfence/registry"
)

// asIfWallJumped is a reading of the clock as it would have been had the wall clock shown d more
// at that moment: its monotonic part is the same. (A time with one holds the seconds of its wall
// part above 30 bits of nanoseconds, and the highest bit says that it has one.)
func asIfWallJumped(t *testing.T, at time.Time, d time.Duration) time.Time {
	t.Helper()
	jumped := at
	wall := (*uint64)(unsafe.Pointer(&jumped)) // the first word
	*wall += uint64(d/time.Second) << 30
	if got := jumped.Sub(at); got != 0 {
		t.Fatalf("%s: the monotonic reading moved by %s", jumped, got)
	}
	if got := jumped.Round(0).Sub(at.Round(0)); got != d {
		t.Fatalf("%s: the wall clock moved by %s, expected %s", jumped, got, d)
	}
	return jumped
}

// Whatever the wall clock does between two readings, sessions end by the monotonic one.
func TestAWallClockThatJumpsHasNoEffectOnSessions(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	for name, jump := range map[string]time.Duration{"a year ahead": year, "a year back": -year} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := open(new(hook.Gate).With(t.Context()), Config{FS: vfs.NewMem(1)})
			if err != nil {
				t.Fatal(err)
			}
			s.gate.Shut() // it would end a session whose deadline is past
			r := registry.New(s)
			defer r.Close()
			opened, err := r.OpenSession(t.Context(), time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			x := opened.(*session)
			soon, past := time.Now().Add(time.Minute), time.Now().Add(-time.Minute)
			for at, alive := range map[time.Time]bool{soon: true, past: false} {
				deadline := asIfWallJumped(t, at, jump)
				x.deadline.Store(&deadline)
				if x.alive() != alive {
					t.Errorf("a session with a deadline at %s is alive: %v", deadline, !alive)
				}
			}
			deadline := asIfWallJumped(t, soon, jump)
			x.deadline.Store(&deadline)
			if !x.renew() {
				t.Error("it can't be renewed")
			}
			judged(t, s, x, jump)
		})
	}
}

// judged has another process look at the heartbeat of x, which it saw first before the jump. The keeper
// of s is frozen.
func judged(t *testing.T, s *store, x *session, jump time.Duration) {
	t.Helper()
	word := x.slot.Load()
	other := &store{handle: "other", ctl: s.ctl, core: s.core, quit: s.quit, log: s.log}
	k := newSessionKeeper(other)
	defer k.cancel()
	for ago, dead := range map[time.Duration]bool{time.Second: false, 2 * time.Minute: true} {
		since := asIfWallJumped(t, time.Now().Add(-ago), jump)
		k.last = asIfWallJumped(t, time.Now(), jump)
		k.seen = map[string]sighting{x.info.id: {word: word, since: since}}
		before := x.slot.Load()
		k.others([]sessionInfo{x.info}, time.Minute)
		if is := x.slot.Load()&1 == 1; is != dead {
			t.Errorf("a heartbeat that stood still for %s of a minute was judged dead: %v", ago, is)
		}
		x.slot.Store(before)
	}
}

// A store to shared memory can take long too: the page has to be read from the disk, or the process
// does not run. Others count from what they saw, which is as early as the store was asked for.
func TestADeadlineCountsFromWhenTheStoreWasAskedFor(t *testing.T) {
	t.Parallel()
	const ttl, slow = 4 * time.Second, 300 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		var late atomic.Bool
		slowly := hook.Access{BeforeStore: func() {
			if late.Load() {
				time.Sleep(slow)
			}
		}}
		s, err := open(slowly.With(t.Context()), Config{FS: vfs.NewMem(1)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		late.Store(true)
		asked := time.Now()
		x, err := s.OpenSession(t.Context(), ttl)
		if err != nil {
			t.Fatal(err)
		}
		if over := x.Deadline().Sub(asked.Add(ttl)); over > 0 || time.Since(asked) < slow {
			t.Errorf("opened within %s, the deadline counts from %s after it was asked for", time.Since(asked), over)
		}
		for renewals, last := 0, x.Deadline(); renewals < 3; {
			time.Sleep(time.Millisecond)
			if end := x.Deadline(); end.After(last) {
				if left := time.Until(end); left > ttl-slow {
					t.Errorf("renewed %s ago at least, the deadline is %s away, the TTL is %s", slow, left, ttl)
				}
				renewals, last = renewals+1, end
			}
		}
		late.Store(false)
	})
}
