package shard

import (
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/dispatch"
)

// greedy is a process that begins attempts whenever it may.
type greedy struct {
	*rate
	mu    sync.Mutex
	begun int
	stop  chan struct{}
}

func newGreedy(t *testing.T, rate int) *greedy {
	t.Helper()
	g := &greedy{rate: newRate(quiet()), stop: make(chan struct{})}
	g.set(float64(rate))
	return g
}

// own has it own a shard of that part of the partitions.
func (g *greedy) own(part float64) func() {
	e := &eager{g: g, may: make(chan bool, 64)}
	s := within(&Limiter{rate: g.rate}, nil, nil)
	s.engine = e
	unjoin := g.join(s, part)
	over := make(chan struct{})
	go e.run(s, over)
	return func() {
		close(over)
		unjoin()
	}
}

// since is how many it began since it was asked last, those of this instant among them: what falls due in
// it may otherwise begin before or after the look.
func (g *greedy) since() int {
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.begun
	g.begun = 0
	return n
}

// eager is an engine with a backlog.
type eager struct {
	g   *greedy
	may chan bool
}

func (e *eager) Pause()                          { e.may <- false }
func (e *eager) Resume()                         { e.may <- true }
func (*eager) Limit(int)                         {}
func (*eager) SetRetry(dispatch.Retry)           {}
func (*eager) Hurry(func(*dispatch.Record) bool) {}
func (*eager) TryOne() bool                      { return false }

func (e *eager) run(s *Shard, over chan struct{}) {
	may := true
	for {
		for may && s.takeTokens(new(permit)) {
			e.g.mu.Lock()
			e.g.begun++
			e.g.mu.Unlock()
			if !e.g.bounds.Load() {
				time.Sleep(time.Millisecond) // or it would never end
			}
			select {
			case may = <-e.may:
			case <-over:
				return
			default:
			}
		}
		select {
		case may = <-e.may:
		case <-over:
			return
		}
	}
}

func about(t *testing.T, what string, got int, want float64) {
	t.Helper()
	if math.Abs(float64(got)-want) > 2+want/50 {
		t.Errorf("%s: %d attempts; expected about %g", what, got, want)
	}
}

func TestTheProcessesTogetherKeepToTheRateWhoeverHasWhat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := newGreedy(t, 200), newGreedy(t, 200)
		defer a.end()
		defer b.end()
		defer a.own(0.25)()
		leave := b.own(0.75)
		const span = 10 * time.Second
		time.Sleep(span)
		about(t, "a quarter of the partitions", a.since(), 500)
		about(t, "three quarters", b.since(), 1500)

		leave() // it dies, and the other one takes over
		defer a.own(0.75)()
		time.Sleep(span)
		about(t, "all partitions", a.since(), 2000)
		if n := b.since(); n > 0 {
			t.Errorf("%d attempts of a process without a shard", n)
		}
		if b.take(); b.take() {
			t.Error("it has more than one token without a part")
		}

		a.set(20)
		time.Sleep(span)
		about(t, "a tenth of that rate", a.since(), 200)
		a.set(0)
		time.Sleep(time.Second)
		if n := a.since(); n < 1500 {
			t.Errorf("without a bound there were %d attempts", n)
		}
		a.set(20)
		time.Sleep(span)
		about(t, "a rate once more", a.since(), 200)
	})
}

// Processes that are started again and again begin no more than one that lives.
func TestAStartIsNoBurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := 0
		for range 100 {
			g := newGreedy(t, 1000)
			leave := g.own(1)
			time.Sleep(10 * time.Millisecond)
			leave()
			g.end()
			begun += g.since()
		}
		if begun > 1000 {
			t.Errorf("%d attempts in a second, at a rate of 1000", begun)
		}
	})
}

// What was not used for an hour is gone but for a tenth of a second's worth.
func TestABurstIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := newRate(quiet())
		defer th.end()
		th.set(1000)
		defer th.join(within(nil, nil, nil), 0.5)()
		time.Sleep(time.Hour)
		n := 0
		for th.take0() {
			n++
		}
		if n != 50 {
			t.Errorf("%d attempts at once; expected a tenth of a second's worth of its half of 1000", n)
		}
	})
}

// take0 is take for a throttle with shards that follow nothing.
func (t *rate) take0() bool {
	t.mu.Lock()
	enough := false
	if t.refill(time.Now()); t.tokens < 1 {
		enough = true
	}
	t.mu.Unlock()
	return !enough && t.take()
}

func TestARateThatIsLowLetsEachProcessBegin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var all []*greedy
		for range 4 {
			g := newGreedy(t, 1)
			defer g.end()
			defer g.own(0.25)()
			all = append(all, g)
		}
		time.Sleep(100*time.Second + time.Millisecond)
		for i, g := range all {
			about(t, "process "+string(rune('0'+i)), g.since(), 25)
		}
	})
}

// A shard that comes while there are no tokens waits with the others, and asks for none again and again.
func TestAShardThatComesWhileTheRateIsUsedUpWaitsToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := newRate(quiet())
		defer th.end()
		th.set(1)
		one := within(nil, nil, nil)
		defer th.join(one, 0.5)()
		for th.take() {
		}
		other := within(nil, nil, nil)
		defer th.join(other, 0.5)()
		if a, b := one.held(), other.held(); a != throttled || b != throttled {
			t.Errorf("held back for %b, and the one that came for %b; want both for the rate", a, b)
		}
		time.Sleep(3 * time.Second)
		if a, b := one.held(), other.held(); a != 0 || b != 0 {
			t.Errorf("held back for %b and %b when there are tokens", a, b)
		}
	})
}

// held says for what a shard delivers nothing.
func (s *Shard) held() pauses {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paused
}

// Who takes partitions over begins at their rate from then on: what was not used before was not its own.
func TestATakeoverIsNoBurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := newRate(quiet())
		defer th.end()
		th.set(1000)
		defer th.join(within(nil, nil, nil), 0.1)()
		time.Sleep(time.Hour)
		defer th.join(within(nil, nil, nil), 0.9)()
		n := 0
		for th.take0() {
			n++
		}
		if n != 10 {
			t.Errorf("%d attempts at once; expected a tenth of a second's worth of its tenth of 1000", n)
		}
	})
}

// People see to what the answers of a receiver have brought the attempts down.
func TestWhatAnswersBoundIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th, r := newRate(quiet()), &receiver{capacity: 1}
		defer th.end()
		s := within(&Limiter{rate: th}, nil, nil)
		defer th.join(s, 1)()
		if got := s.Deliveries(); got != nil {
			t.Errorf("told before the first answer: %+v", got)
		}
		r.press(th, 10*time.Second)
		got := s.Deliveries()
		if bound := th.backedOff(); bound <= 0 || got == nil || got.Eased != round(bound) {
			t.Errorf("told %+v; expected it to be backed off to %g", got, bound)
		}
	})
}
