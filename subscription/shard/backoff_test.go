package shard

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/dispatch"
)

// receiver accepts so many attempts in each tenth of a second, and refuses the rest.
type receiver struct {
	capacity          int // 0: without end
	tenth             int64
	taken             int
	accepted, refused int
}

func (r *receiver) refuses() bool {
	if tenth := time.Now().UnixMilli() / 100; tenth != r.tenth {
		r.tenth, r.taken = tenth, 0
	}
	if r.taken++; r.capacity > 0 && r.taken > r.capacity {
		r.refused++
		return true
	}
	r.accepted++
	return false
}

// press makes attempts for so long, one each millisecond if it may.
func (r *receiver) press(t *rate, d time.Duration) {
	r.accepted, r.refused = 0, 0
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if t.take() {
			t.answered(r.refuses())
		}
	}
}

func TestAReceiverThatRefusesMostIsAskedForLess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th, r := newRate(quiet()), &receiver{capacity: 10}
		defer th.end()
		r.press(th, 3*time.Second)
		r.press(th, 20*time.Second)
		if r.accepted < 1800 {
			t.Errorf("it accepts 100 a second, and was given %d in 20 s", r.accepted)
		}
		if r.refused > r.accepted+backoffFloor*20+20 {
			t.Errorf("%d were refused and %d accepted: no more than twice what it accepts, and %d a second, were to be tried", r.refused, r.accepted, backoffFloor)
		}

		r.capacity = 0
		r.press(th, 5*time.Second) // 200 a second, 400, 800, and no bound
		r.press(th, time.Second)
		if r.accepted < 990 {
			t.Errorf("it accepts what comes again, and was given %d in a second in which there were 1,000", r.accepted)
		}
		if th.watching.Load() || th.bounds.Load() {
			t.Error("answers are looked at although nothing was refused for seconds")
		}
	})
}

func TestWhatIsRefusedForAnotherReasonThanTheLoadBoundsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th, n, refused := newRate(quiet()), 0, 0
		defer th.end()
		for range 10_000 { // four of ten, for ever
			if th.take() {
				n++
				no := n%10 < 4
				if no {
					refused++
				}
				th.answered(no)
			}
			time.Sleep(time.Millisecond)
		}
		if n != 10_000 || refused == 0 {
			t.Errorf("%d attempts of 10,000", n)
		}
	})
}

func TestAReceiverThatRefusesAllKeepsAFewAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th, n := newRate(quiet()), 0
		defer th.end()
		for range 30_000 {
			if th.take() {
				n++
				th.answered(true)
			}
			time.Sleep(time.Millisecond)
		}
		about(t, "29 seconds at the least rate, and one before it", n, 29*backoffFloor+1000)
	})
}

// What is refused for another reason, or is hardly anything, says nothing of how much a receiver can take: when
// more comes of a sudden, all of it is tried.
func TestALoadThatRisesIsNotBoundByTheFewThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what   string
		each   time.Duration
		refuse func(n int) bool
	}{
		{"four of ten, for ever", 10 * time.Millisecond, func(n int) bool { return n%10 < 4 }},
		{"the few that there are", 200 * time.Millisecond, func(n int) bool { return n < 25 }},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				th, n := newRate(quiet()), 0
				defer th.end()
				try := func(times int, each time.Duration) (began int) {
					for range times {
						if th.take() {
							th.answered(c.refuse(n))
							n++
							began++
						}
						time.Sleep(each)
					}
					return began
				}
				try(int(5*time.Second/c.each), c.each)
				if began := try(1000, time.Millisecond); began != 1000 {
					t.Errorf("%d of 1,000 were tried in the second in which they came", began)
				}
			})
		})
	}
}

// The rate of the subscription stays the most, whatever is accepted.
func TestARateStaysTheMostWhereMostIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th, r := newRate(quiet()), &receiver{capacity: 1}
		defer th.end()
		th.set(100)
		s := within(nil, nil, nil)
		defer th.join(s, 0.5)()
		r.press(th, 10*time.Second)
		if n := r.accepted + r.refused; n > 32*10 || n < 25*10 {
			t.Errorf("%d attempts in 10 s of a receiver that accepts 10 a second; expected about 30 a second", n)
		}
		r.capacity = 0
		r.press(th, 5*time.Second)
		r.press(th, 10*time.Second)
		about(t, "its half of the rate", r.accepted, 500)
	})
}

// An outage that the circuit sees is none of the load, and no attempt of it counts here.
func TestAnOutageIsForgottenWithItsAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		away := true
		th, b := newRate(quiet()), newCircuit(quiet())
		defer th.end()
		defer b.end()
		s := within(&Limiter{circuit: b, rate: th}, nil,
			func(context.Context, *dispatch.Record) error {
				if away {
					return down{}
				}
				return nil
			})
		for i := range outageKeys {
			if b.open() {
				t.Fatalf("it is open after %d attempts", i)
			}
			r := &dispatch.Record{Attempt: 1}
			r.Key = []byte{byte(i)}
			if err := s.deliver(t.Context(), r, permit{}, false); err == nil {
				t.Fatal("it was delivered")
			}
		}
		if !b.open() || th.watching.Load() {
			t.Errorf("open %v, watching %v; expected an outage that is the circuit's alone", b.open(), th.watching.Load())
		}
		time.Sleep(2 * backoffWindow)
		away = false
		b.grant()
		if err := s.deliver(t.Context(), &dispatch.Record{Attempt: 1}, permit{}, false); err != nil {
			t.Fatal(err)
		}
		for i := range 1000 {
			if !th.take() {
				t.Fatalf("after the outage, attempt %d may not begin", i)
			}
		}
	})
}

// An outage is told at once; what is told otherwise is looked at once a second.
func TestAnOutageIsToldAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newCircuit(quiet())
		defer b.end()
		s := within(&Limiter{circuit: b}, nil, func(context.Context, *dispatch.Record) error { return down{} })
		if got := s.Deliveries(); got != nil {
			t.Errorf("told before anything was tried: %+v", got)
		}
		for i := range outageKeys {
			r := &dispatch.Record{Attempt: 1}
			r.Key = []byte{byte(i)}
			if err := s.deliver(t.Context(), r, permit{}, false); err == nil {
				t.Fatal("it was delivered")
			}
		}
		if got := s.Deliveries(); !b.open() || got == nil || got.HeldBack == nil {
			t.Errorf("the circuit is open: %v, and told is %+v; expected the outage", b.open(), got)
		}
	})
}

// Attempts are counted for people where anything bounds them, whatever that is.
func TestAttemptsAreCountedWhereAnythingBoundsThem(t *testing.T) {
	t.Parallel()
	th := newRate(quiet())
	defer th.end()
	at := NewEndpoint(0, 4)
	defer at.End()
	for what, c := range map[string]struct {
		cfg  Config
		most int
		want bool
	}{
		"nothing":             {want: false},
		"a throttle at rest":  {cfg: Config{Limits: Limits{Own: &Limiter{rate: th}}}, want: false},
		"the endpoint":        {cfg: Config{Limits: Limits{Endpoint: at}}, want: true},
		"its own concurrency": {most: 3, want: true},
	} {
		s := New(c.cfg)
		s.SetConcurrency(c.most)
		if got := s.limited(); got != c.want {
			t.Errorf("bounded by %s: counted is %v; want %v", what, got, c.want)
		}
	}
	th.set(1)
	if s := within(&Limiter{rate: th}, nil, nil); !s.limited() {
		t.Error("bounded by a rate: not counted")
	}
}
