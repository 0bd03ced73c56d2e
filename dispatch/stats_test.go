package dispatch

import (
	"fmt"
	"time"
)

// stats is a look inside.
type stats struct {
	InFlight, Ready, Running, Out, Retrying int
	Bytes, Oldest                           int64
	Finished, Failed                        uint64
	Longest                                 time.Duration
	Paused                                  bool
}

func (e *Engine) stats() stats {
	began := e.Longest()
	e.mu.Lock()
	defer e.mu.Unlock()
	s := stats{
		InFlight: e.sched.unfinished, Bytes: e.retained, Ready: e.sched.ready, Running: e.running, Out: e.outs.count,
		Retrying: len(e.sched.retries), Finished: e.done, Failed: e.failed, Paused: e.paused,
	}
	if !began.IsZero() {
		s.Longest = time.Since(began)
	}
	for _, in := range e.inputs {
		if h := in.tracker.head; h != nil && (s.Oldest == 0 || h.rec.Timestamp < s.Oldest) {
			s.Oldest = h.rec.Timestamp
		}
	}
	return s
}

// failing lists the records that wait for their next attempt: offset, key and last error.
func (e *Engine) failing() (all []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, n := range e.sched.retries {
		all = append(all, fmt.Sprintf("%d %s %v", n.rec.Offset, n.rec.Key, n.fail.err))
	}
	return all
}
