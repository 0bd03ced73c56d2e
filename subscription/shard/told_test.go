package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/commitlog"
	"github.com/ringfence/ringfence/commitlog/memlog"
	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/subscription/core"
)

// failures collects what a shard tells.
type failures struct {
	mu  sync.Mutex
	all []string
}

func (f *failures) add(d dispatch.Failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, fmt.Sprintf("%s %d %s %d: %v", d.Outcome, d.Offset, d.Key, d.Attempt, d.Err))
}

func (f *failures) told() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.all)
}

func TestShardTellsWhatBecomesOfAFailure(t *testing.T) {
	t.Parallel()
	wrong := errors.New("wrong")
	r := func() *dispatch.Record {
		return &dispatch.Record{Attempt: 1, Record: commitlog.Record{Offset: 3, Key: []byte("a")}}
	}
	for name, c := range map[string]struct {
		policy core.DeadLetters
		err    error // of each attempt
		want   []string
	}{
		"attempts":  {core.Block, wrong, []string{"tried again 3 a 1: wrong", "parked 3 a 1: wrong", "dead letter 3 a 2: wrong"}},
		"dropped":   {core.Drop, wrong, []string{"tried again 3 a 1: wrong", "parked 3 a 1: wrong", "dropped 3 a 2: wrong"}},
		"permanent": {core.Block, Permanent(wrong), []string{"dead letter 3 a 1: wrong"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var told failures
				log := memlog.New()
				s := New(Config{
					Grant: Grant{Name: "billing", Set: "k3m9q2xt", Epoch: 1}, Topics: Topics{newTopic(t, log, "journal"), newTopic(t, log, "dead"), newTopic(t, log, "decisions")},
					Policy:  Policy{Terms: Terms{Retry: policy(time.Second, time.Second, -1, 2), DeadLetters: c.policy}, Failed: told.add},
					Handler: func(context.Context, *dispatch.Record) error { return c.err },
				})
				ctx, stop := context.WithCancel(t.Context())
				over := make(chan error, 1)
				go func() { over <- s.Run(ctx) }()
				<-s.Started()
				// As the engine does: an attempt, and by the policy to OnHeld.
				err := s.Handle(t.Context(), r())
				next := s.cfg.Retry.Next(1, 0, err)
				if err := s.Held(t.Context(), r(), dispatch.Held{Attempts: 1, Since: time.Now(), Next: time.Now().Add(next.Pause), Err: err, Why: next.Why}); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				stop()
				if err := <-over; err != nil {
					t.Error(err)
				}
				if got := told.told(); !slices.Equal(got, c.want) {
					t.Errorf("told %q; expected %q", got, c.want)
				}
			})
		})
	}
}

func TestCircuitTellsThatDeliveriesAreHeldBackAndGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told failures
		limits := NewLimiter(quiet())
		defer limits.End()
		limits.Tells(told.add)
		b := limits.circuit
		b.ended(0, 1, true, unreached{})
		b.ended(b.period.Load(), 1, true, nil)
		if got := told.told(); !slices.Equal(got, []string{"held back -1  0: no connection", "goes on -1  0: <nil>"}) {
			t.Errorf("told %q", got)
		}
	})
}

// unreached is an outage without a connection.
type unreached struct{}

func (unreached) Error() string   { return "no connection" }
func (unreached) Outage() bool    { return true }
func (unreached) Unreached() bool { return true }

// noAttemptError says that the attempt was none, as errors of other packages do.
type noAttemptError struct{}

func (noAttemptError) Error() string                    { return "not begun" }
func (noAttemptError) Uncounted() (time.Duration, bool) { return time.Second, true }

func TestParkedRecordKeepsItsAttemptsAfterAnyUncountedError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told failures
		log, calls := memlog.New(), 0
		s := New(Config{
			Grant: Grant{Name: "billing", Set: "k3m9q2xt", Epoch: 1}, Topics: Topics{newTopic(t, log, "journal"), newTopic(t, log, "dead"), newTopic(t, log, "decisions")},
			Policy: Policy{Terms: Terms{Retry: policy(time.Second, time.Second, -1, 2)}, Failed: told.add},
			Handler: func(context.Context, *dispatch.Record) error {
				if calls++; calls < 5 {
					return noAttemptError{}
				}
				return nil
			},
		})
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { over <- s.Run(ctx) }()
		<-s.Started()
		r := &dispatch.Record{Attempt: 1, Record: commitlog.Record{Offset: 3, Key: []byte("a")}}
		if err := s.Held(t.Context(), r, dispatch.Held{Attempts: 1, Since: time.Now(), Next: time.Now(), Err: errors.New("wrong"), Why: dispatch.HeldLong}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
		if got := told.told(); calls != 5 || !slices.Equal(got, []string{"parked 3 a 1: wrong"}) {
			t.Errorf("after %d attempts told %q; expected 5, and nothing but that it was parked", calls, got)
		}
	})
}
