package shard

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/ringfence/ringfence/dispatch"
	"github.com/ringfence/ringfence/subscription/core"
)

// handout is a parked record on its way to an attempt, with the tokens that it was given.
type handout struct {
	core.Deliver
	permit permit
}

const (
	// dayEvery is how often the pump looks at the time of day while a record is to become due: the clock may have
	// been set forward, or the host suspended, and no timer says so.
	dayEvery = time.Minute
	// parkedAtOnce is how many parked records are delivered at once.
	parkedAtOnce = 8
	// mostLetters bounds what waits for the dead-letter topic; at it the pump begins no more attempts. Dead
	// letters of main records are not held back: each keeps a handler of the engine busy, so they are few.
	mostLetters = 64
)

// pump delivers parked records when they are due.
func (s *Shard) pump(ctx context.Context, wg *sync.WaitGroup) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		handed, wait := s.handOut()
		for _, h := range handed {
			wg.Go(func() { s.attempt(ctx, h) }) // joined by Run
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-timer.C:
		}
	}
}

// handOut returns the parked records to attempt now, and how long it is until the next is due.
func (s *Shard) handOut() ([]handout, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.nowLocked().UnixMilli()
	free := s.slots.atMost(parkedAtOnce) - s.running
	if s.drained != nil || len(s.letters) >= mostLetters {
		free = 0 // each copy that is done wakes the pump
	}
	due, waiting := s.st.Due(now, free)
	s.takeDue(permit{})
	handed := s.handed
	s.handed = nil
	s.running += len(handed)
	if !waiting || free <= len(handed) {
		return handed, time.Hour
	}
	return handed, time.Duration(min(max(0, due-now), dayEvery.Milliseconds())) * time.Millisecond
}

// takeDue hands on what Due has found; the caller holds mu.
func (s *Shard) takeDue(p permit) (found bool) {
	for _, e := range s.st.Effects() {
		s.handed = append(s.handed, handout{e.(core.Deliver), p}) // Due has no other effects
		found = true
	}
	return found
}

// attempt delivers one parked record, or finishes it undelivered when the filter is false of it by now. A redriven or
// edited one is delivered because an operator decided so, whatever the filter says.
func (s *Shard) attempt(ctx context.Context, h handout) {
	d := h.Deliver
	asked, err := false, errExited
	defer func() {
		if asked {
			if v := recover(); v != nil {
				err = fmt.Errorf("the handler panicked: %v", v)
				s.log.Error("a handler panicked", "storage", d.ID.Storage, "partition", d.ID.Partition, "offset", d.ID.Offset, "panic", v, "stack", string(debug.Stack()))
			}
			s.attempted(ctx, d, err)
		}
		s.cfg.Own.ofCircuit().turnOver()
		s.do(func(*core.State) { s.running-- })
	}()
	rec, unread := s.payload(ctx, core.Payload{From: core.InJournal, Place: d.Place}, d.ID.Origin)
	if unread != nil {
		h.permit.release()
		return // ctx is over, or the shard
	}
	rec.Offset = d.ID.Offset
	r := dispatch.Record{Record: rec, Storage: int(d.ID.Storage), Partition: int(d.ID.Partition), Attempt: d.Attempt}
	asked = true
	err = s.parked(ctx, &r, d.ID.Round, h.permit)
}

var errEarly = errors.New("its time has not come")

var errExited = errors.New("the handler ended its goroutine (runtime.Goexit)")

// parked delivers a parked record if it may be delivered now.
func (s *Shard) parked(ctx context.Context, r *dispatch.Record, round int, p permit) error {
	wanted, err := true, error(nil)
	if round == 0 {
		wanted, err = s.wanted(r)
	}
	if err == nil && wanted {
		err = s.timely(r, round)
	}
	if err != nil || !wanted {
		p.release()
		return err
	}
	return s.deliver(ctx, r, p, true)
}

// timely returns why a parked record may not be delivered now.
func (s *Shard) timely(r *dispatch.Record, round int) error {
	now := s.now()
	switch at, err := notBefore(&r.Record, func() time.Time { return now }); {
	case err != nil && round == 0:
		return err
	case !at.IsZero():
		return spared{errEarly, min(at.Sub(now), s.terms.Load().Retry.Longest())}
	}
	return nil
}
