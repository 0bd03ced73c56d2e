package registrytest

import (
	"context"
	"errors"
	"time"

	"github.com/ringfence/ringfence/registry"
)

// slowness is what an answer takes in the test of deadlines: short beside the TTLs.
const slowness = 100 * time.Millisecond

// deadlineFromRequest looks at a session from a process whose answers take long. The store counts
// from when it got the request; a deadline that is counted from the answer is later than the end of
// the session in the store. Whatever the machine does, an answer that came is older than its way.
func deadlineFromRequest(s *suite) {
	if s.h.Far == nil {
		return
	}
	p := s.far()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	ttl := max(s.h.TTL, 2*time.Second).Truncate(time.Second) // which every store can count
	for range 3 {                                            // sessions that may end because the machine stalls
		x := s.session(p, ttl)
		renewals, last := 0, x.Deadline()
		for renewals < 2 && !isClosed(x.Done()) {
			end := x.Deadline()
			if left := time.Until(end); left > ttl-slowness {
				s.Fatalf("%d renewals: the deadline is %s away; the TTL is %s, and it was asked for %s ago at least", renewals, left, ttl, slowness)
			}
			if end.After(last) {
				renewals, last = renewals+1, end
			}
			<-tick.C
		}
		s.ok(x.Close(s.ctx()))
		if renewals == 2 {
			return
		}
	}
	s.Fatal("a session is not renewed")
}

// givenUp writes with contexts that end before, while and after the store answers. The writer believes each
// answer: after "nothing was done" it writes something else, and after a success it goes on.
func givenUp(s *suite) {
	const tries = 20
	p, direct := s.far(), s.open()
	done, refused := map[string]bool{}, map[string]bool{}
	for i := range tries {
		ctx, cancel := context.WithTimeout(s.Context(), 2*slowness*time.Duration(i)/tries)
		res, err := p.Apply(ctx, []registry.Txn{{Puts: []registry.Put{{Key: key(i), Value: []byte("x")}}}})
		if err == nil {
			err = res[0].Err
		}
		switch {
		case err == nil:
			done[key(i)] = true
		case errors.Is(err, registry.ErrUnavailable), errors.Is(err, registry.ErrConflict), errors.Is(err, registry.ErrFenced):
			refused[key(i)] = true
		}
		cancel()
	}
	s.put(p, "last", "x") // what was sent before it has arrived
	for i := range tries {
		there := s.get(direct, key(i)) != "<absent>"
		if there && refused[key(i)] {
			s.Errorf("write %d was said not to be done, and was", i)
		}
		if !there && done[key(i)] {
			s.Errorf("write %d was acknowledged, and is not there", i)
		}
	}
}
