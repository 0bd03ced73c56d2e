package shard

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/dispatch"
)

type down struct{ wait time.Duration }

func (down) Error() string               { return "down" }
func (down) Outage() bool                { return true }
func (d down) RetryAfter() time.Duration { return d.wait }

// cut says that nothing was sent.
type cut struct{ down }

func (cut) Unreached() bool { return true }

func newBreaker(t *testing.T) *circuit {
	b := newCircuit(slog.New(slog.DiscardHandler))
	t.Cleanup(b.end)
	return b
}

// grant gives a turn while it is open.
func (b *circuit) grant() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.granted = b.open()
}

// try begins an attempt, in a turn of its own while it is open.
func (b *circuit) try() int64 {
	b.grant()
	period, _ := b.begin()
	return period
}

// attempt is one that begins and ends at once.
func (b *circuit) attempt(line uint64, first bool, err error) bool {
	return b.ended(b.try(), line, first, err).uncounted
}

func TestAnOutageIsWhatSeveralKeysTellWithNoOtherAnswerAmongThem(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, c := range []struct {
		name  string
		steps func(b *circuit)
		open  bool
	}{
		{"sixteen keys at once", func(b *circuit) {
			for line := range uint64(outageKeys) {
				b.attempt(line, true, down{})
			}
		}, true},
		{"one less", func(b *circuit) {
			for line := range uint64(outageKeys - 1) {
				b.attempt(line, true, down{})
			}
		}, false},
		{"three keys in two seconds", func(b *circuit) {
			for line := range uint64(3) {
				b.attempt(line, true, down{})
				time.Sleep(time.Second)
			}
		}, true},
		{"two keys for a day", func(b *circuit) {
			for i := range uint64(100) {
				b.attempt(i%2, true, down{})
				time.Sleep(time.Hour)
			}
		}, false},
		{"fifteen keys again and again", func(b *circuit) {
			for i := range uint64(100) {
				b.attempt(i%(outageKeys-1), true, down{})
				time.Sleep(time.Second / 10)
			}
		}, false},
		{"many keys again, after answers among them", func(b *circuit) {
			for i := range uint64(90) {
				if b.attempt(i%30, true, down{}); i < 30 && i%10 == 9 {
					b.attempt(99, true, nil)
				}
			}
		}, false},
		{"attempts that are not the first", func(b *circuit) {
			for line := range uint64(100) {
				b.attempt(line, false, down{})
			}
		}, false},
		{"one key, of which nothing was sent", func(b *circuit) {
			if b.attempt(1, false, fmt.Errorf("no connection: %w", cut{})); !b.open() {
				return
			}
			b.attempt(1, false, nil)
		}, true},
		{"other errors", func(b *circuit) {
			for line := range uint64(100) {
				b.attempt(line, true, broken)
			}
		}, false},
		{"a success among them", func(b *circuit) {
			for line := range uint64(100) {
				b.attempt(line, true, down{})
				if line%10 == 9 {
					b.attempt(line, true, nil)
				}
			}
		}, false},
		{"another answer among them", func(b *circuit) {
			for line := range uint64(100) {
				b.attempt(line, true, down{})
				if line%10 == 9 {
					b.attempt(line, true, broken)
				}
			}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBreaker(t)
				if c.steps(b); (b.period.Load() > 0) != c.open {
					t.Errorf("it opened and closed %d times; expected it to open: %t", b.period.Load(), c.open)
				}
				b.end()
			})
		})
	}
}

func opened(t *testing.T) *circuit {
	t.Helper()
	b := newBreaker(t)
	for line := range uint64(outageKeys) {
		if !b.attempt(line, true, down{}) {
			t.Errorf("attempt %d counts, and nobody was answered", line)
		}
	}
	if !b.open() {
		t.Fatal("it is closed")
	}
	return b
}

func TestWhileItIsOpenNoAttemptCountsButOneWithAnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, answer := range []error{nil, errors.New("malformed")} {
			b := opened(t)
			if !b.attempt(1, false, down{}) || !b.attempt(2, true, down{}) || !b.open() {
				t.Error("an attempt in an outage counts")
			}
			if b.attempt(3, true, answer) || b.open() {
				t.Errorf("the answer %v does not count, or does not close it", answer)
			}
			if !b.attempt(4, true, down{}) || b.open() {
				t.Error("one failure counts, or opens it again")
			}
			b.end()
		}
	})
}

// A slow answer of before the outage says nothing of now.
func TestAnAnswerOfBeforeTheOutageDoesNotEndIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t)
		early := b.try()
		for line := range uint64(outageKeys) {
			b.attempt(line, true, down{})
		}
		if b.ended(early, 99, true, nil).uncounted || !b.open() {
			t.Error("it closed, or the success did not count")
		}
		b.end()
	})
}

// counter is an engine that has always something to try.
type counter struct {
	b     *circuit
	asked []time.Duration
	since time.Time
	hang  bool
	err   error
}

func (*counter) Pause()    {}
func (*counter) Resume()   {}
func (*counter) Limit(int) {}

func (*counter) SetRetry(dispatch.Retry)           {}
func (*counter) Hurry(func(*dispatch.Record) bool) {}

func (c *counter) TryOne() bool {
	c.asked = append(c.asked, time.Since(c.since))
	at := c.b.begin0()
	if !c.hang {
		go c.b.ended(at, 1, true, c.err)
	}
	return true
}

// begin0 is begin for who holds mu.
func (b *circuit) begin0() int64 {
	b.probes++
	b.begun = time.Now()
	return b.period.Load()
}

func TestOneAtATimeIsTriedAndNotBeforeTheEndpointWantsIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		err  error
		hang bool
		want string
	}{
		{"that fail at once", down{}, false, "[100ms 300ms 700ms 1.5s 2.5s 3.5s 4.5s]"},
		{"that ask for time", down{4 * time.Second}, false, "[100ms 4.5s]"},
		{"that hang", down{}, true, "[100ms 2.5s 4.5s]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := opened(t)
				e := &counter{b: b, since: time.Now(), err: c.err, hang: c.hang}
				idle, s := within(nil, nil, nil), within(nil, nil, nil)
				idle.paused, idle.engine = ordered|heldBack, &counter{b: b}
				s.paused, s.engine = heldBack, e
				s.quiesce() // nothing parked is tried
				b.mu.Lock()
				b.shards = []*Shard{idle, s}
				b.mu.Unlock()
				time.Sleep(5 * time.Second)
				b.end()
				b.mu.Lock()
				defer b.mu.Unlock()
				if got := fmt.Sprint(e.asked); got != c.want {
					t.Errorf("tried at %s; expected %s", got, c.want)
				}
				if n := len(idle.engine.(*counter).asked); n > 0 {
					t.Errorf("%d were tried of a shard that is paused by its definition", n)
				}
			})
		})
	}
}
