package core

import (
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/registry"
)

// A step has two halves. take lets an event change what the member knows, and stops what may not go on;
// settle then looks at everything and decides what comes next. So a hint that is lost, or comes late or
// twice, does no harm: knowledge decides, and a reading renews all of it. The order in settle matters: what
// time has ended comes before what it would allow, the session before the membership, that before the units,
// and the writes of all of them leave in one batch at the end.

// Step takes an event and returns the effects to carry out, in order.
func (s *State) Step(in Input) []Effect {
	if s.exited {
		return nil
	}
	s.step++
	s.now, s.wall, s.out = max(in.Now, s.now), in.Wall, nil
	if s.timer != 0 && s.now >= s.timer {
		s.timer, s.touched = 0, true
	}
	s.take(in.Event)
	s.settle()
	return s.out
}

func (s *State) take(event Event) {
	switch ev := event.(type) {
	case Renewed:
		if ev.Session == s.session {
			s.lease = ev.Lease // also sooner: the host was suspended
		}
	case Changed:
		s.wantLoad = true
	case Tick:
		s.touched = true
	case Loaded:
		s.loaded(ev)
	case Applied:
		s.applied(ev)
	case SessionOpened:
		s.sessionOpened(ev)
	case SessionLost:
		if ev.Session == s.session && ev.Session != "" {
			s.loseSession("the session ended")
		}
	case Progress:
		for i := range ev.Units {
			s.progress(&ev.Units[i])
		}
	case UnitEnded:
		s.unitEnded(&ev)
	case UnitStuck:
		s.unitStuck(&ev)
	case Grown:
		s.grown(ev.Layout)
	case Stop:
		s.stop()
	}
}

// settle does what time and the new state ask for. Its order matters: a lease that ran out first,
// and all writes of the step in one batch last.
func (s *State) settle() {
	s.checkLease()
	if s.storeRetry != 0 && s.now >= s.storeRetry {
		s.storeRetry = 0
	}
	if s.sweepAt != 0 && s.now >= s.sweepAt {
		s.sweepAt, s.wantLoad = 0, true
	}
	if s.touched {
		for n := range s.units {
			s.late(n)
		}
	}
	s.letGo()
	s.open()
	s.join()
	s.grow()
	if s.ready() && s.touched && !s.small() {
		s.announce()
		s.expireAbsent()
		s.gate()
		s.pass()
		s.replan()
		s.writePlan()
		for n := range s.units {
			s.reconcile(n)
		}
	}
	s.touched = false
	s.commit()
	s.leave()
	s.flush()
	s.load()
	s.arm()
}

// ready reports whether there is a membership and a view to act on.
func (s *State) ready() bool {
	return s.joined && s.viewStep != 0 && s.view.Meta != nil && s.self.open == 0 && !s.blocked() && !s.exited
}

func (s *State) blocked() bool { return s.storeRetry > s.now }

// storeFailed starts or prolongs a pause of all store calls, and asks for a look when it is over.
func (s *State) storeFailed(doing string, err error) {
	if errors.Is(err, registry.ErrClosed) {
		s.exit(fmt.Errorf("group %q: %s: %w", s.cfg.Group.Name(), doing, err))
		return
	}
	if s.storeFailures == 0 {
		s.out = append(s.out, Report{Kind: Trouble, Unit: -1, Text: doing + " failed; retrying", Err: err})
	}
	s.storeRetry = s.now + backoff(s.storeFailures, retryStore)
	s.storeFailures++
	s.wantLoad = true
}

// storeWorks ends the pause. A reading that succeeds does not end one that a write began: a full
// disk can still be read.
func (s *State) storeWorks(writing bool) {
	if writing || !s.writesFail {
		s.storeFailures, s.storeRetry, s.writesFail = 0, 0, false
	}
}

func backoff(failures int, most time.Duration) time.Duration {
	return min(retryFirst<<min(failures, 10), most)
}

func (s *State) load() {
	if s.exited || !s.wantLoad || s.loading != 0 || s.blocked() {
		return
	}
	s.nextID++
	s.wantLoad, s.loading, s.loadStep = false, s.nextID, s.step
	s.out = append(s.out, Load{ID: s.loading, Layout: s.wantLayout})
}

// flush sends the writes of this step as one Apply.
func (s *State) flush() {
	if len(s.batch) == 0 || s.exited {
		return
	}
	s.nextID++
	txns := make([]registry.Txn, len(s.batch))
	for i := range s.batch {
		s.batch[i].sent = s.step
		txns[i] = s.batch[i].txn
	}
	s.pending = append(s.pending, call{id: s.nextID, writes: s.batch})
	s.batch = nil
	s.out = append(s.out, Apply{ID: s.nextID, Txns: txns})
}

// arm sets the timer to the next moment at which time alone changes something. What is due already
// was handled in this step or waits for an event.
func (s *State) arm() {
	if s.exited {
		return
	}
	var at time.Duration
	next := func(t time.Duration) {
		if t > s.now && (at == 0 || t < at) {
			at = t
		}
	}
	if s.session != "" {
		next(s.leaseEnd())
	}
	next(s.storeRetry)
	next(s.sweepAt)
	next(s.planAt())
	next(s.passAt())
	next(s.calmUntil)
	next(s.absentAt())
	if s.leaving {
		next(s.leaveUntil)
		next(s.joinUntil)
	}
	dirty := false
	for n := range s.units {
		u := &s.units[n]
		dirty = dirty || u.dirty
		next(u.deadline)
		next(u.waitTill)
		next(u.evictAt)
		if u.worker == none {
			next(u.retryAt)
		}
	}
	if dirty && !s.committing && s.joined {
		next(s.commitAt)
	}
	if at != 0 && at != s.timer {
		s.timer = at
		s.out = append(s.out, SetTimer{At: at})
	}
}

// exit ends the member. Workers that still run are given the reason.
func (s *State) exit(err error) {
	if s.exited {
		return
	}
	cause := err
	if cause == nil {
		cause = fmt.Errorf("member %q left: %w", s.cfg.Member, registry.ErrClosed)
	}
	for n := range s.units {
		s.stopWorker(n, cause)
	}
	s.exited = true
	s.batch = nil
	e := Exit{Err: err, Session: s.session, Doubt: s.doubt || s.joining} // a write may land later
	if s.joined {
		t := s.cfg.Group.WithdrawTxn(s.cfg.Member, s.member)
		e.Withdraw = &t
	}
	s.out = append(s.out, e)
}
